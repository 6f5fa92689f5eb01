"""Computation: what a front end makes of a call: `md_hom`s in order, and the arrays they share.

Front ends other than einsum hand a key and a builder to `call`, which does the rest: the table of
calls that were seen, the arrays, the kernels, the counting.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, cast

import numpy as np

from mdtensor.api import dispatch, modes, statistics
from mdtensor.api.function_key import function_key
from mdtensor.api.in_flight import Begun, Step, launched, run_all
from mdtensor.api.operands import (
    Array,
    addressable,
    allocate,
    allocator,
    array_module,
    as_computed,
    check_native,
    check_types,
    no_array,
    read_only,
    spec_of,
)
from mdtensor.backends.protocol import Program
from mdtensor.errors import DTypeError, ShapeError
from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.operators.operators import OperatorFunction
from mdtensor.translate.rewrites.stages import stages

Build = Callable[[tuple[TensorSpec, ...]], "Computation"]
Run = Callable[..., None]

# Fills the outputs of an `md_hom`. None stands for the compiled kernels; tests put the reference
# interpreter here.
executor: Callable[[MDHom, tuple[Array, ...], tuple[Array, ...]], None] | None = None


@dataclass(frozen=True, slots=True)
class Computation:
    """Steps over numbered slots: operands first, then results, then temporaries.

    `operands` is their number. `fills` are values that results are filled with before the first
    step, or None for results that the steps write whole. `whole` is one step that takes the place
    of all, for devices that read zeros outside of arrays at no cost.
    """

    operands: int
    results: tuple[TensorSpec, ...]
    temporaries: tuple[TensorSpec, ...]
    steps: tuple[Step, ...]
    fills: tuple[float | None, ...] = ()
    whole: Step | None = None

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """Specs of results and temporaries."""
        return (*self.results, *self.temporaries)


def single(md_hom: MDHom) -> Computation:
    """The computation of one `md_hom`: its inputs are the operands, its outputs the results."""
    count = len(md_hom.inputs)
    results = tuple(range(count, count + len(md_hom.outputs)))
    step = Step(md_hom, tuple(range(count)), results)
    return Computation(count, tuple(b.spec for b in md_hom.outputs), (), (step,))


def staged(computation: Computation) -> Computation:
    """The same computation in steps of one operator each (see `translate.stages`)."""
    temporaries = list(computation.temporaries)
    first = computation.operands + len(computation.results)
    steps: list[Step] = []
    for step in computation.steps:
        before: tuple[int, ...] = ()
        chain = stages(step.md_hom)
        for stage in chain:
            reads = tuple(step.operands[n] if n >= 0 else before[-1 - n] for n in stage.inputs)
            writes = step.results
            if stage is not chain[-1]:
                writes = tuple(
                    first + len(temporaries) + n for n in range(len(stage.md_hom.outputs))
                )
                temporaries += [buffer.spec for buffer in stage.md_hom.outputs]
            steps.append(Step(stage.md_hom, reads, writes))
            before = writes
    return replace(computation, temporaries=tuple(temporaries), steps=tuple(steps))


# What plans the calls of this context instead of running them: it gets a computation, its operands
# and the caller's `out`, and returns what stands for the results.
Planner = Callable[[Computation, Sequence[Any], Any], Any]
planner: ContextVar[Planner | None] = ContextVar("planner", default=None)

_table: dict[Hashable, Computation] = {}
_ready: dict[Hashable, Ready] = {}
_quick: dict[Hashable, Ready] = {}
_TABLE_SIZE = 4096
# Options of these classes mean the same whenever they are equal.
_PLAIN = frozenset((str, int, float, bool, type(None), type, np.dtype))


def forget() -> None:
    """Drops the launches of this module; better kernels may exist."""
    _ready.clear()
    _quick.clear()


class _Launches:
    def forget(self) -> None:
        forget()


_launches = _Launches()
dispatch.when_cleared(_launches)


def plain_key(*options: object) -> Hashable | None:
    """A key of options as the caller gave them; None where some are more than plain values.

    Functions count by what they say, as they do in the keys of what was built before.
    """
    classes = tuple(map(type, options))
    if _PLAIN.issuperset(classes):
        return options, classes
    keys = tuple(map(_plain, options))
    return None if _NOT_PLAIN in keys else keys


_NOT_PLAIN = "not plain"


def _plain(option: Any) -> Hashable:
    kind = option.__class__
    if kind in _PLAIN:
        return kind, option
    if kind is dict:
        option = tuple(option.items())
    elif kind is Combination:
        option = (option.kind, option.operator)
    elif kind is FunctionType or kind is OperatorFunction:
        return kind, function_key(option)
    elif kind not in (tuple, list):
        return _NOT_PLAIN
    parts = tuple(map(_plain, option))
    return _NOT_PLAIN if _NOT_PLAIN in parts else (kind, parts)


def recalled(quick: Hashable | None, operands: Sequence[Any], out: Any) -> Any:
    """The result of a call that was made before with these options and layouts; None if none was.

    It is for plain arrays of NumPy, or of CuPy on the current device, which need no conversion.
    """
    if quick is None or not operands:
        return None
    on_host = type(operands[0]) is np.ndarray
    kind = np.ndarray if on_host else dispatch.cupy_array
    layouts: list[object] = []
    for array in operands:
        if type(array) is not kind:
            return None
        layouts.append((array.shape, array.strides, array.dtype))
    place = None if on_host else dispatch.current_device()
    ready = _quick.get((quick, place, *layouts))
    return None if ready is None else ready(operands, out)


class Ready:
    """A computation whose kernels are chosen: called with arrays of its module, it only runs.

    The arrays have the layouts that it was made for; those of CuPy lie on the device that was
    current then.
    """

    def __init__(self, computation: Computation, xp: Any = np) -> None:
        self.kind: type = xp.ndarray
        self.may_share_memory: Callable[[Any, Any], bool] = xp.may_share_memory
        self.makers = [allocator(spec, xp) for spec in computation.results]
        self.layouts = [_layout(spec) for spec in computation.results]
        self.temporaries = [allocator(spec, xp) for spec in computation.temporaries]
        self.fills = [(n, f) for n, f in enumerate(computation.fills) if f is not None]
        self.tally = statistics.tally(statistics.GENERATED, computation.results[0].dtype)
        slots = [(*step.operands, *step.results) for step in computation.steps]
        first_to_last = tuple(range(computation.operands + 1))
        simple = slots == [first_to_last] and len(self.makers) == 1 and not self.fills
        self.only = _launch(computation.steps[0], xp) if simple else None
        steps = () if simple else computation.steps
        self.launches = launched(steps, lambda step: _begun(step, xp))

    def __call__(self, arrays: Sequence[Array], out: Any) -> Any:
        """One result, or a tuple of several; None where `out` needs a copy or is refused."""
        if self.only is not None and type(out) is np.ndarray is self.kind:
            # Most small calls; spelt out, since this is a large part of them.
            if (out.shape, out.strides, out.dtype) != self.layouts[0] or not out.flags.writeable:
                return None
            for array in arrays:
                if np.may_share_memory(out, array):
                    return None
            self.only(*arrays, out)
            self.tally.calls += 1
            return out
        results: list[Array] = []
        if out is None:
            results += [make() for make in self.makers]
        else:
            results += _several(out)
            if not self._fit(results, arrays):
                return None
        self.run(arrays, results)
        if out is not None:
            return out
        if self.kind is np.ndarray:
            results = [r if r.ndim else r[()] for r in results]
        return tuple(results) if len(results) > 1 else results[0]

    def run(self, arrays: Sequence[Array], results: Sequence[Array]) -> None:
        """Fills the results."""
        if self.only is not None:
            self.only(*arrays, results[0])
        else:
            for n, fill in self.fills:
                results[n].fill(fill)
            slots = [*arrays, *results, *(make() for make in self.temporaries)]
            run_all(self.launches, slots)
        self.tally.calls += 1

    def _fit(self, results: Sequence[Any], arrays: Sequence[Array]) -> bool:
        if not all(type(r) is self.kind for r in results):
            return False
        if [(r.shape, r.strides, r.dtype) for r in results] != self.layouts:
            return False
        return all(
            getattr(r.flags, "writeable", True)  # CuPy has no such flag
            and not any(self.may_share_memory(r, a) for a in (*arrays, *results[:n]))
            for n, r in enumerate(results)
        )


def _place(xp: Any) -> int | None:
    """The number of the device that holds CuPy's arrays; None for NumPy's."""
    if xp is np:
        return None
    if dispatch.cupy_array is None:
        dispatch.knows_cupy(xp)
    return dispatch.current_device()


def _several(out: Any) -> tuple[Array, ...]:
    return cast("tuple[Array, ...]", out) if isinstance(out, tuple) else (out,)


def _layout(spec: TensorSpec) -> tuple[object, ...]:
    size = spec.dtype.itemsize
    return spec.shape, tuple(stride * size for stride in spec.strides), spec.dtype


def call(
    key: Hashable,
    operands: Sequence[object],
    build: Build,
    out: Array | tuple[Array, ...] | None = None,
    quick: Hashable | None = None,
) -> Any:
    """Runs a front end's computation on arrays; one result, or a tuple of several.

    `key` holds all that shapes the computation besides the operands' layouts; equal keys and
    layouts take the computation that was built before. `build` makes it from the operands' specs.
    By `quick` the next such call can be recalled (see `plain_key` and `recalled`).

    Raises DTypeError for element types without kernels and for masked arrays, ShapeError for an
    `out` that does not fit.
    """
    given = () if out is None else _several(out)
    xp = array_module((*operands, *given))
    arrays = as_computed(operands, xp)
    for target in given:
        if not isinstance(target, xp.ndarray):
            raise no_array("out", target)
    check_types([target.dtype for target in given], on_gpu=xp is not np)
    layouts = tuple((a.shape, a.strides, a.dtype) for a in arrays)
    seen = (key, layouts)
    computation = _table.get(seen)
    if computation is None:
        computation = staged(build(tuple(map(spec_of, arrays))))
        check_native([spec.dtype for spec in computation.results])
        if len(_table) >= _TABLE_SIZE:
            _table.clear()
        _table[seen] = computation
    if computation.whole is not None and xp is not np:
        computation = _suited(computation, seen, xp)
    if (plans := planner.get()) is not None:
        return plans(computation, operands, out)
    results = _allocated(computation, arrays, given, xp)
    if executor is None and not modes.is_watching():
        place = _place(xp)
        ready = _ready.get((place, seen))
        if ready is None:
            ready = Ready(computation, xp)
            _remember(_ready, (place, seen), ready)
        if quick is not None and all(a is o for a, o in zip(arrays, operands, strict=True)):
            _remember(_quick, (quick, place, *layouts), ready)
        ready.run(arrays, results)
    else:
        _run(computation, arrays, results, xp)
    for target, result in zip(given, results, strict=False):
        if target is not result:
            xp.copyto(target, result, casting="same_kind")
    if out is not None:
        return out
    finished = tuple(r[()] if xp is np and r.ndim == 0 else r for r in results)
    return finished[0] if len(finished) == 1 else finished


def _suited(computation: Computation, seen: Hashable, xp: Any) -> Computation:
    """The computation as one step, where the arrays' device reads zeros outside of them."""
    key = (_place(xp), seen)
    found = _table.get(key)
    if found is None:
        pipeline = importlib.import_module("mdtensor.api.pipeline")
        found, whole = computation, computation.whole
        if (
            executor is None
            and whole
            and pipeline.engine_for("cupy").fills_with_zeros(whole.md_hom)
        ):
            found = replace(computation, steps=(whole,), temporaries=())
        _table[key] = found
    return found


