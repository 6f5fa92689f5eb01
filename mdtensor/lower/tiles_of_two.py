"""Register tiles of two dims, where lanes run along a reduction.

Lanes along a reduction read what lies side by side as it is, where lanes along a result would have
to gather or stage it: the filter of a convolution, the columns of a matrix. Points along one dim
share what is loaded of one input, those along the other what is loaded of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

from mdtensor.lower.problem import Problem
from mdtensor.lower.schedule import Schedule
from mdtensor.specs import Target

# Points along the first dim and along the second one.
_TILES = ((7, 4), (7, 3), (6, 4), (5, 5), (5, 4), (4, 4), (7, 2), (8, 3), (3, 3), (4, 2))


def tiles_of_two(problem: Problem, flat: Schedule, target: Target) -> Iterator[Schedule]:
    """Schedules with lanes as in `flat` and points along two dims, of one vector each."""
    if not problem.reduced[flat.lane] or problem.scanned >= 0:
        return
    for first, second in permutations(problem.kept, 2):
        if not _share(problem, flat.lane, first, second):
            continue
        order = tuple(d for d in flat.loop_order if d != second)
        for long, short in _TILES:
            if long > problem.extent(first) or short > problem.extent(second):
                continue
            if (long + 1) * short > target.vector_registers:
                continue
            registers = tuple(
                flat.width if d == flat.lane else {first: long, second: short}.get(d, 1)
                for d in problem.dims
            )
            for loop_order in dict.fromkeys((flat.loop_order, (*order, second))):
                yield replace(flat, registers=registers, loop_order=loop_order)


def _share(problem: Problem, lane: int, first: int, second: int) -> bool:
    """Whether points along each of two dims read the same elements of some input."""
    along = [stream for stream in problem.streams if stream.uses(lane)]
    return any(s.uses(first) and not s.uses(second) for s in along) and any(
        s.uses(second) and not s.uses(first) for s in along
    )
