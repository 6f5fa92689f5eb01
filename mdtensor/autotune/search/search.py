"""The search loop: measure the seeds, then a technique's proposals, until the budget is spent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from random import Random
from typing import Any, Literal, TypeAlias

from mdtensor.autotune.search.abort_conditions import Condition, Progress
from mdtensor.autotune.search.proposals import (
    Costs,
    Proposal,
    Screen,
    proposals_of,
    technique_named,
)
from mdtensor.autotune.search.techniques import MakeTechnique
from mdtensor.autotune.space.space import Configuration, Expected, Space
from mdtensor.autotune.trial import Measured, Trial
from mdtensor.dataclass import dataclass
from mdtensor.signals import uninterrupted

Measure: TypeAlias = Callable[[Configuration], Trial]
Prepare: TypeAlias = Callable[[Configuration], "Future[Any] | None"]
Stopped: TypeAlias = Literal["budget", "abort", "exhausted", "interrupted"]


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """All trials in order, the best of them, and why and when the search stopped."""

    trials: tuple[Measured, ...]
    stopped: Stopped
    seconds: float

    @property
    def best(self) -> Measured | None:
        """The fastest valid trial, the first of equals; `None` without any."""
        best = min(self.trials, key=lambda each: each.trial.cost, default=None)
        return None if best is None or best.trial.cost == math.inf else best

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C stopped the search."""
        return self.stopped == "interrupted"

    def ranked(self) -> list[Measured]:
        """The valid trials, fastest first."""
        counted = (each for each in self.trials if each.trial.cost < math.inf)
        return sorted(counted, key=lambda each: each.trial.cost)


def search(
    space: Space,
    measure: Measure,
    *,
    seeds: Iterable[Mapping[str, object]] = (),
    known: Iterable[tuple[Mapping[str, object], Trial]] = (),
    budget_s: float,
    abort: Condition | None = None,
    technique: str | MakeTechnique = "bandit",
    rng_seed: int = 0,
    on_trial: Callable[[Measured], None] | None = None,
    cost: Callable[[Configuration, Trial], float] = lambda _, trial: trial.cost,
    prepare: Prepare | None = None,
    ahead: int = 0,
    apart: bool = False,
    expected: Expected | None = None,
    draws: int = 1,
    clock: Callable[[], float] = time.monotonic,
) -> SearchOutcome:
    """Look for the fastest configuration within a budget of seconds.

    The seeds are measured first, in order; one that is not in the space stands for the nearest
    that is. No configuration is measured twice, nor are those of `known`, whose trials the
    technique learns from but which are not part of the outcome. The budget, and the condition to
    `abort`, are checked before each measurement: the one under way is finished. Ctrl-C ends the
    search and returns what was measured.

    Techniques are told the `cost` of what was measured, which is its time where nobody says.

    So many configurations as `ahead` says are proposed before the first of them is measured, and
    `prepare` is told of each: it can begin what takes long, and others can do, such as compiling.
    Where it returns futures, those are measured first that are done. Where preparing would disturb
    measuring, it is done `apart`: so many are proposed together, and measured when all futures are
    done, before more are proposed.

    Where a model can tell what is `expected` of a configuration, the technique is asked so many
    times as `draws` says for each that is measured: the one of which least is expected.

    >>> from mdtensor.autotune.search.abort_conditions import evaluations
    >>> from mdtensor.lower.schedule.parameter import SpaceParameter
    >>> tile, unroll = SpaceParameter("tile", range(1, 100)), SpaceParameter("unroll", (1, 2, 4, 8))
    >>> space = Space([tile, unroll])
    >>> def measure(c):
    ...     return Trial("ok", 1e-6 * (1 + abs(c["tile"] - 64) + abs(c["unroll"] - 4)))
    >>> outcome = search(space, measure, budget_s=60, abort=evaluations(200))
    >>> outcome.best.configuration, outcome.stopped
    ({'tile': 64, 'unroll': 4}, 'abort')

    Raises `TuningError` for an unknown technique; what `measure` raises passes through.
    """
    rng = Random(rng_seed)
    chosen = technique_named(technique)(space, rng)
    began = clock()
    costs: Costs = {}
    for configuration, trial in known:
        if configuration in space:
            costs[space.index(configuration)] = trial.cost
    trials: list[Measured] = []
    progress = Progress(space.size)
    stopped: Stopped = "exhausted"
    try:
        for index, before in tuple(costs.items()):
            chosen.tell(index, before or 0.0)
        screen = Screen(space, chosen, costs, expected, draws)
        draw = _Draw(space, proposals_of(space, seeds, screen, costs, rng), costs, prepare)
        if apart and ahead:
            proposals = draw.together(ahead, lambda: budget_s - (clock() - began))
        else:
            proposals = draw.ahead(ahead)
        for proposer, index in proposals:
            progress.elapsed = clock() - began
            if abort is not None and abort.holds(progress):
                stopped = "abort"
                break
            if progress.elapsed >= budget_s:
                stopped = "budget"
                break
            configuration = space.configuration(index)
            trial = measure(configuration)
            measured = Measured(configuration, trial, proposer, clock() - began)
            trials.append(measured)
            progress.add(trial.cost, measured.elapsed)
            costs[index] = told = cost(configuration, trial)
            if on_trial is not None:
                on_trial(measured)
            chosen.tell(index, told)
    except KeyboardInterrupt:
        stopped = "interrupted"
    return SearchOutcome(tuple(trials), stopped, clock() - began)


@dataclass(frozen=True, slots=True)
class _Draw:
    """Draws proposals ahead of measurement, and starts the preparation of each."""

    space: Space
    proposals: Iterator[Proposal]
    costs: Costs
    prepare: Prepare | None

    def ahead(self, many: int) -> Iterator[Proposal]:
        """Yield with `many` proposals in preparation ahead; those that are ready come first."""
        waiting: list[tuple[Proposal, Future[Any] | None]] = []
        while True:
            waiting += self._drawn(many + 1 - len(waiting))
            if not waiting:
                return
            first = uninterrupted(_first_ready, [future for _, future in waiting])
            yield waiting.pop(first)[0]

    def together(self, many: int, left: Callable[[], float]) -> Iterator[Proposal]:
        """Yield batches of `many`, each prepared entirely before its first is measured.

        Fewer are drawn where, by what the last ones took, there are not enough seconds `left`.
        """
        each = 0.0
        while True:
            before = left()
            fitting = min(many, max(1, int(before / each))) if each > 0 else many
            drawn = list(self._drawn(fitting, prepared=before > 0))
            if not drawn:
                return
            futures = [future for _, future in drawn if future is not None]
            uninterrupted(wait, futures, timeout=max(0.0, before))
            yield from (proposal for proposal, _ in drawn)
            each = (before - left()) / len(drawn)

    def _drawn(
        self, many: int, *, prepared: bool = True
    ) -> Iterator[tuple[Proposal, Future[Any] | None]]:
        prepare = self.prepare if prepared else None
        for proposal in islice(self.proposals, many):
            _, index = proposal
            self.costs[index] = None
            yield proposal, None if prepare is None else prepare(self.space.configuration(index))


def _first_ready(futures: Sequence[Future[Any] | None]) -> int:
    """The position of the first future that is done (or None), after waiting for one."""
    while True:
        for position, future in enumerate(futures):
            if future is None or future.done():
                return position
        wait([future for future in futures if future is not None], return_when=FIRST_COMPLETED)
