"""An ask/tell interface to the search, and the loop around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random

from mdtensor.autotune.search.abort_conditions import Condition, Progress
from mdtensor.autotune.search.proposals import Costs, Screen, proposals_of, technique_named
from mdtensor.autotune.search.search import SearchOutcome, Stopped
from mdtensor.autotune.search.techniques import MakeTechnique
from mdtensor.autotune.space.space import Configuration, Space
from mdtensor.autotune.trial import Measured
from mdtensor.errors import TuningError
from mdtensor.tuner.costs import Cost, CostValue, trial_of
from mdtensor.tuner.trial_file import TrialFile


class Tuner:
    """A search with an ask/tell interface, for evaluations that happen anywhere.

    It may be asked several times before it is told, which lets several evaluations go on at once,
    and told of configurations that it did not propose. `known` are costs from before, which are
    part of the outcome, and count as evaluations. The other arguments are those of `search`.

    >>> from mdtensor.tuner import Parameter, Space, evaluations
    >>> space = Space([Parameter("tile", (1, 2, 4, 8, 16)), Parameter("unroll", (1, 2, 4))])
    >>> tuner = Tuner(space, abort=evaluations(15))
    >>> while (configuration := tuner.ask()) is not None:
    ...     _ = tuner.tell(configuration, abs(configuration["tile"] - 8) + configuration["unroll"])
    >>> tuner.best.configuration, tuner.best.trial.cost
    ({'tile': 8, 'unroll': 1}, 1.0)

    Raises `TuningError` for an unknown technique, and for no cost.
    """

    def __init__(
        self,
        space: Space,
        technique: str | MakeTechnique = "bandit",
        *,
        abort: Condition | None = None,
        starts: Iterable[Mapping[str, object]] = (),
        known: Iterable[tuple[Mapping[str, object], CostValue]] = (),
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        rng = Random(seed)
        self.space = space
        self._abort = abort
        self._clock = clock
        self._began = clock()
        self._technique = technique_named(technique)(space, rng)
        self._costs: Costs = {}
        self._proposers: dict[int, str] = {}
        self._trials: list[Measured] = []
        self._progress = Progress(space.size)
        self._best: Measured | None = None
        self._exhausted = False
        for configuration, cost in known:
            if configuration in space and space.index(configuration) not in self._costs:
                self._add(space.index(configuration), cost, "known", 0.0)
        screen = Screen(space, self._technique, self._costs)
        self._proposals = proposals_of(space, starts, screen, self._costs, rng)

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return self._clock() - self._began

    @property
    def done(self) -> bool:
        """Whether the abort condition holds, or every configuration was proposed."""
        return self._exhausted or self._aborted

    @property
    def best(self) -> Measured | None:
        """The evaluation of least cost, the first of equals; None before any was valid."""
        return self._best

    def ask(self) -> Configuration | None:
        """A configuration that was not proposed yet; None when the search is done."""
        if self.done:
            return None
        proposer, index = next(self._proposals, ("", -1))
        if index < 0:
            self._exhausted = True
            return None
        self._costs[index] = None
        self._proposers[index] = proposer
        return self.space.configuration(index)

    def tell(self, configuration: Mapping[str, object], cost: CostValue) -> Measured:
        """Record a configuration's cost: a number of at least 0, or `invalid("why")`.

        None, infinity and nan are invalid too. Raises `TuningError` for another cost, `SpaceError`
        for a configuration that is not of the space.
        """
        index = self.space.index(configuration)
        return self._add(index, cost, self._proposers.pop(index, "told"), self.elapsed)

    def outcome(self, *, interrupted: bool = False) -> SearchOutcome:
        """All evaluations in order, the best of them, and why the search stopped."""
        stopped: Stopped = "exhausted" if self._exhausted and not self._aborted else "abort"
        return SearchOutcome(
            tuple(self._trials), "interrupted" if interrupted else stopped, self.elapsed
        )

    @property
    def _aborted(self) -> bool:
        self._progress.elapsed = self.elapsed
        return self._abort is not None and self._abort.holds(self._progress)

    def _add(self, index: int, cost: CostValue, proposer: str, elapsed: float) -> Measured:
        trial = trial_of(cost)
        measured = Measured(self.space.configuration(index), trial, proposer, elapsed)
        self._trials.append(measured)
        self._costs[index] = trial.cost
        self._progress.add(trial.cost, elapsed)
        if trial.status == "ok" and (self._best is None or trial.cost < self._best.trial.cost):
            self._best = measured
        self._technique.tell(index, trial.cost)
        return measured


def search(
    space: Space,
    cost: Cost,
    technique: str | MakeTechnique = "bandit",
    abort: Condition | None = None,
    *,
    starts: Iterable[Mapping[str, object]] = (),
    known: Iterable[tuple[Mapping[str, object], CostValue]] = (),
    file: str | Path | None = None,
    name: str = "search",
    seed: int = 0,
    on_trial: Callable[[Measured], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> SearchOutcome:
    """Look for the configuration of a space that costs least.

    `cost` maps a configuration, a dict of values by name, to a number of at least 0 in any unit,
    or to `invalid("why")`, which the search learns from. What it raises ends the search. No
    configuration is evaluated twice. `technique` is one of `TECHNIQUES`, or a function of a space
    and a random generator that makes one. Without a condition to `abort`, every configuration is
    evaluated. Ctrl-C ends the search, and returns what was found.

    The configurations of `starts` come first; one that is not in the space stands for the nearest
    that is. `known` are configurations whose costs are known; they count as evaluations. A `file`
    keeps all evaluations as soon as they are made, under the `name` of this search: those that it
    has already are known, so that a search that was ended goes on. `seed` makes chance repeatable,
    and `on_trial` is called after each evaluation.

    >>> from mdtensor.tuner import Parameter, Space, duration, evaluations, invalid
    >>> space = Space([Parameter("tile", range(1, 100)), Parameter("unroll", (1, 2, 4, 8))])
    >>> def cost(c):
    ...     if c["tile"] * c["unroll"] > 300:
    ...         return invalid("too many registers")
    ...     return 1 + abs(c["tile"] - 64) + abs(c["unroll"] - 4)
    >>> found = search(space, cost, abort=evaluations(300) | duration(minutes=1))
    >>> found.best.configuration, found.best.trial.cost
    ({'tile': 64, 'unroll': 4}, 1.0)

    Raises `TuningError` for an unknown technique, an empty space, and what is no cost.
    """
    if not space:
        raise TuningError(
            "the space has no configuration", hint="its constraints exclude each other"
        )
    kept = None if file is None else TrialFile(file, name)
    if kept is not None:
        known = [*kept.known(), *known]
    tuner = Tuner(space, technique, abort=abort, starts=starts, known=known, seed=seed, clock=clock)
    try:
        while (configuration := tuner.ask()) is not None:
            measured = tuner.tell(configuration, cost(configuration))
            if kept is not None:
                kept.add(measured)
            on_trial(measured)
    except KeyboardInterrupt:
        return tuner.outcome(interrupted=True)
    return tuner.outcome()
