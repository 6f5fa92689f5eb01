"""Fused calls: a frequent call of several small programs gets one program for all of them.

A launch takes longer than a small kernel runs. Where the calling thread runs all steps of a call,
one kernel with their constants is compiled in the background, which later calls take.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import partial

from mdtensor.api.engine.cpu_tier import WORTH_OFTEN
from mdtensor.api.engine.kernel_choice import DIALECTS, ranking_in
from mdtensor.api.engine.launch_counter import LaunchNumbers, counting
from mdtensor.api.engine.tiers import Tiers
from mdtensor.backends import protocol
from mdtensor.dataclass import dataclass
from mdtensor.errors import CompileError, LoweringError
from mdtensor.lower.cpu.cost.cpu_cost import INLINE_LAUNCH
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.chain_schedule import ChainSchedule
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.rewrites.shared_rows import rows_within

# What a small step takes, in launches.
_LAUNCHES_OF_STEP = 2
_MOST_JOINED = 64  # calls that have programs of their own, or cannot have them


@dataclass(frozen=True, slots=True)
class Fused:
    """The one kernel of a program, and its steps as problems with their schedules."""

    program: protocol.Program
    steps: tuple[tuple[Problem, Schedule], ...]
    by_rows: ChainSchedule | None = None


# The share of a program's time that blocks of rows save at most, from which they are looked for:
# that takes seconds. Padded copies of images that are convolved are below.
WORTH_ROWS = 0.1


@dataclass(frozen=True, slots=True)
class Made:
    """The outcome of fusing a program under these winners: nothing where it cannot be fused."""

    winners: tuple[Schedule | None, ...]
    fused: Fused | None


def is_worth_joining(seconds: float, apart: float) -> bool:
    """Whether a program by rows is expected to take no longer than its steps apart."""
    return seconds <= apart


class Joined:
    """The fused kernels of programs on one device.

    `problem_of` gives the problem of a step, `winner` the schedule that was found for it, if any.
    `made` has them by programs, and by whether winners in the store count.
    """

    def __init__(
        self,
        tiers: Tiers,
        problem_of: Callable[[MDHom], Problem],
        winner: Callable[[Problem], Schedule | None],
    ) -> None:
        self._tiers, self._problem_of, self._winner = tiers, problem_of, winner
        self.made: dict[tuple[Program, bool], Made] = {}

    def fused(self, program: Program, *, use_store: bool) -> Fused | None:
        """The kernel of a program on operands and results, if there is one."""
        made = self._known(program, use_store=use_store)
        return None if made is None else made.fused

    def counted(
        self, program: Program, run: Callable[..., None], *, use_store: bool, alone: bool
    ) -> Callable[..., None]:
        """Runs a program step by step, and asks for its fused kernel once that took long.

        Where the calling thread does not do it `alone`, a program has one only by rows.
        """
        if len(self.made) >= _MOST_JOINED or self._known(program, use_store=use_store) is not None:
            return run
        if not alone and not rows_within(program.steps, program.between):
            return run
        key = program, use_store
        seconds = _LAUNCHES_OF_STEP * INLINE_LAUNCH * len(program.steps)
        if not alone:
            seconds += sum(self._least_seconds(step.md_hom) for step in program.steps)
            if self._most_saved(program) < WORTH_ROWS * seconds:
                return run
        make = partial(self._make, key, alone)
        ask = partial(self._tiers.background.ask, key, make, must=True)
        return counting(run, LaunchNumbers(math.ceil(WORTH_OFTEN / seconds), ask))

    def _known(self, program: Program, *, use_store: bool) -> Made | None:
        made = self.made.get((program, use_store))
        if made is None or made.winners != self._winners(program, use_store=use_store):
            return None
        return made

    def _winners(self, program: Program, *, use_store: bool) -> tuple[Schedule | None, ...]:
        if not use_store:
            return (None,) * len(program.steps)
        return tuple([self._winner(self._problem_of(step.md_hom)) for step in program.steps])

    def _make(self, key: tuple[Program, bool], alone: bool) -> None:
        program, use_store = key
        winners = self._winners(program, use_store=use_store)
        fused = None
        if alone:
            with contextlib.suppress(CompileError, LoweringError):
                fused = self._compiled(program, winners)
        if fused is None:
            with contextlib.suppress(CompileError, LoweringError):  # then steps run one by one
                fused = self._by_rows(program)
        self.made[key] = Made(winners, fused)
        if fused is not None:
            self._tiers.tell()

    def _most_saved(self, program: Program) -> float:
        """What blocks of rows save at most: launches, and moving what lies between twice."""
        moved = 2 * sum(spec.nbytes for spec in program.between.values())
        launches = _LAUNCHES_OF_STEP * INLINE_LAUNCH * (len(program.steps) - 1)
        return launches + moved / self._tiers.target.bandwidth

    def _least_seconds(self, md_hom: MDHom) -> float:
        """What a step takes at least: its arithmetic on all cores, or moving its results."""
        target = self._tiers.target
        moved = sum(buffer.spec.nbytes for buffer in md_hom.outputs)
        return max(md_hom.points / (target.rate * target.cores), moved / target.bandwidth)

    def _by_rows(self, program: Program) -> Fused | None:
        """The kernel of a program block of rows by block of rows, where that is faster."""
        from mdtensor.kernels.chain_program import chain_program_of
        from mdtensor.lower.search.chain_candidates import best_on_rows, row_chain

        shared = row_chain(program.steps, program.between)
        found = (
            None
            if shared is None
            else self._tiers.apart.call(best_on_rows, shared, self._tiers.target)
        )
        if found is None:
            return None
        seconds, made, schedule = found
        apart = sum(
            ranking_in(self._tiers.apart, self._problem_of(step.md_hom))[0][0]
            for step in program.steps
        )
        if not is_worth_joining(seconds, apart):
            return None
        source = chain_program_of(
            made.steps,
            made.rest,
            schedule,
            made.blocks.extents,
            range(program.result_slots.stop),
            made.between,
            DIALECTS[self._tiers.target.dialect],
        )
        scheduled = zip(made.steps, schedule.steps, strict=True)
        steps = tuple([(problem, how) for (problem, _), how in scheduled])
        return Fused(self._tiers.apart.compile(source), steps, schedule)

    def _compiled(self, program: Program, winners: tuple[Schedule | None, ...]) -> Fused:
        from mdtensor.kernels.program import joined_program_of

        steps: list[tuple[Problem, Schedule, tuple[int, ...]]] = []
        for step, found in zip(program.steps, winners, strict=True):
            problem = self._problem_of(step.md_hom)
            schedule = found or self._best(problem)
            steps.append((problem, schedule, (*step.operands, *step.results)))
        source = joined_program_of(
            steps,
            range(program.operands),
            program.result_slots,
            {slot: spec.nbytes for slot, spec in program.between.items()},
            DIALECTS[self._tiers.target.dialect],
            [problem_key(problem) for problem, _, _ in steps],
        )
        scheduled = tuple([(problem, schedule) for problem, schedule, _ in steps])
        return Fused(self._tiers.apart.compile(source), scheduled)

    def _best(self, problem: Problem) -> Schedule:
        return ranking_in(self._tiers.apart, problem)[0][1]
