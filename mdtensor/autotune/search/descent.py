"""Descent on the cost model: starting points of a search that take no measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from random import Random

from mdtensor.autotune.space.space import Configuration, Expected, Space


def descended(
    space: Space,
    expected: Expected,
    starts: Iterable[Mapping[str, object]],
    rng: Random,
    *,
    evaluations: int,
    kind: Callable[[Configuration], Hashable],
) -> list[Configuration]:
    """The configurations of least predicted cost, one of each kind, the best first.

    From each start, steps are taken to neighbours of which less is expected, until there is none
    or the start's share of the evaluations is spent. Infinity stands for what cannot be.

    >>> from mdtensor.lower.schedule.parameter import SpaceParameter
    >>> tile, unroll = SpaceParameter("tile", range(1, 100)), SpaceParameter("unroll", (1, 2, 4, 8))
    >>> space = Space([tile, unroll])
    >>> def expected(c):
    ...     return abs(c["tile"] - 64) + abs(c["unroll"] - 4)
    >>> start = {"tile": 1, "unroll": 1}
    >>> kind = lambda c: c["unroll"]
    >>> descended(space, expected, [start], Random(0), evaluations=900, kind=kind)[0]
    {'tile': 64, 'unroll': 4}
    """
    known: dict[int, float] = {}

    def cost_of(configuration: Configuration) -> float:
        index = space.index(configuration)
        if index not in known:
            known[index] = expected(configuration)
        return known[index]

    beginnings = list(starts)
    for start in beginnings:
        here = space.nearest(start, rng)
        left = evaluations // len(beginnings)
        while here is not None and left > 0:
            cost, below = cost_of(here), None
            for neighbour in space.changes(here, rng):
                left -= 1
                if cost_of(neighbour) < cost:
                    below = neighbour
                if below is not None or left <= 0:
                    break
            here = below
    best: dict[Hashable, Configuration] = {}
    for index in sorted(known, key=lambda index: known[index]):
        if known[index] < math.inf:
            configuration = space.configuration(index)
            best.setdefault(kind(configuration), configuration)
    return list(best.values())
