"""Calls of programs: front ends give `call` a key and a builder, and it does the rest.

That is the table of programs that were built, the arrays, the kernels, the counting.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from mdtensor.api.arrays import cupy_arrays, invalidation
from mdtensor.api.arrays.operands import (
    Array,
    allocate,
    allocator,
    array_module,
    as_computed,
    as_output,
    check_native,
    check_types,
    holds,
    spec_of,
)
from mdtensor.api.arrays.results import as_returned, begin_with, check_out
from mdtensor.api.arrays.unaligned_arrays import copy_into
from mdtensor.api.async_steps import Begun
from mdtensor.api.calls import call_cache, call_trace, statistics
from mdtensor.api.calls.executable import Executable, Run, as_converted
from mdtensor.api.calls.launchers import LaunchTable, telling
from mdtensor.api.calls.shape_families import Families, Member, Skeleton
from mdtensor.api.engine import tuning_mode
from mdtensor.api.engine.evaluated import Evaluated
from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.scoped import scoped
from mdtensor.specs import TensorSpec
from mdtensor.stage_timer import ran, stage
from mdtensor.translate import reference
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import FusedStep, Program, Step
from mdtensor.translate.rewrites.stages import staged

if TYPE_CHECKING:
    from mdtensor.api.engine.fused_calls import FusedKernel
    from mdtensor.api.engine.kernel_choice import DeferredChoice, KernelChoice

Build = Callable[[tuple[TensorSpec, ...]], Program]
T = TypeVar("T")

# Fills the outputs of an `md_hom`. None stands for the compiled kernels; tests put the reference
# interpreter here.
executor: Callable[[MDHom, tuple[Array, ...], tuple[Array, ...]], None] | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A front end's request: a program on operands, and the caller's `out`.

    So many `constants`, the last operands, follow from what else the front end was given. Each run
    gives the operands to `check` first.
    """

    program: Program
    operands: Sequence[Any]
    out: Any = None
    constants: int = 0
    check: Callable[..., object] | None = None


# What plans the calls of this context instead of running them, and returns what stands for the
# results.
Planner = Callable[[Request], Any]
planner: ContextVar[Planner | None] = call_cache.planner

_TABLE_SIZE = 8192
# Programs by front ends' keys and layouts, and what front ends made before.
_table = Bounded[Hashable, Any](_TABLE_SIZE)
# Executables by where they run and the keys of programs, dropped where better kernels come.
_executables = LaunchTable[Hashable, Executable](_TABLE_SIZE)


def _registry() -> Any:
    return importlib.import_module("mdtensor.api.engine.registry")


families = Families(lambda: _registry().engine_so_far())


def made(key: Hashable, make: Callable[[], T]) -> T:
    """A memoised result of `make`, by key."""
    return _table.made(key, make)


def _place(xp: Any) -> int | None:
    """The number of the CUDA device with CuPy arrays; None for NumPy's."""
    if xp is np:
        return None
    cupy_arrays.knows(xp)
    return cupy_arrays.current_device()


def _several(out: Any) -> tuple[Array, ...]:
    return cast("tuple[Array, ...]", out) if isinstance(out, tuple) else (out,)


