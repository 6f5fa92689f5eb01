"""Executables: programs with their kernels chosen, on arrays of one library."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.api.async_steps import Begins, StepLaunch, launched, run_all
from mdtensor.api.calls import statistics
from mdtensor.api.calls.hot_calls import runs_at_once, uncounted
from mdtensor.api.calls.launchers import counting, scalar_result, several_launch, single_launch
from mdtensor.api.engine.launch_counter import counting as counting_launches
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom_program import FusedStep, Program, Step, lifetimes

if TYPE_CHECKING:
    from mdtensor.api.engine.fused_calls import Fusion

Run = Callable[..., None]
Make = Callable[[], Array]
_MUCH = 1 << 24  # bytes of arrays between steps: steps on these take longer than to wait for each
Conversions = Sequence[tuple[int, np.dtype]]  # positions of operands, and the types to copy them to


class Executable:
    """A ready program: `new` makes the results from operands, `into` writes given ones.

    Neither checks its arguments: arrays have the layouts that this was made for, and no result
    shares memory with another array. A `fusion` has the steps of a call of several where some have
    one kernel; `counted` takes what runs them one by one, and whether the calling thread does that
    `alone`. `engine` names what computes the steps, for the statistics, once their
    kernels are chosen.
    """

    def __init__(
        self,
        program: Program,
        xp: Any,
        made: Callable[[TensorSpec], Make],
        launch: Callable[[Step | FusedStep], Run],
        begun: Begins[Step | FusedStep],
        fusion: Fusion | None = None,
        counted: Callable[..., Run] | None = None,
        *,
        engine: Callable[[], str] = lambda: statistics.GENERATED,
    ) -> None:
        slots = program.result_slots
        steps: Sequence[Step | FusedStep] = program.steps if fusion is None else fusion.steps
        temporaries = program.temporaries if fusion is None else fusion.temporaries
        results, first = program.results, program.results[0]
        filled = [
            (slot, fill)
            for slot, fill in zip(slots, program.fills, strict=False)
            if fill is not None
        ]
        self.results = results
        makers = [made(spec) for spec in results]
        if program.is_one_kernel:
            run = _of_some(launch(steps[0]), program)
        else:
            launches = launched(steps, begun)
            makes = [made(spec) for spec in temporaries]
            if _may_lack_memory(launches, temporaries, slots):
                run = _one_by_one(launches, makes, slots.stop, filled)
            elif (at_once := _at_once(launches, temporaries, slots.stop)) is not None:
                every = StepLaunch(at_once, None, tuple(range(slots.stop)))
                run = _in_steps((every,), (), filled) if filled else at_once
            else:
                run = _in_steps(launches, makes, filled)
            if counted is not None:
                run = counted(run, alone=all(map(_is_alone, launches)))
        if program.converted:
            run = _converting(run, program.converted)
        engine_name = engine() if steps else statistics.FILLED
        tally = statistics.tally(engine_name, first.dtype)
        # What `stage_timer.ran` is told of it; kernels are for those who choose them to add.
        self.served_by: tuple[object, ...] = () if steps else (tally,)
        self.into = counting(run, tally)
        if len(results) > 1:
            self.new = several_launch(run, makers, tally, results, on_host=xp is np)
        else:
            self.new = single_launch(run, makers[0], tally, program.operands, first)
            if xp is np and not first.shape:
                self.new = scalar_result(self.new)


def _of_some(run: Run, program: Program) -> Run:
    """A launch of a program's only step, as a function of all operands and the result."""
    slots = (*program.steps[0].operands, program.operands)
    if slots == tuple(range(program.operands + 1)):
        return run
    choose = StepLaunch(run, None, slots).arrays

    def of_some(*arrays: Array) -> None:
        run(*choose(arrays))

    of_some.chosen = run, slots[:-1]  # pyright: ignore[reportFunctionMemberAccess]
    return of_some


def as_converted(operands: Sequence[Array], conversions: Conversions) -> list[Array]:
    """The operands, with some of them copied to another type."""
    given = list(operands)
    for number, dtype in conversions:
        given[number] = given[number].astype(dtype, order="C")
    return given


def _converting(run: Run, conversions: Conversions) -> Run:
    """Wrap a launch so that some operands are converted to another type first."""

    def converting(*arrays: Array) -> None:
        run(*as_converted(arrays, conversions))

    return converting


def _in_steps(
    launches: Sequence[StepLaunch], temporaries: Sequence[Make], filled: Sequence[tuple[int, float]]
) -> Run:
    """A launch of steps on operands, results and newly allocated temporaries."""

    def into(*arrays: Array) -> None:
        # All memory first: nothing is written where there is none.
        slots = (*arrays, *[make() for make in temporaries]) if temporaries else arrays
        for slot, fill in filled:
            arrays[slot].fill(fill)
        run_all(launches, slots)

    return into


def _at_once(
    launches: Sequence[StepLaunch], temporaries: Sequence[TensorSpec], arrays: int
) -> Run | None:
    """A single built-in launch of all steps, where they need only addresses; else None."""
    uncounteds = [uncounted(launch.run) for launch in launches]
    runs, nbytes = [run for run, _ in uncounteds], [spec.nbytes for spec in temporaries]
    if not launches:
        return None
    if all(map(runs_at_once, runs)):
        module = importlib.import_module("mdtensor.backends.llvm.native_launch")
        pairs = [(run, each.slots) for run, each in zip(runs, launches, strict=True)]
        found = module.in_sequence(pairs, arrays, nbytes)
    elif all(hasattr(run, "program") for run in runs):
        module = importlib.import_module("mdtensor.backends.cuda.cuda_sequence")
        pairs = [(run, each.arrays) for run, each in zip(runs, launches, strict=True)]
        found = module.in_sequence(pairs, arrays, nbytes)
    else:
        return None
    for numbers in dict.fromkeys(number for _, several in uncounteds for number in several):
        found = counting_launches(found, numbers)
    return found


def _is_alone(launch: StepLaunch) -> bool:
    """Whether a step runs in the calling thread alone."""
    run, _ = uncounted(launch.run)
    if runs_at_once(run):
        return all(step.inline for step in run.__self__.steps)
    return launch.finish is None and getattr(run, "inline", True)


def _may_lack_memory(
    launches: Sequence[StepLaunch], temporaries: Sequence[TensorSpec], results: range
) -> bool:
    """Whether temporaries are large, and so allocated late and freed early.

    Not where a step before the last writes a result, since nothing is written without memory.
    """
    writes_early = any(slot in results for launch in launches[:-1] for slot in launch.slots)
    return not writes_early and sum(spec.nbytes for spec in temporaries) >= _MUCH


def _one_by_one(
    launches: Sequence[StepLaunch],
    temporaries: Sequence[Make],
    first: int,
    filled: Sequence[tuple[int, float]],
) -> Run:
    """A launch of steps in order, with each temporary alive only while steps use it.

    `first` is the slot of the first of these arrays.
    """
    lives = lifetimes([launch.slots for launch in launches])
    between = [slot for slot in lives if slot >= first]
    made = [[s for s in between if lives[s][0] == n] for n in range(len(launches))]
    dropped = [[s for s in between if lives[s][1] == n] for n in range(len(launches))]
    steps = [*zip(launches, made, dropped, strict=True)]

    def into(*arrays: Array) -> None:
        slots: list[Array] = [*arrays, *[None] * len(temporaries)]
        for slot, fill in filled:
            arrays[slot].fill(fill)
        for launch, new, old in steps:
            for slot in new:
                slots[slot] = temporaries[slot - first]()
            run_all((launch,), slots)
            for slot in old:
                slots[slot] = None

    return into
