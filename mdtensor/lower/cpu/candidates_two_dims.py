"""Register tiles of two dims, where lanes run along a reduction.

Lanes along a reduction read what lies side by side as it is, where lanes along a result would have
to gather or stage it: the filter of a convolution, the columns of a matrix. Points along one dim
share what is loaded of one input, those along the other what is loaded of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import short_reductions
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

# Points along the first dim and along the second one.
_TILES = ((7, 4), (7, 3), (6, 4), (5, 5), (5, 4), (4, 4), (7, 2), (8, 3), (3, 3), (4, 2))
# Points along both dims, and vectors of each point, for windows unrolled or in tiles.
_TILES_OF_WINDOWS = ((7, 4, 1), (7, 3, 1), (5, 5, 1), (5, 4, 1), (4, 4, 1), (7, 2, 2))
_LANE_TILE, _TILES_AT_A_TIME = 512, 4


def tiles_of_two(problem: Problem, flat: Schedule, target: Target) -> Iterator[Schedule]:
    """Candidates with the lanes of `flat`, and register tiles of points along two kept dims."""
    if not problem.reduced[flat.lane] or problem.scanned >= 0:
        return
    for first, second in permutations(problem.kept, 2):
        if not _share(problem, flat.lane, first, second):
            continue
        last = _with_last(flat, second)
        for long, short in _TILES:
            tile = _tile(problem, flat, target, {first: long, second: short}, 1)
            if tile:
                for order in dict.fromkeys((last.loop_order, flat.loop_order)):
                    yield replace(last, registers=tile, loop_order=order)
        for long, short, vectors in _TILES_OF_WINDOWS:
            tile = _tile(problem, flat, target, {first: long, second: short}, vectors)
            if tile:
                yield from _by_windows(problem, replace(last, registers=tile), second)


def _with_last(flat: Schedule, d: int) -> Schedule:
    """The schedule with the loop along dim `d` innermost."""
    return replace(flat, loop_order=(*(other for other in flat.loop_order if other != d), d))


def _tile(
    problem: Problem, flat: Schedule, target: Target, points: dict[int, int], vectors: int
) -> tuple[int, ...]:
    """A register tile of given points per dim and vectors of each; () where it does not fit."""
    long, short = points.values()
    if any(count > problem.extent(d) for d, count in points.items()):
        return ()
    if vectors * flat.width > problem.extent(flat.lane):
        return ()
    if (long + 1) * short * vectors > target.vector_registers:
        return ()
    lanes = {flat.lane: vectors * flat.width}
    return tuple((points | lanes).get(d, 1) for d in problem.dims)


def _by_windows(problem: Problem, flat: Schedule, second: int) -> Iterator[Schedule]:
    """Variants of `flat` with the steps of windows unrolled, or as tiles of one step each.

    And with long rows in parts, of which caches hold more: those of all points, or of some along
    the second dim at a time.
    """
    short = short_reductions(problem)
    if problem.keeps_order or flat.lane in short:
        return
    whole = flat
    if short:
        unrolled = [problem.extent(d) if d in short else n for d, n in enumerate(flat.registers)]
        whole = replace(flat, registers=tuple(unrolled))
        yield whole
    if not problem.accumulates_in_place:
        return
    if short:
        yield replace(flat, tiles=tuple(1 if d in short else 0 for d in problem.dims))
    if problem.extent(flat.lane) > _LANE_TILE:
        some = _TILES_AT_A_TIME * flat.registers[second]
        for at_a_time in {flat.lane: _LANE_TILE}, {flat.lane: _LANE_TILE, second: some}:
            yield replace(whole, tiles=tuple(at_a_time.get(d, 0) for d in problem.dims))


def _share(problem: Problem, lane: int, first: int, second: int) -> bool:
    """Whether points along each of two dims read the same elements of some input."""
    along = [stream for stream in problem.streams if stream.uses(lane)]
    return any(s.uses(first) and not s.uses(second) for s in along) and any(
        s.uses(second) and not s.uses(first) for s in along
    )