def call(
    key: Hashable,
    operands: Sequence[object],
    build: Build,
    out: Array | tuple[Array, ...] | None = None,
    constants: int = 0,
    moment: Callable[[], Hashable] = lambda: None,
    *,
    skeleton: Callable[[], Skeleton | None] | None = None,
    casting: str = "same_kind",
    front_end: str = "",
    check: Callable[..., object] | None = None,
) -> Any:
    """Runs a front end's program on arrays; returns one result, or a tuple of several.

    `key` holds all that shapes the program besides the operands' layouts; equal keys and layouts
    take the program that was built before. `build` makes it from the operands' specs.
    So many `constants`, the last operands, follow from what the front end was given besides the
    arrays that are the other operands. `moment` gives what `build` looks at besides: what was built
    for some layouts stays what it is, but for others it is built anew where that has changed.
    `skeleton` gives the computation without the numbers that are in `key`, or None for too many.
    `casting` says which types of `out` take the results, as NumPy's words do. Traces call it
    `front_end`, where it is no part of a call that has a name. Each run on arrays gives them to
    `check` first, which may raise an error.

    Raises DTypeError for element types without kernels and for masked arrays, ShapeError for an
    `out` that does not fit.
    """
    options: dict[str, Any] = {"casting": casting, "skeleton": skeleton, "check": check}
    if invalidation.watchers:
        given = key, operands, build, out, constants, moment
        if call_cache.is_apart():
            return scoped(call_cache.APART, call, *given, **options)
        if front_end and call_trace.begins():
            return call_trace.traced(front_end, call, given, options)
    given = () if out is None else _several(out)
    generation = invalidation.generation()
    xp = array_module((*operands, *given))
    arrays = as_computed(operands, xp)
    written = tuple([as_output("out", target, xp) for target in given])
    if any(array is not target for array, target in zip(written, given, strict=True)):
        call(key, operands, build, written, constants, moment, **options)
        return out
    check_types([target.dtype for target in given])
    layouts = tuple([(a.shape, a.strides, a.dtype) for a in arrays])
    seen = (key, layouts)
    place = _place(xp), tuning_mode.apart()
    is_seen = is_watched()
    found = None if is_seen else _executables.get((place, seen))
    if invalidation.watchers:
        call_trace.record_lookup(found)
    if found is None:
        alike = skeleton or (lambda: Skeleton((key, moment()), build))
        alike = None if is_seen or xp is not np else alike
        found = _member_or_built(seen, alike, tuple(map(spec_of, arrays)), build)
        if isinstance(found, Program) and found.alternatives is not None and xp is not np:
            found = made((_place(xp), seen), functools.partial(suited, found, xp))
    if check is not None:
        check(*arrays)
    if isinstance(found, Program) and (plans := planner.get()) is not None:
        return plans(Request(found, operands, out, constants, check))
    results = _allocated(found.results, arrays, given, casting, xp)
    if isinstance(found, Program) and is_seen:
        ready = None
        _run(found, arrays, results, xp)
    else:
        ready = found if isinstance(found, Executable) else ready_for(found, xp, evaluates=True)
        if ready is not found and generation == invalidation.generation():  # else out of date
            _executables.keep((place, seen), ready)
        with stage("run"):
            ready.into(*arrays, *results)
    is_direct = True
    for target, result in zip(given, results, strict=False):
        if target is not result:
            is_direct = False
            copy_into(target, result, xp, casting)
    finished: Any = out
    if out is None:
        finished = as_returned(results)
    if ready is not None and is_direct and call_cache.is_noting():
        _note(ready, operands, arrays, constants, given, finished, check)
    return finished


def is_watched() -> bool:
    """Whether calls bypass the fast path: observed, planned, or run by a test's executor."""
    return executor is not None or tuning_mode.is_watching() or planner.get() is not None


def at_once(key: Hashable, arrays: Sequence[Array]) -> Callable[..., Any] | None:
    """A launch of a known computation on addressable NumPy arrays, of any layouts.

    None where no family of computations has it (see `shape_families`), or calls are watched.
    """
    if is_watched():
        return None
    member = families.member((key, None), tuple(map(spec_of, arrays)))
    if member is None:
        return None
    ready = ready_for(member, np)
    return telling(ready.new, ready.served_by)


def _member_or_built(
    seen: Hashable,
    alike: Callable[[], Skeleton | None] | None,
    specs: tuple[TensorSpec, ...],
    build: Build,
) -> Program | Member:
    """The computation for operand specs: cached, a member of a family, or built now.

    `alike` gives what computations of a family have in common; None where there shall be none.
    """
    program = _table.get(seen)
    if program is not None:
        return program
    skeleton = None if alike is None else alike()
    if skeleton is not None:
        with stage("choose"):
            member = families.member(skeleton.key, specs, skeleton.numbers)
        if member is not None:
            return member
    with stage("translate"):
        program = staged(build(specs))
    check_native([spec.dtype for spec in program.results])
    _table.keep(seen, program)
    if skeleton is not None:
        make = skeleton.build

        def built(*given: Any) -> Program:
            return staged(make(*given))

        with stage("translate"):
            families.learn(skeleton.key, program, specs, built, skeleton.numbers)
    return program


