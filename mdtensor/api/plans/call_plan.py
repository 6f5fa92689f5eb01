"""Plans of calls: a front end's programs, prepared ahead."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.api.arrays import cupy_arrays, invalidation
from mdtensor.api.arrays.operands import array_module, spec_of
from mdtensor.api.calls import program_calls
from mdtensor.api.calls.launchers import telling
from mdtensor.api.calls.program_calls import ready_for, suited
from mdtensor.api.engine import tuning_mode
from mdtensor.api.engine.tuning_mode import Steps
from mdtensor.api.parts.linked_calls import LinkedCalls, linked, planned
from mdtensor.api.plans.bound_arguments import ArgumentSlots, stand_ins_of
from mdtensor.api.plans.plan import Plan
from mdtensor.api.plans.signature import listed
from mdtensor.errors import ShapeError, TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.stage_timer import stage
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.python.tuples import as_tuple

Array = Any


class CallPlan(Plan):
    """The plan of a call of a front end's function.

    Where the function does nothing but run programs on its operands and on what they gave, the plan
    runs these as one; otherwise it calls the function, and its kernels are those that the call will
    run.
    """

    def __init__(self, label: str, call: str, arguments: ArgumentSlots, xp: Any = np) -> None:
        seen, returned = planned(arguments, arguments.stand_ins)
        if not seen:
            raise TranslationError(
                f"a call of {label} on these operands runs no kernels", hint="call it without plan"
            )
        self._calls = [suited(each.request.program, xp).steps for each in seen]
        md_homs = dict.fromkeys(step.md_hom for steps in self._calls for step in steps)
        results = [array for array in as_tuple(returned) if hasattr(array, "strides")]
        super().__init__(
            label,
            call,
            tuple(map(spec_of, arguments.stand_ins)),
            tuple(map(spec_of, results)),
            tuple(md_hom for md_hom in md_homs if 0 not in md_hom.extents.values()),
        )
        self._arguments = arguments
        self._linked: LinkedCalls | None = None
        with suppress(TranslationError):
            values = as_tuple(returned)
            is_several = isinstance(returned, tuple) and len(values) > 1
            found = linked(seen, arguments.stand_ins, values if is_several else (returned,))
            found.program(self.specs, np)  # which may raise as well
            self._linked = found if found.reads(len(self.specs)) else None

    def calls(self) -> list[Steps]:
        """The steps of the call's programs."""
        return self._calls

    @property
    def program(self) -> Program | None:
        """The plan as one program on the operands in order; None if the call is more than that."""
        if self._linked is None or self._linked.constants:
            return None
        return self._linked.program(self.specs, np)

    def arguments_of(self, specs: Sequence[TensorSpec]) -> ArgumentSlots:
        """The call's arguments for operand specs, which must have the plan's shapes.

        Raises ShapeError for other shapes and types.
        """
        due = [(spec.shape, spec.dtype) for spec in map(spec_of, self._arguments.stand_ins)]
        if [(spec.shape, spec.dtype) for spec in specs] != due:
            raise ShapeError(
                "an operand is not what the plan was made for",
                text=self.label,
                notes=[f"given {listed(specs)}, the plan has {listed(self._takes.specs)}"],
            )
        return replace(self._arguments, stand_ins=stand_ins_of(specs))

    def _planned(self, operands: Sequence[Array]) -> Any:
        self.arguments_of(tuple(map(spec_of, operands)))
        return self._arguments(operands)

    def _first(self, operands: Sequence[Array]) -> Any:
        launches = self._launches_on(operands)
        if launches is None:
            return self._arguments(operands)
        with stage("run"):
            return launches[0](*operands)

    def _first_into(self, operands: Sequence[Array], out: tuple[Array, ...]) -> None:
        self._takes.check_out(*operands, *out)
        launches = self._launches_on(operands)
        if launches is None:
            self._arguments(operands, **self._named(out))
            return
        with stage("run"):
            launches[1](*operands, *out)

    def _launches_on(
        self, operands: Sequence[Array]
    ) -> tuple[Callable[..., Any], Callable[..., None]] | None:
        """The launches into new results and into given ones; None where no kernel may run."""
        found, count = self._linked, len(operands)
        if found is None or not _runs_kernels(operands):
            return None
        generation, xp = invalidation.generation(), array_module(operands)
        ready = ready_for(found.program(self.specs, xp), xp)
        launch = telling(found.bound(ready.new, count, xp), ready.served_by)
        into = found.bound(ready.into, count, xp)
        check_out = self._takes.check_out

        def launch_into(*arrays: Array) -> None:
            check_out(*arrays)
            into(*arrays)

        launch_into.hot = getattr(into, "hot", None)  # pyright: ignore[reportFunctionMemberAccess]
        self._keep(generation, launch, telling(launch_into, ready.served_by))
        return launch, launch_into

    def _named(self, out: tuple[Array, ...]) -> dict[str, Any]:
        """The output arrays as an option, by the name of the function's own parameter."""
        function = self._arguments.function
        if not inspect.isroutine(function):
            function = type(function).__call__  # what it was made of has another signature
        parameters = inspect.signature(function).parameters
        for name in ("out", "output"):
            if name in parameters:
                return {name: out[0] if len(out) == 1 else out}
        raise ShapeError(f"{self.label} takes no out", hint="call the plan without it")


def _runs_kernels(operands: Sequence[Array]) -> bool:
    """Whether a plan may launch kernels on operands directly, without the front end."""
    kinds: set[object] = {type(operand) for operand in operands}
    return (
        (kinds == {np.ndarray} or kinds == {cupy_arrays.array_class})
        and program_calls.executor is None
        and not tuning_mode.is_watching()
    )
