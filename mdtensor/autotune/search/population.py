"""Search techniques that move points through the unit cube mapped onto a space (002, 5.5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from mdtensor.autotune.space.space import Space
from mdtensor.dataclass import dataclass

Point = tuple[float, ...]


def inside(point: Sequence[float]) -> Point:
    """Reflect a point at the faces of the unit cube; clipping would pile points up there.

    >>> inside([0.5, -0.25, 1.25])
    (0.5, 0.25, 0.75)
    """
    return tuple(1 - abs(1 - abs(each) % 2) for each in point)


class Points:
    """The points proposed for each index, until costs arrive by index, perhaps much later."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._proposed: dict[int, list[tuple[Point, int]]] = {}

    def propose(self, point: Sequence[float], owner: int) -> int:
        """The index of the configuration in whose block the point lies."""
        place = inside(point)
        index = self._space.index(self._space.from_coordinates(place))
        self._proposed.setdefault(index, []).append((place, owner))
        return index

    def told(self, index: int) -> list[tuple[Point, int]]:
        """Remove and return the points proposed for an index, with their owners."""
        return self._proposed.pop(index, [])

    def of(self, index: int) -> Point:
        """The centre of a configuration's block, for one that another technique proposed."""
        return self._space.to_coordinates(self._space.configuration(index))


@dataclass(slots=True)
class _Particle:
    place: Point
    velocity: Point
    best: Point
    cost: float = math.inf


class ParticleSwarm:
    """Particle swarm optimisation in the unit cube.

    Inertia and attraction are those of Clerc and Kennedy's constriction. What other techniques
    found draws the swarm as well. A particle that has come to rest begins anew at random.
    """

    name = "particle_swarm"
    INERTIA, ATTRACTION, REST = 0.7298, 1.4962, 1e-3

    def __init__(self, space: Space, rng: Random, *, particles: int = 12) -> None:
        self._rng = rng
        self._dims = len(space.names)
        self._points = Points(space)
        self._swarm = [self._born() for _ in range(particles)]
        self._best: tuple[float, Point] = (math.inf, ())
        self._turn = -1

    def _born(self) -> _Particle:
        place = tuple(self._rng.random() for _ in range(self._dims))
        velocity = tuple(self._rng.uniform(-0.25, 0.25) for _ in range(self._dims))
        return _Particle(place, velocity, place)

    def ask(self) -> int | None:
        """The next position of the next particle, round-robin."""
        self._turn = (self._turn + 1) % len(self._swarm)
        particle = self._swarm[self._turn]
        if particle.cost < math.inf or self._best[0] < math.inf:
            self._move(particle)
            if max(map(abs, particle.velocity), default=1.0) < self.REST:
                particle = self._swarm[self._turn] = self._born()
        return self._points.propose(particle.place, self._turn)

    def _move(self, particle: _Particle) -> None:
        leader = self._best[1] or particle.best
        velocity: list[float] = []
        for here, speed, own, shared in zip(
            particle.place, particle.velocity, particle.best, leader, strict=True
        ):
            drawn = self._rng.random() * (own - here) + self._rng.random() * (shared - here)
            velocity.append(self.INERTIA * speed + self.ATTRACTION * drawn)
        particle.velocity = tuple(max(-0.5, min(0.5, each)) for each in velocity)
        moved = [h + v for h, v in zip(particle.place, particle.velocity, strict=True)]
        particle.place = inside(moved)

    def tell(self, index: int, cost: float) -> None:
        """Update the best positions of the particle and of the swarm."""
        told = self._points.told(index)
        if cost == math.inf:
            return
        for place, owner in told:
            if cost < self._swarm[owner].cost:
                self._swarm[owner].best, self._swarm[owner].cost = place, cost
        if cost < self._best[0]:
            self._best = (cost, told[0][0] if told else self._points.of(index))


class Simplex:
    """Torczon's multidirectional simplex search.

    Each round reflects all points but the best through it. If one of the reflections is better
    than the best, all are tried twice as far out, and the better of the two simplices is taken;
    else all points move half the way to the best one. A simplex that has become small begins
    anew, around the best configuration that anybody found or at random.
    """

    name = "simplex"
    SMALL = 1e-3

    def __init__(self, space: Space, rng: Random) -> None:
        self._rng = rng
        self._dims = len(space.names)
        self._points = Points(space)
        self._best: tuple[float, Point] = (math.inf, ())
        self._begin()

    def _begin(self) -> None:
        """A regular simplex: a corner, and one step along each dim."""
        near = self._best[1] and self._rng.random() < 0.5
        corner = self._best[1] if near else tuple(self._rng.random() for _ in range(self._dims))
        step = self._rng.uniform(0.1, 0.4)
        self._kept: list[tuple[float, Point]] = []
        self._reflected: list[tuple[float, Point]] = []
        self._start("first", [corner, *(self._stepped(corner, d, step) for d in range(self._dims))])

    @staticmethod
    def _stepped(corner: Point, dim: int, step: float) -> Point:
        moved = corner[dim] + step
        place = moved if moved < 1 else corner[dim] - step
        return (*corner[:dim], place, *corner[dim + 1 :])

    def _start(self, phase: str, points: Sequence[Sequence[float]]) -> None:
        """Begin a phase that ends when all these points are measured."""
        self._phase = phase
        self._waiting = [inside(point) for point in points]
        self._round: list[tuple[float, Point]] = []
        self._expected = len(self._waiting)

    def ask(self) -> int | None:
        """The next point of the phase; one near the best while the last ones are pending."""
        if self._waiting:
            return self._points.propose(self._waiting.pop(), 0)
        near = self._best[1] or tuple(self._rng.random() for _ in range(self._dims))
        return self._points.propose([each + self._rng.gauss(0, 0.1) for each in near], 1)

    def tell(self, index: int, cost: float) -> None:
        """Record the cost; start the next phase once all points of this one are measured."""
        told = self._points.told(index)
        if cost < self._best[0]:
            self._best = (cost, told[0][0] if told else self._points.of(index))
        self._round += [(cost, place) for place, owner in told if not owner]
        if len(self._round) >= self._expected:
            self._next()

    def _next(self) -> None:
        found = sorted(self._round)
        if self._phase == "first" or self._phase == "contracted":
            self._kept = sorted(self._kept + found)
        elif self._phase == "reflected" and found[0][0] < self._kept[0][0]:
            self._reflected = found
            self._start("expanded", self._along(2.0))
            return
        elif self._phase == "reflected":
            self._start("contracted", self._along(-0.5))
            self._kept = self._kept[:1]
            return
        else:
            better = min(found, self._reflected)
            self._kept = sorted([self._kept[0], *better])
        if self._dims == 0 or self._size() < self.SMALL or self._kept[0][0] == math.inf:
            self._begin()
        else:
            self._start("reflected", self._along(1.0))

    def _along(self, factor: float) -> list[Point]:
        """All points but the best, scaled by `-factor` about the best one."""
        best = self._kept[0][1]
        return [
            tuple(b + factor * (b - each) for b, each in zip(best, place, strict=True))
            for _, place in self._kept[1:]
        ]

    def _size(self) -> float:
        best = self._kept[0][1]
        return max(
            (abs(b - each) for _, p in self._kept[1:] for b, each in zip(best, p, strict=True)),
            default=0.0,
        )