def _allocated(
    computation: Computation, arrays: Sequence[Array], given: Sequence[Array], xp: Any
) -> list[Array]:
    """The results: new arrays, or the caller's where a kernel may write to them."""
    if given and len(given) != len(computation.results):
        raise ShapeError(f"{len(given)} arrays in out for {len(computation.results)} results")
    results: list[Array] = []
    for number, spec in enumerate(computation.results):
        target = given[number] if given else None
        if target is not None and tuple(target.shape) != spec.shape:
            raise ShapeError(f"out has shape {tuple(target.shape)} but the result {spec.shape}")
        if target is not None and not np.can_cast(spec.dtype, target.dtype, "same_kind"):
            raise DTypeError(f"the result is {spec.dtype}, which does not go into {target.dtype}")
        if target is not None and xp is np and not target.flags.writeable:
            raise read_only("out")
        fits = target is not None and addressable(target) and spec_of(target) == spec
        if fits and not any(xp.may_share_memory(target, a) for a in (*arrays, *results)):
            results.append(target)
        else:
            results.append(allocate(spec, xp))
    return results


def _remember(table: dict[Hashable, Ready], key: Hashable, ready: Ready) -> None:
    if len(table) >= _TABLE_SIZE:
        table.clear()
    table[key] = ready


def _run(computation: Computation, arrays: list[Array], results: list[Array], xp: Any) -> None:
    for fill, result in zip(computation.fills, results, strict=False):
        if fill is not None:
            result.fill(fill)
    slots = [*arrays, *results, *(allocate(spec, xp) for spec in computation.temporaries)]
    modes.saw_call(computation.steps, _arrays_of(xp))
    for step in computation.steps:
        _launch(step, xp)(*(slots[n] for n in (*step.operands, *step.results)))
    statistics.tally(statistics.GENERATED, computation.results[0].dtype).calls += 1


