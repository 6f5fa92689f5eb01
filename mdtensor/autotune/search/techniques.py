"""Search techniques: ask for an index to measure, tell the cost of any measured one.

A technique is told everything that anybody measured, its own proposals or not; a failed
configuration costs infinity. It may propose what was measured before: it is then told the known
cost again, so that a technique needs no memory of its own. It may be asked several times before it
is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Protocol, TypeAlias

from mdtensor.autotune.space.space import Configuration, Space
from mdtensor.dataclass import dataclass


class Technique(Protocol):
    """Proposes indices of configurations and learns from their costs."""

    @property
    def name(self) -> str:
        """The name of whoever made the last proposal: a bandit's member, say."""
        ...

    def ask(self) -> int | None:
        """The next index to measure; `None` once there is nothing left to propose."""
        ...

    def tell(self, index: int, cost: float) -> None:
        """Learn the cost of a configuration, infinity for a failed one."""
        ...


MakeTechnique: TypeAlias = Callable[[Space, Random], Technique]


class Exhaustive:
    """Enumerates every configuration once, in order."""

    name = "exhaustive"

    def __init__(self, space: Space, rng: Random) -> None:
        self._indices: Iterator[int] = iter(range(space.size))

    def ask(self) -> int | None:
        """The next index in order."""
        return next(self._indices, None)

    def tell(self, index: int, cost: float) -> None:
        """Nothing to learn."""


class RandomSearch:
    """Draws configurations uniformly."""

    name = "random"

    def __init__(self, space: Space, rng: Random) -> None:
        self._space = space
        self._rng = rng

    def ask(self) -> int | None:
        """A random index."""
        return self._space.sample_index(self._rng)

    def tell(self, index: int, cost: float) -> None:
        """Nothing to learn."""


@dataclass(slots=True)
class _Elite:
    index: int
    cost: float
    neighbours: Iterator[Configuration]


class HillClimbing:
    """Hill climbing from several elites, the best most often, with random restarts.

    An elite's neighbours are tried near values first, then changed in two places. When nothing
    has entered the elites for `patience` proposals, all but the best make room for fresh
    random ones.
    """

    name = "hill_climbing"

    def __init__(
        self, space: Space, rng: Random, *, elites: int = 4, patience: int = 60, fresh: int = 6
    ) -> None:
        self._space = space
        self._rng = rng
        self._capacity = elites
        self._patience = patience
        self._fresh = fresh
        self._elites: list[_Elite] = []
        self._random_left = fresh
        self._stale = 0

    def ask(self) -> int | None:
        """A neighbour of an elite, or a random start."""
        self._stale += 1
        if self._stale > self._patience:
            del self._elites[1:]
            self._stale, self._random_left = 0, self._fresh
        if self._random_left or not self._elites:
            self._random_left = max(self._random_left - 1, 0)
            return self._space.sample_index(self._rng)
        # Half of the proposals climb from the best, a quarter from the second, …
        rank = min(int(-math.log2(1 - self._rng.random())), len(self._elites) - 1)
        found = next(self._elites[rank].neighbours, None)
        if found is None:
            self._random_left = 1
            del self._elites[max(rank, 1) :]
            return self._space.sample_index(self._rng)
        return self._space.index(found)

    def tell(self, index: int, cost: float) -> None:
        """Add a configuration to the elites if it is among the best."""
        known = [elite.index for elite in self._elites]
        if cost == math.inf or index in known:
            return
        if len(known) == self._capacity and cost >= self._elites[-1].cost:
            return
        self._elites.append(_Elite(index, cost, self._around(index)))
        self._elites.sort(key=lambda elite: elite.cost)
        del self._elites[self._capacity :]
        self._stale = 0

    def _around(self, index: int) -> Iterator[Configuration]:
        here = self._space.configuration(index)
        yield from self._space.neighbours(here, self._rng)
        yield from self._space.neighbours(here, self._rng, changes=2)


class Annealing:
    """Simulated annealing on neighbours, reheated when cold.

    Costs are compared as ratios, so that temperatures mean the same for a kernel of a microsecond
    and of a second: at temperature 0.1 a step that is 10 % slower is taken one time in e.
    """

    name = "annealing"
    HOT, COLD, COOLING = 0.5, 0.01, 0.97

    def __init__(self, space: Space, rng: Random) -> None:
        self._space = space
        self._rng = rng
        self._here: tuple[int, float] | None = None
        self._best: tuple[int, float] | None = None
        self._temperature = self.HOT

    def ask(self) -> int | None:
        """A neighbour of the current configuration."""
        if self._here is None:
            return self._space.sample_index(self._rng)
        self._temperature *= self.COOLING
        if self._temperature < self.COLD:
            self._temperature, self._here = self.HOT, self._best
        assert self._here is not None
        here = self._space.configuration(self._here[0])
        found = next(self._space.neighbours(here, self._rng), None)
        return self._here[0] if found is None else self._space.index(found)

    def tell(self, index: int, cost: float) -> None:
        """Move to a better configuration always, to a worse one by chance."""
        if cost == math.inf:
            return
        if self._best is None or cost < self._best[1]:
            self._best = (index, cost)
        if self._here is None or self._accepts(cost / max(self._here[1], 1e-12)):
            self._here = (index, cost)

    def _accepts(self, ratio: float) -> bool:
        return ratio <= 1 or self._rng.random() < math.exp(-math.log(ratio) / self._temperature)


