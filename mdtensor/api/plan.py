"""Plan: a call on arrays of fixed shapes and types, whose kernels are chosen before it is made."""

from __future__ import annotations

import copy
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdtensor.api import dispatch, pipeline, statistics
from mdtensor.api.choice import Choice
from mdtensor.api.launch import Launch
from mdtensor.api.modes import Recorded, Steps
from mdtensor.api.operands import check_mask, read_only, spec_of
from mdtensor.api.places import at, device_of, device_of_call
from mdtensor.api.tensors import cupy_for, is_on_gpu, shared
from mdtensor.backends.protocol import Program
from mdtensor.errors import DTypeError, ShapeError, count_of
from mdtensor.lower.key import problem_key
from mdtensor.lower.work import bytes_moved, flops
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.python.tuples import as_tuple

if TYPE_CHECKING:
    from mdtensor.api.tune import TuningReport

Array = Any
# One array, or a tuple of several.
Arrays = Any
_may_share_memory = np.may_share_memory
_ndarray = np.ndarray
_type_of: Any = type


class Plan(ABC):
    """A call with all but the arrays; `mdtensor.compile` makes it. Safe for use by many threads.

    `label` names it in reports and errors, `specs` are those of the operands, `results` those of
    the results, and `md_homs` are what is computed, in order. It is tuned and explained for
    `arrays` of "numpy" or "cupy" and the CUDA `device` of these: those that it was made with, or
    the current one. It takes arrays of any device, and runs there. A plan can be pickled where its
    arguments can; the copy chooses kernels of its own.
    """

    arrays = "numpy"
    device: int | None = None

    def __init__(
        self,
        label: str,
        call: str,
        specs: tuple[TensorSpec, ...],
        results: tuple[TensorSpec, ...],
        md_homs: tuple[MDHom, ...],
        dtype: np.dtype,
    ) -> None:
        self.label = label
        self._call = call
        self.specs = specs
        self.results = results
        self.md_homs = md_homs
        self._tally = statistics.tally(statistics.GENERATED, dtype)
        self._layouts = _layouts(specs)
        # Copies for the CUDA devices on which this was called, by their numbers: each has launches.
        self._there: dict[int, Plan] = {}
        self._orders: tuple[object, ...] = ()
        self._orders_with_out: tuple[object, ...] = ()
        self._layouts_with_out = (*self._layouts, *_layouts(results))
        self._launch: Launch | None = None
        self._launch_into: Callable[..., None] | None = None
        self._launch_checking: Callable[..., None] | None = None

    @property
    def result(self) -> TensorSpec:
        """The spec of the result, the first one where there are several."""
        return self.results[0]

    def __call__(self, *operands: Array, out: Arrays | None = None) -> Arrays:
        """Computes into `out`, or into a new array; a tuple of arrays for several results.

        Raises ShapeError where an operand or `out` has another shape, strides or type than the
        plan was made for, or where `out` shares memory with an operand. The arrays of the last
        call with `out` are remembered by weak references; NumPy refuses to `resize` them in place.
        Raises DTypeError for a masked array, DeviceError for arrays of several devices.
        """
        if len(operands) == 2:
            a, b = operands
            kind = _type_of(a)
            if kind is not _ndarray and kind is dispatch.cupy_array and kind is _type_of(b):
                here = self._there.get(dispatch.current_device())
                if here is not None:
                    into, order = here._launch_checking, dispatch.order_of
                    if into is not None and kind is _type_of(out):
                        try:
                            into(a, b, out)  # most calls of small kernels
                        except _ElsewhereError:
                            return self._called_there(operands, out)
                        here._tally.calls += 1
                        return out
                    # fmt: off
                    if out is None and here._launch is not None and here._orders == (
                        a.shape, order(a) or a.strides, a.dtype, a.data.device_id,
                        b.shape, order(b) or b.strides, b.dtype, b.data.device_id,
                    ):
                        return here._launch(a, b)
                    # fmt: on
                return self._called_on_gpu(operands, out)
        elif operands and _type_of(operands[0]) is dispatch.cupy_array:
            return self._called_on_gpu(operands, out)
        are_numpys = True
        try:
            if len(operands) == 2:
                a, b = operands
                are_numpys = _type_of(a) is _ndarray and _type_of(b) is _ndarray
                if out is None:
                    given = (a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype)
                else:
                    # fmt: off
                    given = (
                        a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype,
                        out.shape, out.strides, out.dtype,
                    )
                    # fmt: on
                    into = self._launch_into
                    if are_numpys and into is not None and given == self._layouts_with_out:
                        into(a, b, out)
                        self._tally.calls += 1
                        return out
            else:
                parts: list[object] = []
                for x in operands if out is None else (*operands, out):
                    parts += x.shape, x.strides, x.dtype
                    if _type_of(x) is not _ndarray:
                        are_numpys = False
                given = tuple(parts)
        except AttributeError:
            given = None
        if given is None or not are_numpys:
            if any(map(is_on_gpu, (*operands, *as_tuple(out)))):
                return self._called_on_gpu(operands, out)
            _check_masks(operands)
        if given is None:
            if type(out) is tuple:
                return self._called_into_several(operands, out)
            raise self._no_arrays(operands if out is None else (*operands, out))
        if given != (self._layouts if out is None else self._layouts_with_out):
            self._compare(operands, () if out is None else (out,))
        if out is None:
            launch = self._launch
            if launch is not None:
                return launch(*operands)
            return self._first(operands)
        into = self._launch_into
        if into is None:
            self._first_into(operands, (out,))
            return out
        into(*operands, out)
        self._tally.calls += 1
        return out

    def _called_on_gpu(self, operands: Sequence[Any], out: Any) -> Any:
        """A call on arrays of the current device or another one, or with other libraries' tensors.

        CuPy's arrays are in the memory of these.
        """
        here = self._there.get(dispatch.current_device())
        if here is None or len(operands) != len(self.specs):
            return self._called_there(operands, out)
        into, launch = here._launch_checking, here._launch
        if out is None and launch is not None:
            order = dispatch.order_of
            given: list[object] = []
            try:
                for x in operands:
                    given += x.shape, order(x) or x.strides, x.dtype, x.data.device_id
            except AttributeError:
                return self._called_there(operands, out)
            if tuple(given) == here._orders:
                return launch(*operands)
        elif into is not None and type(out) is dispatch.cupy_array:
            try:
                into(*operands, out)
            except _ElsewhereError:
                return self._called_there(operands, out)
            here._tally.calls += 1
            return out
        elif here._fits(operands, written := as_tuple(out)):
            here._run(operands, written)
            return out
        return self._called_there(operands, out)

    def _called_there(self, operands: Sequence[Any], out: Any) -> Any:
        """The same, on the device where the arrays are; DeviceError where they are on several."""
        written = () if out is None else as_tuple(out)
        device = device_of_call(operands, {"out": written})
        with at(device):
            arrays = [_taken(f"operand {n}", operand) for n, operand in enumerate(operands)]
            targets = tuple([_taken("out", target) for target in written])
            self._check_layouts(arrays, targets)
            result = self._on(dispatch.current_device())._run(arrays, targets)
        return result if out is None else out

    def _on(self, device: int) -> Plan:
        """The plan for arrays of a CUDA device, which keeps launches of its own."""
        found = self._there.get(device)
        if found is None:
            found = copy.copy(self)
            found.device = device
            found._orders = _orders(self.specs, device)
            found._orders_with_out = (*found._orders, *_orders(self.results, device))
            found = self._there.setdefault(device, found)
        return found

    def _fits(self, operands: Sequence[Any], out: Sequence[Any]) -> bool:
        """Whether these are CuPy's arrays on the device of this plan, and like its own."""
        order = dispatch.order_of
        try:
            given = [
                field
                for x in (*operands, *out)
                for field in (x.shape, order(x) or x.strides, x.dtype, x.data.device_id)
            ]
        except AttributeError:
            return False
        return tuple(given) == (self._orders_with_out if out else self._orders)

    def _run(self, operands: Sequence[Array], out: tuple[Array, ...]) -> Any:
        """A call on arrays that were compared with the plan's."""
        if not out:
            return self._first(operands) if self._launch is None else self._launch(*operands)
        if self._launch_into is None:
            return self._first_into(operands, out)
        self._launch_into(*operands, *out)
        self._tally.calls += 1
        return None

    def _called_into_several(self, operands: Sequence[Array], out: Any) -> Arrays:
        self._check_layouts(operands, out)
        into = self._launch_into
        if into is None:
            self._first_into(operands, out)
            return out
        into(*operands, *out)
        self._tally.calls += 1
        return out

    def _check_layouts(self, operands: Sequence[Array], out: Sequence[Array]) -> None:
        """Whether operands, and results if there are any, are those of the plan."""
        try:
            given = tuple([f for x in (*operands, *out) for f in (x.shape, x.strides, x.dtype)])
        except AttributeError:
            raise self._no_arrays((*operands, *out)) from None
        _check_masks(operands)
        if given != (self._layouts_with_out if out else self._layouts):
            self._compare(operands, tuple(out))

    def _check_all(self, *arrays: Array) -> None:
        """Whether the last of CuPy's arrays may be written by a call on the others.

        Raises _ElsewhereError where that is for another device's plan to say.
        """
        if not self._fits(arrays[:-1], arrays[-1:]):
            kinds = {(_type_of(array), device_of(array)) for array in arrays}
            if kinds != {(dispatch.cupy_array, self.device)}:
                raise _ElsewhereError
            self._check_layouts(arrays[:-1], arrays[-1:])
        self._check_out(*arrays)

    def _no_arrays(self, given: Sequence[Any]) -> ShapeError:
        names = [type(array).__name__ for array in given if not hasattr(array, "strides")]
        return ShapeError(
            f"a plan takes arrays, not {names[0] if names else 'these'}",
            text=self.label,
            hint="numpy.asarray of many other objects shares their memory",
        )

    @abstractmethod
    def _first(self, operands: Sequence[Array]) -> Any:
        """A call for which `_launch` must be made first, or that cannot have one."""

    @abstractmethod
    def _first_into(self, operands: Sequence[Array], out: tuple[Array, ...]) -> None:
        """The same for `_launch_into`, into arrays of the caller's."""

    def _check_out(self, *arrays: Array) -> None:
        """Whether kernels may write to the last arrays while they read the others."""
        count = len(self.specs)
        for position, out in enumerate(arrays[count:], start=count):
            is_cupys = _type_of(out) is dispatch.cupy_array
            may_share_memory = dispatch.may_share_memory if is_cupys else _may_share_memory
            if not is_cupys and not getattr(out.flags, "writeable", True):
                raise read_only("out", text=self.label)
            for number, array in enumerate(arrays[:position]):
                if may_share_memory(array, out):
                    name = f"operand {number}" if number < count else "another result"
                    raise ShapeError(
                        f"out shares memory with {name}",
                        text=self.label,
                        hint="a call of the function itself copies where that is needed",
                    )

    def _keep(
        self,
        generation: int,
        launch: Launch | None = None,
        into: Callable[..., None] | None = None,
    ) -> None:
        """Keeps a launch that was chosen in a generation, as long as there is no later one."""
        dispatch.when_cleared(self)
        if generation == dispatch.generation():
            self._launch = launch or self._launch
            self._launch_into = into or self._launch_into

    def _keep_program(self, generation: int, program: Program, arrays: str) -> Callable[..., None]:
        """Keeps what runs one program into an array of the caller's.

        Layouts of CuPy's arrays are compared only where one is new: that takes as long as a launch.
        """
        if arrays == "numpy":
            into = program.remembering_launcher(self._check_out)
            self._keep(generation, into=into)
            return into
        if dispatch.cupy_array is None:
            dispatch.knows_cupy(importlib.import_module("cupy"))
        into = program.remembering_launcher(self._check_all)
        self._keep(generation, into=into)
        self._launch_checking = self._launch_into
        return into

    def forget(self) -> None:
        """Drops the launches, so that the next call takes the best kernel known then."""
        self._launch = self._launch_into = self._launch_checking = None

    def __getstate__(self) -> dict[str, Any]:
        # Launches are of this process; a copy makes its own.
        launches = "_launch", "_launch_into", "_launch_checking", "device"
        return {**self.__dict__, **dict.fromkeys(launches), "_there": {}}

    def _compare(self, operands: Sequence[Array], out: tuple[Array, ...]) -> None:
        """Says what differs from the plan; strides of arrays without elements mean nothing."""
        if len(operands) != len(self.specs):
            given = count_of(len(operands), "operand", "operands")
            raise ShapeError(f"{given} for a plan of {len(self.specs)}", text=self.label)
        given = tuple(map(spec_of, out))
        if out and given != self.results:
            raise ShapeError(
                f"out is {_listed(given)} but the result is {_listed(self.results)}",
                text=self.label,
            )
        pairs = list(zip(operands, self.specs, strict=True))
        same = all((op.shape, op.dtype) == (spec.shape, spec.dtype) for op, spec in pairs)
        if same and not self.md_homs:
            return
        raise ShapeError(
            "an operand is not what the plan was made for",
            text=self.label,
            notes=[
                f"operand {n}: {spec_of(op)!r}, the plan has {spec!r}"
                for n, (op, spec) in enumerate(pairs)
            ],
            hint="mdtensor.compile(...) makes a plan for these; the function itself takes any",
        )

    def choices(self) -> list[Choice]:
        """The kernel of every `md_hom`, on the device of the plan's `arrays`."""
        with at(self.device):
            return [pipeline.choice_for(md_hom, self.arrays) for md_hom in self.md_homs]

    def tune(
        self, budget: float | str = 30.0, *, quiet: bool = False, again: bool = False
    ) -> list[TuningReport]:
        """Searches for better kernels within a budget in seconds; one report per `md_hom`."""
        from mdtensor.api.tune import tune

        return tune(self.recorded(), budget, quiet=quiet, again=again)

    def recorded(self) -> list[Recorded]:
        """What there is to tune: every `md_hom`, and the calls of several of which it is one."""
        found: list[Recorded] = []
        for md_hom in self.md_homs:
            within = [c for c in self.calls() if any(s.md_hom == md_hom for s in c) and len(c) > 1]
            found.append(Recorded(md_hom, self.label, self.arrays, tuple(within), self.device))
        return found

    @abstractmethod
    def calls(self) -> list[Steps]:
        """The steps of the computations that a call of the plan runs."""

    def explain(self) -> str:
        """What runs: every `md_hom`, the schedule and where it is from, cost and source."""
        if not self.md_homs:
            return f"nothing is computed: {_listed(self.results)} is empty, or filled with zeros"
        pairs = zip(self.md_homs, self.choices(), strict=True)
        return "\n\n".join(explained(md_hom, choice) for md_hom, choice in pairs)

    def __repr__(self) -> str:
        return f"Plan({self._call})"


