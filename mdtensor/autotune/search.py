"""The search: measure the seeds, then what a technique proposes, until the budget is spent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

from mdtensor.autotune.space import Configuration, Space
from mdtensor.autotune.techniques import TECHNIQUES, MakeTechnique, Technique
from mdtensor.autotune.trial import Measured, Status, Trial
from mdtensor.errors import TuningError

__all__ = ["Measure", "Measured", "SearchOutcome", "Status", "Stopped", "Trial", "search"]

Measure: TypeAlias = Callable[[Configuration], Trial]
Stopped: TypeAlias = Literal["budget", "max_trials", "exhausted", "interrupted"]

# A technique that proposes this many known configurations in a row is helped out.
MAX_REPEATS = 50


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """All trials in order, the best of them, and why and when the search stopped."""

    trials: tuple[Measured, ...]
    stopped: Stopped
    seconds: float

    @property
    def best(self) -> Measured | None:
        """The fastest trial that is ok, the first of equals; `None` without any."""
        best = min(self.trials, key=lambda each: each.trial.cost, default=None)
        return None if best is None or best.trial.cost == math.inf else best

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the search."""
        return self.stopped == "interrupted"

    def ranked(self) -> list[Measured]:
        """The trials that are ok, fastest first."""
        counted = (each for each in self.trials if each.trial.cost < math.inf)
        return sorted(counted, key=lambda each: each.trial.cost)


def search(
    space: Space,
    measure: Measure,
    *,
    seeds: Iterable[Mapping[str, object]] = (),
    known: Iterable[tuple[Mapping[str, object], Trial]] = (),
    budget_s: float,
    max_trials: int | None = None,
    technique: str | MakeTechnique = "bandit",
    rng_seed: int = 0,
    on_trial: Callable[[Measured], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SearchOutcome:
    """Look for the fastest configuration within a budget of seconds.

    The seeds are measured first, in order; one that is not in the space stands for the nearest
    that is. No configuration is measured twice, nor are those of `known`, whose trials the
    technique learns from but which are not part of the outcome. The budget is checked before each
    measurement: the one under way is finished. Ctrl-C ends the search and returns what was
    measured.

    >>> from mdtensor.lower.parameter import Parameter
    >>> space = Space([Parameter("tile", range(1, 100)), Parameter("unroll", (1, 2, 4, 8))])
    >>> def measure(c):
    ...     return Trial("ok", 1e-6 * (1 + abs(c["tile"] - 64) + abs(c["unroll"] - 4)))
    >>> outcome = search(space, measure, budget_s=60, max_trials=200)
    >>> outcome.best.configuration, outcome.stopped
    ({'tile': 64, 'unroll': 4}, 'max_trials')

    Raises `TuningError` for an unknown technique; what `measure` raises passes through.
    """
    rng = Random(rng_seed)
    chosen = _technique(technique, space, rng)
    began = clock()
    costs: dict[int, float] = {}
    for configuration, trial in known:
        if configuration in space:
            costs[space.index(configuration)] = trial.cost
    trials: list[Measured] = []
    stopped: Stopped = "exhausted"
    try:
        for index, cost in costs.items():
            chosen.tell(index, cost)
        for proposer, index in _proposals(space, seeds, chosen, costs, rng):
            if max_trials is not None and len(trials) >= max_trials:
                stopped = "max_trials"
                break
            if clock() - began >= budget_s:
                stopped = "budget"
                break
            configuration = space.configuration(index)
            trial = measure(configuration)
            measured = Measured(configuration, trial, proposer, clock() - began)
            trials.append(measured)
            costs[index] = trial.cost
            if on_trial is not None:
                on_trial(measured)
            chosen.tell(index, trial.cost)
    except KeyboardInterrupt:
        stopped = "interrupted"
    return SearchOutcome(tuple(trials), stopped, clock() - began)


def _technique(technique: str | MakeTechnique, space: Space, rng: Random) -> Technique:
    if not isinstance(technique, str):
        return technique(space, rng)
    if technique not in TECHNIQUES:
        raise TuningError(
            f"unknown search technique {technique!r}", hint=f"one of {', '.join(TECHNIQUES)}"
        )
    return TECHNIQUES[technique](space, rng)


def _proposals(
    space: Space,
    seeds: Iterable[Mapping[str, object]],
    technique: Technique,
    costs: Mapping[int, float],
    rng: Random,
) -> Iterator[tuple[str, int]]:
    """Who proposes and what: the seeds, then what the technique asks for, none of it known."""
    if not space:
        return
    for seed in seeds:
        nearest = seed if seed in space else space.nearest(seed, rng)
        assert nearest is not None  # Only pinned values can make it so.
        index = space.index(nearest)
        if index not in costs:
            yield "seed", index
    repeats = 0
    while len(costs) < space.size:
        index = technique.ask()
        if index is None:
            return
        if index in costs:
            technique.tell(index, costs[index])
            repeats += 1
            if repeats < MAX_REPEATS:
                continue
            index = _unmeasured(space.sample_index(rng), space.size, costs)
            repeats = 0
            yield "random", index
            continue
        repeats = 0
        yield technique.name, index


def _unmeasured(start: int, size: int, costs: Mapping[int, float]) -> int:
    """The first index from `start` on, cyclically, that nobody measured."""
    return next(at % size for at in range(start, start + size) if at % size not in costs)