class DifferentialEvolution:
    """Differential evolution (rand/1/bin) in the coordinates of the unit cube."""

    name = "differential_evolution"
    WEIGHT, CROSSOVER = 0.7, 0.7

    def __init__(self, space: Space, rng: Random, *, population: int = 16) -> None:
        self._space = space
        self._rng = rng
        self._size = population
        self._members: list[tuple[float, tuple[float, ...], int]] = []
        self._turn = 0
        self._pending: dict[int, int] = {}  # proposed index -> the member that it challenges

    def ask(self) -> int | None:
        """A challenger of the next member, round-robin."""
        if len(self._members) < self._size:
            return self._space.sample_index(self._rng)
        self._turn = (self._turn + 1) % self._size
        target = self._members[self._turn][1]
        base, plus, minus = (point for _, point, _ in self._rng.sample(self._members, 3))
        certain = self._rng.randrange(len(target)) if target else 0
        moved = [
            b + self.WEIGHT * (p - m)
            if at == certain or self._rng.random() < self.CROSSOVER
            else old
            for at, (old, b, p, m) in enumerate(zip(target, base, plus, minus, strict=True))
        ]
        # Reflected at the faces of the cube, where clipping would gather everything.
        inside = [abs(each) if each < 1 else 2 - each for each in moved]
        index = self._space.index(self._space.from_coordinates(inside))
        self._pending[index] = self._turn
        return index

    def tell(self, index: int, cost: float) -> None:
        """Replace the challenged member if the challenger is better."""
        slot = self._pending.pop(index, None)
        if cost == math.inf or any(index == other for _, _, other in self._members):
            return
        if len(self._members) == self._size:
            # What others found challenges the worst.
            slot = (
                max(range(self._size), key=lambda at: self._members[at][0])
                if slot is None
                else slot
            )
            if cost >= self._members[slot][0]:
                return
            del self._members[slot]
        point = self._space.to_coordinates(self._space.configuration(index))
        self._members.insert(len(self._members) if slot is None else slot, (cost, point, index))


@dataclass(frozen=True, slots=True)
class _Use:
    technique: str
    improved: bool


class Bandit:
    """Chooses among techniques by the area under the curve of their recent improvements.

    The credit is OpenTuner's: within a sliding window of uses, the uses of a technique that found
    a new best count more the later they were, plus a bonus for techniques that were seldom used.
    """

    WINDOW, EXPLORATION = 100, 0.05

    def __init__(
        self, space: Space, rng: Random, members: Mapping[str, MakeTechnique] | None = None
    ) -> None:
        makers = MEMBERS if members is None else members
        self._rng = rng
        self._members = {name: make(space, rng) for name, make in makers.items()}
        self._uses: list[_Use] = []
        self._asked: dict[int, str] = {}  # proposed index -> the technique that proposed it
        self._best = math.inf
        self.name = "bandit"

    def ask(self) -> int | None:
        """A proposal of the technique with the most credit."""
        order = sorted(self._members, key=lambda name: (-self.credit(name), self._rng.random()))
        for name in order:
            index = self._members[name].ask()
            if index is not None:
                self.name = name
                self._asked[index] = name
                return index
            del self._members[name]
        return None

    def tell(self, index: int, cost: float) -> None:
        """Credit the technique that proposed the index, and pass the cost on to all."""
        proposer = self._asked.pop(index, None)
        if proposer is not None:
            self._uses.append(_Use(proposer, cost < self._best))
            del self._uses[: -self.WINDOW]
        self._best = min(self._best, cost)
        for member in self._members.values():
            member.tell(index, cost)

    def credit(self, name: str) -> float:
        """Area under the improvement curve, in [0, 1], plus the exploration bonus."""
        improved = [use.improved for use in self._uses if use.technique == name]
        count = len(improved)
        if not count:
            return math.inf
        area = sum(at for at, better in enumerate(improved, 1) if better)
        bonus = math.sqrt(2 * math.log2(len(self._uses)) / count)
        return 2 * area / (count * (count + 1)) + self.EXPLORATION * bonus


MEMBERS: dict[str, MakeTechnique] = {
    "random": RandomSearch,
    "hill_climbing": HillClimbing,
    "annealing": Annealing,
    "differential_evolution": DifferentialEvolution,
}
