"""Plan: a call on arrays of fixed shapes and types, with its kernels chosen in advance."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from mdtensor.api.arrays import cupy_arrays, invalidation
from mdtensor.api.arrays.device_scope import at
from mdtensor.api.arrays.dlpack import is_on_gpu
from mdtensor.api.arrays.jax_arrays import is_jax_array
from mdtensor.api.arrays.torch_tensors import FollowedError, in_torch, stream_of_call, taken
from mdtensor.api.calls import call_trace, program_calls
from mdtensor.api.calls.hot_calls import MISSED
from mdtensor.api.engine import registry
from mdtensor.api.engine.kernel_choice import KernelChoice
from mdtensor.api.engine.tuning_mode import RecordedCall, Steps, kept_as
from mdtensor.api.plans.explain import explained
from mdtensor.api.plans.launch_cache import PlanLaunches
from mdtensor.api.plans.signature import PlanArrays, check_masks, listed
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.python.tuples import as_tuple

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from mdtensor.api.reports.report_subject import Subject
    from mdtensor.api.tuning.tuning_report import TuningReports
    from mdtensor.autotune.search.abort_conditions import Condition
    from mdtensor.autotune.search.techniques import MakeTechnique

Array = Any
# One array, or a tuple of several.
Arrays = Any
_ndarray = np.ndarray
_type_of: Any = type
_watchers = invalidation.watchers


class Plan(PlanLaunches):
    """A prepared call that lacks only its arrays; made by `mdtensor.compile`. Thread-safe.

    `label` names it in reports and errors, `specs` are those of the operands, `results` those of
    the results, and `md_homs` are what is computed, in order. It is tuned and explained for
    `arrays` of "numpy" or "cupy" and the CUDA `device` of these: those that it was made with, or
    the current one. It takes arrays of any device, and runs there. A plan can be pickled where its
    arguments can; the copy chooses kernels of its own.
    """

    arrays = "numpy"

    def __init__(
        self,
        label: str,
        call: str,
        specs: tuple[TensorSpec, ...],
        results: tuple[TensorSpec, ...],
        md_homs: tuple[MDHom, ...],
    ) -> None:
        self.label = label
        self._call = call
        self.md_homs = md_homs
        takes = PlanArrays(label, specs, results, bool(md_homs))
        super().__init__(takes)
        # Which every call looks up.
        self._layouts, self._layouts_with_out = takes.layouts, takes.layouts_with_out

    @property
    def result(self) -> TensorSpec:
        """The spec of the result, the first one where there are several."""
        return self.results[0]

    def __call__(self, *operands: Array, out: Arrays | None = None) -> Arrays:
        """Computes into `out`, or into a new array; a tuple of arrays for several results.

        Raises ShapeError where an operand or `out` has another shape, strides or type than the
        plan was made for, or where `out` shares memory with an operand. Raises DTypeError for a
        masked array, DeviceError for arrays of several devices.
        """
        if (quick := self._hot.call) is not None:
            result = quick(*operands) if out is None else quick(*operands, out=out)
            if result is not MISSED:
                return result
        if _watchers:
            if self.mode != (mode := kept_as()):
                return self._in(mode)(*operands, out=out)
            if not call_trace.is_quiet():
                if call_trace.begins():
                    return call_trace.traced("plan", self, operands, {"out": out})
                here = self._there.get(cupy_arrays.current_device(), self)
                call_trace.record_run(here._launch if out is None else here._launch_into)
        if operands and _type_of(operands[0]) is cupy_arrays.array_class:
            return self._called_on_gpu(operands, out)
        are_numpys, parts = True, list[object]()
        try:
            for x in operands if out is None else (*operands, out):
                parts += x.shape, x.strides, x.dtype
                if _type_of(x) is not _ndarray:
                    are_numpys = False
            given = tuple(parts)
        except AttributeError:
            given = None
        if given is None or not are_numpys:
            if program_calls.planner.get() is not None:
                return self._planned(operands)
            if (stream := stream_of_call(operands, {"out": out})) is not None:
                return in_torch(stream, self._on_others, operands, out, given)
            return self._on_others(operands, out, given)
        return self._on_numpys(operands, out, given)

    def _on_others(
        self, operands: Sequence[Array], out: Any, given: tuple[object, ...] | None
    ) -> Arrays:
        """Call on arrays of other libraries, or on ones with the layouts `given`."""
        try:
            tensors = taken(operands, {"out": out})
        except FollowedError:
            calls = importlib.import_module("mdtensor.api.frameworks.autograd_calls")
            return calls.called(self, operands, {"out": out})
        if tensors is not None and not self._launches(tensors):
            tensors = taken(operands, {"out": out}, owned=True)
        if tensors is not None:
            result = tensors.returned(self(*tensors.args, **tensors.options))
            self._guard(operands, out, tensors)  # behind the call, which refuses other layouts
            return result
        if any(map(is_jax_array, operands)):
            calls = importlib.import_module("mdtensor.api.frameworks.jax_calls")
            return calls.called(self, operands, {} if out is None else {"out": out})
        if any(map(is_on_gpu, (*operands, *as_tuple(out)))):
            return self._called_on_gpu(operands, out)
        check_masks(operands)
        if given is not None:
            self._takes.check_arrays(operands if out is None else (*operands, out))
            return self._on_numpys(operands, out, given)
        if _type_of(out) is tuple:
            self._takes.check(operands, out)
            self._run(operands, out)
            return out
        raise self._takes.no_arrays(operands if out is None else (*operands, out))

    def _on_numpys(self, operands: Sequence[Array], out: Any, given: tuple[object, ...]) -> Arrays:
        """Call on NumPy arrays with given layouts."""
        if given != (self._layouts if out is None else self._layouts_with_out):
            self._takes.compare(operands, None if out is None else (out,))
        self._guard(operands, out)
        result = self._run(operands, () if out is None else (out,))
        return result if out is None else out

    def _planned(self, operands: Sequence[Array]) -> Arrays:
        """Trace a call: on placeholders of any strides, with computations recorded, not run."""
        raise TranslationError(f"a call of {self!r} cannot be a part of another one")

    def choices(self) -> list[KernelChoice]:
        """The kernel of every `md_hom`, on the device of the plan's `arrays`."""
        with at(self.device):
            return [registry.choice_for(md_hom, self.arrays) for md_hom in self.md_homs]

    def tune(
        self,
        budget: float | str = 30.0,
        *,
        quiet: bool = False,
        again: bool = False,
        technique: str | MakeTechnique | None = None,
        abort: Condition | None = None,
        fixed: Mapping[str, object] | None = None,
        objective: str | Sequence[str] = "time",
    ) -> TuningReports:
        """Searches for better kernels within a budget in seconds; one report per `md_hom`.

        The arguments are those of `mdtensor.tune`. Names of `fixed` values, and of the dims that
        they are for, are those that `explain` shows.
        """
        from mdtensor.api.tuning.tune import tune

        return tune(
            self.recorded(),
            budget,
            quiet=quiet,
            again=again,
            technique=technique,
            abort=abort,
            fixed=fixed,
            objective=objective,
        )

    def recorded(self) -> list[RecordedCall]:
        """The plan's tuning tasks: every `md_hom`, and the calls of several programs around it."""
        found: list[RecordedCall] = []
        for md_hom in self.md_homs:
            within = [c for c in self.calls() if any(s.md_hom == md_hom for s in c) and len(c) > 1]
            found.append(RecordedCall(md_hom, self.label, self.arrays, tuple(within), self.device))
        return found

    @abstractmethod
    def calls(self) -> list[Steps]:
        """The steps of the plan's computations, call by call."""

    def explain(self, *, passes: bool = False) -> str:
        """Describe every `md_hom`: its schedule and where that is from, its cost, its source.

        With `passes`, all passes of the lowering in order instead of the source alone: each with
        what it changed, from the `md_hom` to the source.
        """
        if not self.md_homs:
            return f"nothing is computed: {listed(self.results)} is empty, or filled with zeros"
        with at(self.device):
            engine = registry.engine_for(self.arrays) if passes else None
        pairs = zip(self.md_homs, self.choices(), strict=True)
        return "\n\n".join(explained(md_hom, choice, engine) for md_hom, choice in pairs)

    def report(
        self,
        file: str | os.PathLike[str],
        *,
        peers: Mapping[str, float] | None = None,
        pictures: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write an HTML page about the plan's kernels: one file, with pictures.

        It shows the (de/re)-composition, the roofline, the trials of the search and what its
        parameters explain, the `md_hom`s and the sources. `peers` are seconds that other libraries
        take for the same call, by their names. In the folder `pictures` each picture is a file of
        SVG too. Raises ReportError where a file cannot be written, ArgumentError for what is no
        path and for peers' times that are none.
        """
        from mdtensor.api.reports.report import write_page
        from mdtensor.api.reports.report_subject import checked_peers

        subjects = self._subjects(checked_peers(peers, len(self.md_homs)))
        write_page(file, self.label, subjects, pictures)

    def _subjects(self, peers: Mapping[str, float]) -> list[Subject]:
        """The subjects of a report: every `md_hom`, and the kernel that was chosen for it."""
        from mdtensor.api.reports.report_subject import subject_of

        with at(self.device):
            engine = registry.engine_for(self.arrays)
        pairs = zip(self.md_homs, self.choices(), strict=True)
        return [subject_of(repr(m), m, choice, engine, peers) for m, choice in pairs]

    def __repr__(self) -> str:
        return f"Plan({self._call})"
