"""The loops over combined dims, common to all register tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mdtensor.lower.codegen.base.frame import Frame, Tile, has_singles
from mdtensor.lower.codegen.base.stream_pointers import stream_pointers
from mdtensor.lower.codegen.body.blocked_sums import BlockedSums
from mdtensor.lower.codegen.body.data_ranges import Ranges, ranges_of
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.statements import If, IndexCalc, LetIndex, Loop, Statement

# Emits the body of the loops over combined dims, given unrolled counts and `Body.lanes`.
AtPoint = Callable[[Mapping[int, int], str | None], list[Statement]]


def combining_loops(
    frame: Frame, tile: Tile, at_point: AtPoint, sums: BlockedSums | None = None
) -> list[Statement]:
    """The loops over combined dims; inside are the streams' pointers, then `at_point`.

    Data-dependent ranges are common to all points of the tile. Accumulators are added to their
    totals behind each block of `sums`.
    """
    ranges = ranges_of(frame, tile)
    return [*ranges.statements, *_combining_loops(frame, ranges, at_point, sums, 0, {}, None)]


def _combining_loops(
    frame: Frame,
    ranges: Ranges,
    at_point: AtPoint,
    sums: BlockedSums | None,
    level: int,
    counts: Mapping[int, int],
    lanes: str | None,
) -> list[Statement]:
    order = frame.schedule.reduce_order
    if level == len(order):
        return [*stream_pointers(frame), *at_point(counts, lanes)]
    d = order[level]
    tiling = frame.tilings[d]
    var = tiling.var("r")
    start, end = ranges.of.get(d, (name(tiling.var("t")), name(tiling.var("e"))))
    remainder = None if d in ranges.of else tiling.remainder
    if tiling.threads > 1:
        start = start + name(tiling.var("x")) * tiling.register

    def inner(count: int, mode: str | None = lanes) -> tuple[Statement, ...]:
        inside = {**counts, d: count}
        return tuple(_combining_loops(frame, ranges, at_point, sums, level + 1, inside, mode))

    is_lane = d == frame.schedule.lane
    count, mode = tiling.register, "vectors" if is_lane else lanes
    block = as_index(tiling.block)
    loops: list[Statement] = [LetIndex(var, start, mutable=True)]
    # With threads, a whole register tile must fit, not a whole block of all threads.
    stop = end + (tiling.block - tiling.register)
    whole = Loop(var, None, stop, block, inner(count, mode))
    if sums is None or level < len(order) - 1:
        return [*loops, whole, *_remainders(frame, d, end, remainder, inner)]
    loops += _in_blocks(whole, tiling.var("c"), start, sums)
    loops += _remainders(frame, d, end, remainder, inner)
    return [*loops, *sums.flush_when_due(start - end)] if sums.nested else loops


def _in_blocks(whole: Loop, chunk: str, start: Index, sums: BlockedSums) -> list[Statement]:
    """The innermost loop in blocks of steps, after which accumulators are flushed."""
    until = f"{chunk}_until"
    step = as_index(sums.elements)
    more = If(name(until) + whole.step, "<=", whole.stop, tuple(sums.flush()))
    body = (
        LetIndex(until, IndexCalc("min", whole.stop, name(chunk) + step)),
        replace(whole, stop=name(until)),
        more,
    )
    return [Loop(chunk, start, whole.stop + step - whole.step, step, body)]


def _remainders(
    frame: Frame,
    d: int,
    end: Index,
    remainder: int | None,
    inner: Callable[..., tuple[Statement, ...]],
) -> list[Statement]:
    """The remainder loops of a combined dim, after its whole register tiles."""
    tiling, loops = frame.tilings[d], list[Statement]()
    var, is_lane = tiling.var("r"), d == frame.schedule.lane
    if remainder == 0:
        return loops
    if is_lane:
        width = frame.schedule.width
        one = as_index(1)
        if tiling.register > width and (remainder is None or remainder >= width):
            loops.append(Loop(var, None, end, as_index(width), inner(width, "vector")))
        if has_singles(frame):
            loops.append(Loop(var, None, end, one, inner(1, "single")))
    elif remainder is None or tiling.threads > 1:
        if tiling.register > 1:
            loops.append(Loop(var, None, end, as_index(1), inner(1)))
    else:
        # What an If would do once: after one, Intel's compiler was seen to count wrongly.
        loops.append(Loop(var, None, end, as_index(remainder), inner(remainder)))
    return loops
