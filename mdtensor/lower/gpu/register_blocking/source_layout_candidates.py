"""Candidates whose rows are staged in their source's layout, and read by several steps at once.

Where a reduced dim lies nearest in what the rows read, a tile in local memory needs no turning: it
is copied in runs, and an access of 16 bytes reads four steps of a row. Dims of a window share the
elements of such a tile with the points of an image.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mdtensor.lower.codegen.base.source_layout import steps_along
from mdtensor.lower.gpu.base.block_shapes import BlockShapes, square_warp
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.schedule import Schedule

_Share = tuple[int, int]  # points of a work-item along a dim, and work-items

_WIDE = 4  # steps, or columns, of one access
# Points of a work-item along rows and columns, and work-items of a group along both.
_ITEMS = ((16, 4), (16, 8), (32, 4), (8, 8))
_BLOCKS = (
    *itertools.product(((8, 8), (7, 8), (14, 8)), _ITEMS),
    *itertools.product(((8, 16),), ((8, 16), *_ITEMS)),
)
_STAGES = (0, 2, 3)  # groups beside each other hide what one of a single stage waits for
_MOST = 2048  # computations in an unrolled register tile
_DEPTH = 32  # elements of a reduction in a tile, where no window says how many


def by_steps_of_source(blocks: BlockShapes) -> Iterator[Schedule]:
    """Candidates that stage one stream's rows in source layout; none without such a stream."""
    rows = _stream_of_rows(blocks)
    if rows < 0:
        return
    tiles = (_tiles(blocks, rows, whole=True), _tiles(blocks, rows, whole=False))
    possible = dict.fromkeys((*tiles, (0,) * len(blocks.extents)))
    for (points, items), tile in itertools.product(_BLOCKS, possible):
        schedule = _schedule(blocks, rows, points, items, tile)
        if schedule is not None:
            for stages in _STAGES if any(tile) else _STAGES[:1]:
                yield replace(schedule, stages=stages)
                if stages <= 2:
                    yield from _unrolled(blocks, replace(schedule, stages=stages))


def _unrolled(blocks: BlockShapes, schedule: Schedule) -> Iterator[Schedule]:
    """The schedule with more steps of the second innermost reduced dim unrolled."""
    if len(blocks.reduced) < 2:
        return
    d = blocks.reduced[-2]
    steps = _divisor(schedule.tiles[d] or blocks.extents[d], _MOST // math.prod(schedule.registers))
    if steps > 1:
        several = dict(enumerate(schedule.registers)) | {d: steps}
        yield replace(schedule, registers=tuple(several.values()))


def _stream_of_rows(blocks: BlockShapes) -> int:
    """The stream of rows alone, contiguous along the innermost reduced dim; or -1.

    All others are staged as they are read.
    """
    problem, nearest, sides = blocks.problem, blocks.reduced[-1], blocks.sides
    streams = problem.streams
    if problem.is_general or problem.keeps_order or problem.finish is not None:
        return -1
    if not (sides.rows and sides.columns and all(map(problem.is_plain, range(len(streams))))):
        return -1
    for number, stream in enumerate(streams):
        alone = not any(stream.uses(d) for d in sides.columns)
        if alone and stream.strides[nearest].constant == 1 and not stream.axes:
            return number if problem.extent(nearest) % _WIDE == 0 else -1
    return -1


def _tiles(blocks: BlockShapes, rows: int, *, whole: bool) -> tuple[int, ...]:
    """Extents of tiles by dim (0: all); if `whole`, the nearest dim that shares a run with rows is.

    Else as many elements as a tile has, the nearest dims first.
    """
    stream, tiles, left = blocks.problem.streams[rows], [0] * len(blocks.extents), _DEPTH
    for d in reversed(blocks.reduced):
        extent = blocks.extents[d]
        steps = (steps_along(stream, d, e) for e in blocks.sides.rows if stream.uses(e))
        if whole and stream.uses(d) and any(0 < n < extent for n in steps):
            left, whole = 1, False
        elif extent > left:
            tiles[d], left = _divisor(extent, left), 1
        else:
            left //= extent
    return tuple(tiles)


def _schedule(
    blocks: BlockShapes,
    rows: int,
    points: tuple[int, int],
    items: tuple[int, int],
    tiles: tuple[int, ...],
) -> Schedule | None:
    """The single-stage schedule; None where the dims have too few points."""
    problem = blocks.problem
    stream, nearest = problem.streams[rows], blocks.reduced[-1]
    near = sorted(blocks.sides.rows, key=lambda d: stream.strides[d].constant or 0)
    shares = _rows(blocks, near, points[0], items[0]) | _columns(blocks, points[1], items[1])
    registers = [shares.get(d, (1, 1))[0] for d in problem.dims]
    threads = [shares.get(d, (1, 1))[1] for d in problem.dims]
    columns = blocks.sides.columns
    if math.prod(registers) < math.prod(points) or math.prod(threads) % WARP:
        return None
    if registers[columns[0]] % _WIDE or tiles[nearest] % _WIDE:
        return None
    registers[nearest] = _WIDE
    apart = [rows != n or tiles[nearest] > 0 for n in range(len(problem.streams))]
    return Schedule(
        asm="gpu",
        parts=tuple(
            1 if problem.reduced[d] else -(-blocks.extents[d] // (registers[d] * threads[d]))
            for d in problem.dims
        ),
        tiles=tiles,
        threads=tuple(threads),
        registers=tuple(registers),
        lane=-1,
        width=1,
        group_order=(*blocks.kept, *blocks.reduced),
        loop_order=blocks.kept,
        reduce_order=blocks.reduced,
        staged=("local",) * len(problem.streams),
        resident=True,
        chunks=tuple(_WIDE if d in (columns[0], nearest) else 1 for d in problem.dims),
        warp=tuple(square_warp(threads, blocks.kept)),
        padding=tuple(_WIDE * one for one in apart),
        swath=8 if len(problem.kept) == 2 else 0,
        as_source=tuple(rows == n for n in range(len(problem.streams))),
    )


def _rows(blocks: BlockShapes, near: Sequence[int], points: int, items: int) -> dict[int, _Share]:
    """Points and work-items of the rows, the nearest dim first; short dims get work-items only."""
    found: dict[int, _Share] = {}
    for d in near:
        extent, own = blocks.extents[d], 1
        if extent > _WIDE and extent % points == 0:
            own, points = points, 1
        found[d] = own, _divisor(extent // own, items)
        items //= found[d][1]
    return found


def _columns(blocks: BlockShapes, points: int, items: int) -> dict[int, _Share]:
    """Points and work-items of the columns, the nearest first."""
    found: dict[int, _Share] = {}
    for d in blocks.sides.columns:
        own = math.gcd(points, blocks.extents[d])
        found[d] = own, _divisor(blocks.extents[d] // own, items)
        points, items = points // own, items // found[d][1]
    return found


def _divisor(extent: int, most: int) -> int:
    """The largest divisor of an extent up to a number."""
    return max(n for n in range(1, most + 1) if extent % n == 0)