class _ElsewhereError(Exception):
    """Arrays are on another device than the plan's that was asked."""


def _taken(name: str, given: Any) -> Array:
    """CuPy's array for one on a GPU; raises DTypeError for one of NumPy's."""
    if is_on_gpu(given):
        return shared(name, given, cupy_for(given))
    if hasattr(given, "strides"):
        raise DTypeError(
            f"{name} is {type(given).__name__}, and other arrays are on a GPU",
            hint="copy with cupy.asarray(…) or .get() first",
        )
    return given


def _check_masks(operands: Sequence[Array]) -> None:
    """Raises DTypeError for a masked array, whose mask no launch sees."""
    for number, operand in enumerate(operands):
        if type(operand) is not _ndarray and type(operand) is not dispatch.cupy_array:
            check_mask(f"operand {number}", operand)


def explained(md_hom: MDHom, choice: Choice) -> str:
    """One `md_hom` and the kernel that was chosen for it, for people."""
    problem, seconds = choice.problem, choice.seconds
    kind = "measured" if choice.origin == "tuned" else "estimated"
    work, moved = flops(problem), bytes_moved(problem)
    return "\n".join(
        (
            "md_hom",
            *_indented(md_hom.describe()),
            "problem",
            *_indented(problem_key(problem)),
            f"schedule (from the {'store: ' if choice.origin == 'tuned' else ''}{choice.origin})",
            *_indented(choice.schedule.describe(problem)),
            "cost",
            f"  {kind} {seconds * 1e6:.1f} µs: {work / seconds / 1e9:.1f} GFLOP/s",
            f"  {moved / seconds / 1e9:.1f} GB/s of the fewest bytes",
            "source",
            *_indented(choice.source.text),
        )
    )


def _indented(text: str) -> list[str]:
    return ["  " + line for line in text.splitlines()]


def _listed(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(map(repr, specs))


def _layouts(specs: Sequence[TensorSpec]) -> tuple[object, ...]:
    """Shape, strides in bytes and type of each, in one tuple."""
    return tuple(
        part
        for spec in specs
        for part in (spec.shape, tuple(s * spec.dtype.itemsize for s in spec.strides), spec.dtype)
    )


def _orders(specs: Sequence[TensorSpec], device: int) -> tuple[object, ...]:
    """The same of arrays on a device, which it ends with.

    It is enough to know that elements are in C order without gaps.
    """
    strides = _layouts(specs)[1::3]
    return tuple(
        part
        for spec, steps in zip(specs, strides, strict=True)
        for part in (spec.shape, spec.is_contiguous or steps, spec.dtype, device)
    )
