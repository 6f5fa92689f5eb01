"""Fusion of consecutive steps of a program, as candidates for one kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom_program import FusedStep, Program, Step
from mdtensor.translate.rewrites.shared_rows import rows_within

_LONGEST = 32  # steps of a run


def fused_runs(
    program: Program, may_be_one: Callable[[Sequence[Step], Sequence[int]], object] = rows_within
) -> dict[int, FusedStep]:
    """The longest runs of steps that `may_be_one` accepts, by their first step's number.

    It gets consecutive steps, and the slots that no other step uses; by default it accepts steps
    that share rows.
    """
    found: dict[int, FusedStep] = {}
    begin = 0
    while begin < len(program.steps):
        last = min(begin + _LONGEST, len(program.steps))
        runs = (_run(program, begin, end, may_be_one) for end in range(last, begin + 1, -1))
        run = next(filter(None, runs), None)
        if run is not None:
            found[begin] = run
        begin += 1 if run is None else len(run.program.steps)
    return found


def _run(
    program: Program,
    begin: int,
    end: int,
    may_be_one: Callable[[Sequence[Step], Sequence[int]], object],
) -> FusedStep | None:
    """Fuse steps `begin` to `end`; None if they may not be one."""
    lives = program.lifetimes
    steps = program.steps[begin:end]
    between = [slot for slot in program.between if slot in lives]
    own = [slot for slot in between if begin <= lives[slot][0] and lives[slot][1] < end]
    if not own or not may_be_one(steps, own):
        return None
    written = {slot for step in steps for slot in step.results}
    read = {slot for step in steps for slot in step.operands}
    operands, results = sorted(read - written), sorted(written - {*own})
    return _as_one(program, steps, operands, results, own)


def _as_one(
    program: Program,
    steps: Sequence[Step],
    operands: Sequence[int],
    results: Sequence[int],
    own: Sequence[int],
) -> FusedStep:
    number = {slot: n for n, slot in enumerate((*operands, *results, *own))}
    specs = program.specs
    made, between = (
        tuple([specs[slot - program.operands] for slot in slots]) for slots in (results, own)
    )
    run = Program(len(operands), made, between, tuple([step.on(number) for step in steps]))
    return FusedStep(run, tuple(operands), tuple(results))


def with_runs(
    program: Program, runs: Mapping[int, FusedStep]
) -> tuple[tuple[Step | FusedStep, ...], tuple[TensorSpec, ...]]:
    """A program's steps with runs replaced by fused steps, and the remaining temporaries.

    Runs are given by the numbers of their first steps.
    """
    steps: list[Step | FusedStep] = []
    number = 0
    while number < len(program.steps):
        run = runs.get(number)
        steps.append(run or program.steps[number])
        number += 1 if run is None else len(run.program.steps)
    seen = {slot for step in steps for slot in (*step.operands, *step.results)}
    left = [slot for slot in program.between if slot in seen]
    numbers = {slot: n for n, slot in enumerate((*range(program.result_slots.stop), *left))}
    return tuple([step.on(numbers) for step in steps]), tuple([program.between[n] for n in left])