def ready_for(found: Program | Member, xp: Any, *, evaluates: bool = False) -> Executable:
    """The executable of a computation, for NumPy arrays or CuPy's current device.

    Where it `evaluates`, NumPy's functions may compute a step that has no kernel yet.
    """
    if isinstance(found, Member):
        return _ready_with(found.program, xp, list(map(_registry().watched, found.chosen)))
    program = found
    if len(program.steps) > 1 and executor is None and xp is not np:
        compiled = [s.md_hom for s in program.steps if 0 not in s.md_hom.extents.values()]
        if _registry().fused(program, _arrays_of(xp)) is None:
            _registry().choose_ahead(compiled, _arrays_of(xp))
    return _ready_with(program, xp, evaluates=evaluates)


def _ready_with(
    program: Program, xp: Any, given: Sequence[DeferredChoice] = (), *, evaluates: bool = False
) -> Executable:
    """The executable of a program, with given kernels or those chosen for its steps."""
    steps, served_by = program.steps, list[object](given)
    known: dict[int, KernelChoice | Evaluated] = {}

    def interpreted(step: Step) -> Run | None:
        return None if given else _interpreted(step)

    def chosen(step: Step) -> KernelChoice | Evaluated | DeferredChoice:
        if given:
            return given[next(n for n, s in enumerate(steps) if s.md_hom is step.md_hom)]
        if (choice := known.get(id(step))) is None:
            choice = known[id(step)] = _chosen(step, xp, evaluates=evaluates)
            served_by.append(choice)
        return choice

    registry, arrays = _registry(), _arrays_of(xp)
    joins = len(steps) > 1 and not any(map(_interpreted, steps))
    if joins and evaluates and not registry.has_engine():  # which evaluations do without
        list(map(chosen, steps))
        joins = _engine_of(served_by) == statistics.GENERATED
    fusion = registry.fused(program, arrays) if joins else None
    counted = functools.partial(registry.counted, program, arrays) if joins and not fusion else None
    if fusion is not None:
        served_by[:] = fusion.kernels.values()

    def kernel_of(
        step: Step | FusedStep,
    ) -> KernelChoice | Evaluated | FusedKernel | DeferredChoice:
        if isinstance(step, Step):
            return chosen(step)
        assert fusion is not None
        return fusion.kernels[step.program]

    def launch(step: Step | FusedStep) -> Run:
        run = interpreted(step) if isinstance(step, Step) else None
        return run or kernel_of(step).program.launcher()

    def begun(step: Step | FusedStep, *, behind: bool = False) -> Begun:
        if isinstance(step, Step) and (run := interpreted(step)) is not None:
            return run, None
        return kernel_of(step).program.beginner(behind=behind)

    ready = Executable(
        program,
        xp,
        lambda spec: allocator(spec, xp),
        launch,
        begun,
        fusion,
        counted,
        engine=lambda: _engine_of(served_by),
    )
    if steps:
        ready.served_by = tuple(served_by)
    for each in ready.served_by:
        ran(each)
    return ready


def _note(
    ready: Executable,
    operands: Sequence[object],
    arrays: Sequence[Array],
    constants: int,
    targets: Sequence[Array],
    result: Any,
    check: Callable[..., object] | None,
) -> None:
    """Records the call for the call cache, unless its operands were copied for the kernels."""
    count = len(operands) - constants
    pairs = list(zip(operands, arrays, strict=True))
    if all(o is a or isinstance(o, np.generic | float | complex) for o, a in pairs[:count]):
        kept, new, into = tuple(arrays[count:]), ready.new, ready.into
        if check is not None:
            new, into = _checking(new, check, len(arrays)), _checking(into, check, len(arrays))
        call_cache.note(
            call_cache.RecordedComputation(
                new, into, operands[:count], targets, result, kept, ready.served_by
            )
        )