def _launch(step: Step, xp: Any) -> Run:
    """A function of inputs and outputs that runs one step."""
    return _interpreted(step) or _program(step, xp).launcher()


def _begun(step: Step, xp: Any) -> Begun:
    """A function that begins one step, and what waits for it, if needed."""
    if (run := _interpreted(step)) is not None:
        return run, None
    return _program(step, xp).beginner()


def _program(step: Step, xp: Any) -> Program:
    pipeline = importlib.import_module("mdtensor.api.pipeline")
    arrays = _arrays_of(xp)
    modes.saw(step.md_hom, arrays)
    return pipeline.choice_for(step.md_hom, arrays).program


def _arrays_of(xp: Any) -> str:
    return "numpy" if xp is np else "cupy"


def _interpreted(step: Step) -> Run | None:
    """What runs a step without kernels: where tests ask for that, and over nothing."""
    md_hom = step.md_hom
    count = len(md_hom.inputs)
    if executor is None and 0 not in md_hom.extents.values():
        return None
    compute = executor or _on_host

    def interpreted(*arrays: Array) -> None:
        compute(md_hom, arrays[:count], arrays[count:])

    return interpreted


def _on_host(md_hom: MDHom, inputs: tuple[Array, ...], outputs: tuple[Array, ...]) -> None:
    """An empty index space: nothing to compute, or identities to write."""
    if all(isinstance(array, np.ndarray) for array in (*inputs, *outputs)):
        reference.compute(md_hom, inputs, outputs)
        return
    hosted = tuple(array.get() for array in outputs)
    reference.compute(md_hom, [array.get() for array in inputs], hosted)
    for array, result in zip(outputs, hosted, strict=True):
        array.set(result)
