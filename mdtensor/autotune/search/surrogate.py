"""The surrogate technique: a learned cost model proposes its predicted minima."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from random import Random

import numpy as np

from mdtensor.autotune.search.cost_prediction import Features, Numbers, Prediction
from mdtensor.autotune.space.space import Expected, Space

_LEAST = 16  # measurements from which something is learned
_MOST = 160  # the fastest measurements, from which it is learned
_ELITES = 6
_BATCH = 12
# Drawn for each batch: children of two of the best, and changes of changes.
_CHILDREN, _SECOND = 48, 16
_ASKED = 120  # of which the model is asked for each batch
# By how many deviations what is foretold counts as less, half of the time.
_BOLD = 0.5


class SurrogateModel:
    """A Gaussian process fitted to measurements, whose predicted minima are proposed.

    What it weighs are configurations that differ from one of the best in a parameter or two,
    children of two of the best, and `others` that are worth a look. `expected` is what a model
    says of a configuration, infinity of what cannot be: what is learned is how far it errs.
    """

    name = "learned"

    def __init__(
        self,
        space: Space,
        rng: Random,
        expected: Expected = lambda _: 1.0,
        others: Iterable[Mapping[str, object]] = (),
    ) -> None:
        self._space, self._rng = space, rng
        self._expected = expected
        self._others = [space.index(configuration) for configuration in others]
        self._features = Features(space)
        self._chance = np.random.default_rng(rng.getrandbits(64))
        self._rows: dict[int, tuple[Numbers, float] | None] = {}
        self._costs: dict[int, float] = {}
        self._asked: set[int] = set()
        self._near: dict[int, list[int]] = {}
        self._queue: list[int] = []

    def ask(self) -> int | None:
        """The next of a batch of predicted minima; random before there are enough measurements."""
        if not self._queue and len(self._costs) >= _LEAST:
            self._queue = self._foretold()
        if not self._queue:
            self._queue = [self._space.sample_index(self._rng) for _ in range(_BATCH)]
        index = self._queue.pop()
        self._asked.add(index)
        return index

    def tell(self, index: int, cost: float) -> None:
        """Add a measurement to the training set, unless it failed."""
        self._asked.add(index)
        if 0 < cost < math.inf:
            self._costs[index] = cost

    def _row(self, index: int) -> tuple[Numbers, float] | None:
        """Features of a configuration and the log of its modelled cost; None if infeasible."""
        if index not in self._rows:
            configuration = self._space.configuration(index)
            expected = self._expected(configuration)
            possible = 0 < expected < math.inf
            features = self._features.of(configuration)
            self._rows[index] = (features, math.log(expected)) if possible else None
        return self._rows[index]

    def _foretold(self) -> list[int]:
        """A batch of new configurations of lowest predicted cost, the lowest last."""
        order = sorted(self._costs, key=lambda index: self._costs[index])[:_MOST]
        known = [index for index in order if self._row(index) is not None]
        new = self._possible(self._pool(order[:_ELITES]))
        if not known or not new:
            return []
        count = len(self._features.names)
        costs = [math.log(self._costs[index]) for index in known]
        found, deviations = Prediction.of(*self._matrix(known), costs, count).at(*self._matrix(new))
        bold = _BOLD * np.abs(self._chance.standard_normal(len(new)))
        best = np.argsort(found - bold * deviations)[:_BATCH]
        return [new[n] for n in reversed(best)]

    def _possible(self, pool: Iterable[int]) -> list[int]:
        """The feasible configurations; at most `_ASKED` new ones are put to the cost model."""
        found: list[int] = []
        asked = 0
        for index in pool:
            asked += index not in self._rows
            if (index in self._rows or asked <= _ASKED) and self._row(index) is not None:
                found.append(index)
        return found

    def _matrix(self, indices: Iterable[int]) -> tuple[Numbers, Numbers]:
        pairs = [row for index in indices if (row := self._row(index)) is not None]
        return np.array([row for row, _ in pairs]), np.array([expected for _, expected in pairs])

    def _pool(self, elites: list[int]) -> list[int]:
        """Candidates for the next batch, none measured or proposed yet."""
        pool: dict[int, None] = {}
        for elite in elites:
            pool |= dict.fromkeys(self._changes(elite))
        for _ in range(_SECOND):
            first = self._rng.choice(self._changes(self._rng.choice(elites)) or elites)
            second = next(self._space.changes(self._space.configuration(first), self._rng), None)
            if second is not None:
                pool[self._space.index(second)] = None
        for _ in range(_CHILDREN):
            pool |= dict.fromkeys(self._child(*self._rng.choices(elites, k=2)))
        pool |= dict.fromkeys(self._others)
        return [index for index in pool if index not in self._asked]

    def _changes(self, index: int) -> list[int]:
        """The configurations that differ in one parameter; memoised."""
        if index not in self._near:
            changes = self._space.changes(self._space.configuration(index), self._rng)
            self._near[index] = [self._space.index(change) for change in changes]
        return self._near[index]

    def _child(self, one: int, other: int) -> list[int]:
        """A crossover of two configurations, half of the time with a mutation; [] if invalid."""
        share = self._rng.random()
        first, second = self._space.configuration(one), self._space.configuration(other)
        mixed = {name: (first if self._rng.random() < share else second)[name] for name in first}
        if self._rng.random() < 0.5:
            name = self._rng.choice(self._features.names)
            mixed[name] = self._rng.choice(self._features.domains[name])
        found = self._space.adapted(mixed)
        return [] if found is None else [self._space.index(found)]