def _checking(run: Callable[..., Any], check: Callable[..., object], count: int) -> Any:
    """Wrap a launch so that a check sees its first `count` arrays before each run."""

    def checking(*arrays: Array) -> Any:
        check(*arrays[:count])
        return run(*arrays)

    return checking


def suited(program: Program, xp: Any) -> Program:
    """The program as a single step, on devices that read zeros out of bounds."""
    if xp is np or executor is not None or program.alternatives is None:
        return program
    whole = program.alternatives.whole()
    if whole is None or not _registry().engine_for("cupy").fills_with_zeros(whole):
        return program
    return Program.of(whole)


def _allocated(
    due: Sequence[TensorSpec],
    arrays: Sequence[Array],
    given: Sequence[Array],
    casting: Any,
    xp: Any,
) -> list[Array]:
    """The results: new arrays, or the caller's where kernels can write them."""
    if given:
        check_out(given, due, casting)
    results: list[Array] = []
    for target, spec in itertools.zip_longest(given, due):
        is_written = target is not None and holds(target, spec, (*arrays, *results), xp)
        results.append(target if is_written else allocate(spec, xp))
    return results


def _run(program: Program, arrays: list[Array], results: list[Array], xp: Any) -> None:
    begin_with(program.fills, results)
    given = as_converted(arrays, program.converted)
    slots = [*given, *results, *(allocate(spec, xp) for spec in program.temporaries)]
    if tuning_mode.is_watching():
        _registry().saw_call(program.steps, _arrays_of(xp))
    served_by = list[object]()
    for step in program.steps:
        run = _interpreted(step)
        if run is None:
            served_by.append(chosen := _chosen(step, xp, evaluates=True))
            run = chosen.program.launcher()
        with stage("run"):
            run(*(slots[n] for n in (*step.operands, *step.results)))
    statistics.tally(_engine_of(served_by), program.results[0].dtype).calls += 1


def launcher_of(md_hom: MDHom, xp: Any) -> Run:
    """A launcher of one `md_hom`, by the kernel chosen now."""
    (step,) = Program.of(md_hom).steps
    return _interpreted(step) or _chosen(step, xp).program.launcher()


def _chosen(step: Step, xp: Any, *, evaluates: bool = False) -> KernelChoice | Evaluated:
    arrays, registry = _arrays_of(xp), _registry()
    registry.saw(step.md_hom, arrays)
    return (registry.serving if evaluates else registry.choice_for)(step.md_hom, arrays)


def _engine_of(served_by: Sequence[object]) -> str:
    """The engine's name in the statistics, for the kernels of a program."""
    is_evaluated = any(isinstance(each, Evaluated) for each in served_by)
    return statistics.EVALUATED if is_evaluated else statistics.GENERATED


def _arrays_of(xp: Any) -> str:
    return "numpy" if xp is np else "cupy"


def _interpreted(step: Step) -> Run | None:
    """A launch of a step without a kernel: for a test's executor, or an empty index space."""
    md_hom = step.md_hom
    count = len(md_hom.inputs)
    if executor is None and 0 not in md_hom.extents.values():
        return None
    compute = executor or on_host

    def interpreted(*arrays: Array) -> None:
        compute(md_hom, arrays[:count], arrays[count:])

    return interpreted


def on_host(md_hom: MDHom, inputs: tuple[Array, ...], outputs: tuple[Array, ...]) -> None:
    """Computes an empty index space: nothing, or the identities of reductions."""
    if not any(array.size for array in outputs):
        return
    if all(isinstance(array, np.ndarray) for array in (*inputs, *outputs)):
        reference.compute(md_hom, inputs, outputs)
        return
    hosted = tuple(array.get() for array in outputs)
    reference.compute(md_hom, [array.get() for array in inputs], hosted)
    for array, result in zip(outputs, hosted, strict=True):
        array.set(result)
