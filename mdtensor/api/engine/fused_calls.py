"""Fused calls: a frequent call of several small programs gets one program for all of them.

A launch takes longer than a small kernel runs. Where the calling thread runs all steps of a call,
one kernel with their constants is compiled in the background, which later calls take.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mdtensor.api.async_steps import Chain
from mdtensor.api.engine.cpu_tier import BREATH, WORTH_OFTEN
from mdtensor.api.engine.kernel_choice import DIALECTS, ranked
from mdtensor.api.engine.launch_counter import counting
from mdtensor.api.engine.tiers import Tiers
from mdtensor.backends.protocol import Program
from mdtensor.errors import CompileError, LoweringError
from mdtensor.lower.cpu.cost.cpu_cost import INLINE_LAUNCH
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.md_hom import MDHom

# What a small step takes, in launches.
_LAUNCHES_OF_STEP = 2
_MOST_JOINED = 64  # calls that have programs of their own, or cannot have them


@dataclass(frozen=True, slots=True)
class Fused:
    """The program of a chain, and its steps as problems with their schedules."""

    program: Program
    steps: tuple[tuple[Problem, Schedule], ...]


@dataclass(frozen=True, slots=True)
class Made:
    """The outcome of fusing a chain under these winners: nothing where it cannot be fused."""

    winners: tuple[Schedule | None, ...]
    fused: Fused | None


class Joined:
    """The fused programs of chains on one device.

    `problem_of` gives the problem of a step, `winner` the schedule that was found for it, if any.
    `made` has them by chains, and by whether winners in the store count.
    """

    def __init__(
        self,
        tiers: Tiers,
        problem_of: Callable[[MDHom], Problem],
        winner: Callable[[Problem], Schedule | None],
    ) -> None:
        self._tiers, self._problem_of, self._winner = tiers, problem_of, winner
        self.made: dict[tuple[Chain, bool], Made] = {}

    def fused(self, chain: Chain, *, use_store: bool) -> Fused | None:
        """The program of a chain on operands and results, if there is one."""
        made = self._known(chain, use_store=use_store)
        return None if made is None else made.fused

    def counted(
        self, chain: Chain, run: Callable[..., None], *, use_store: bool
    ) -> Callable[..., None]:
        """Runs a chain step by step, and asks for its fused program once that took long."""
        if len(self.made) >= _MOST_JOINED or self._known(chain, use_store=use_store) is not None:
            return run
        key = chain, use_store
        seconds = _LAUNCHES_OF_STEP * INLINE_LAUNCH * len(chain.steps)
        make = partial(self._make, key)
        ask = partial(self._tiers.background.ask, key, make, must=True)
        return counting(run, itertools.count(1), math.ceil(WORTH_OFTEN / seconds), ask)

    def _known(self, chain: Chain, *, use_store: bool) -> Made | None:
        made = self.made.get((chain, use_store))
        if made is None or made.winners != self._winners(chain, use_store=use_store):
            return None
        return made

    def _winners(self, chain: Chain, *, use_store: bool) -> tuple[Schedule | None, ...]:
        if not use_store:
            return (None,) * len(chain.steps)
        return tuple([self._winner(self._problem_of(step.md_hom)) for step in chain.steps])

    def _make(self, key: tuple[Chain, bool]) -> None:
        chain, use_store = key
        winners = self._winners(chain, use_store=use_store)
        fused = None
        with contextlib.suppress(CompileError, LoweringError):  # then steps run one by one
            fused = self._compiled(chain, winners)
        self.made[key] = Made(winners, fused)
        if fused is not None:
            self._tiers.tell()

    def _compiled(self, chain: Chain, winners: tuple[Schedule | None, ...]) -> Fused:
        from mdtensor.kernels.program import joined_program_of

        steps: list[tuple[Problem, Schedule, tuple[int, ...]]] = []
        for step, found in zip(chain.steps, winners, strict=True):
            problem = self._problem_of(step.md_hom)
            schedule = found or self._best(problem)
            steps.append((problem, schedule, (*step.operands, *step.results)))
        source = joined_program_of(
            steps,
            range(chain.operands),
            chain.results,
            {slot: spec.nbytes for slot, spec in chain.between.items()},
            DIALECTS[self._tiers.target.dialect],
            [problem_key(problem) for problem, _, _ in steps],
        )
        scheduled = tuple([(problem, schedule) for problem, schedule, _ in steps])
        return Fused(self._tiers.apart.compile(source), scheduled)

    def _best(self, problem: Problem) -> Schedule:
        pause = lambda: time.sleep(BREATH)  # noqa: E731
        return ranked(problem, self._tiers.target, most=1, pause=pause)[0][1]
