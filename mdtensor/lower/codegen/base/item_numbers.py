"""Numbers of the work-items of a group along its dims."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.statements import IndexCalc, LetIndex, Statement


def item_numbers(frame: Frame) -> list[Statement]:
    """Declares `x_d`, the work-item's number along each dim: warps of lanes, or row by row.

    Work-items that share a reduction are neighbours where the group order ends with a reduced dim;
    else those are that compute neighbouring points.
    """
    schedule, tilings = frame.schedule, frame.tilings
    dims = (*schedule.reduce_order, *schedule.loop_order)
    if frame.shares_with_neighbours:
        dims = (*schedule.loop_order, *schedule.reduce_order)
    if frame.items == 1:
        return []
    if not schedule.warp:
        threads = {d: tilings[d].threads for d in dims}
        return _numbers(name("item"), dims, threads, lambda d: tilings[d].var("x"))
    lanes = {d: schedule.warp[d] for d in dims}
    warps = {d: tilings[d].threads // schedule.warp[d] for d in dims}
    count = as_index(math.prod(lanes.values()))
    statements: list[Statement] = [
        LetIndex("warp", IndexCalc("/", name("item"), count)),
        LetIndex("lane", IndexCalc("%", name("item"), count)),
        *_numbers(name("warp"), dims, warps, lambda d: tilings[d].var("v")),
        *_lane_numbers(frame, dims, lanes),
    ]
    for d in dims:
        if tilings[d].threads > 1:
            first = name(tilings[d].var("v")) * lanes[d] if warps[d] > 1 else as_index(0)
            inside = name(tilings[d].var("l")) if lanes[d] > 1 else as_index(0)
            statements.append(LetIndex(tilings[d].var("x"), first + inside))
        if tilings[d].row != tilings[d].threads:
            statements.append(LetIndex(tilings[d].var("w"), name(tilings[d].var("v"))))
    return statements


def _lane_numbers(frame: Frame, dims: Sequence[int], lanes: Mapping[int, int]) -> list[Statement]:
    """Declare a lane's coordinate along each dim of its warp.

    Neighbours, and lanes two apart, read the same elements of one or the other staged stream where
    two dims belong to different ones: local memory serves 16 bytes of such pairs at once.
    """
    tilings = frame.tilings
    pair = _interleaved(frame, dims, lanes)
    if not pair:
        return _numbers(name("lane"), dims, lanes, lambda d: tilings[d].var("l"))
    statements: list[Statement] = []
    rest = name("lane")
    for d in pair:
        statements.append(LetIndex(tilings[d].var("odd"), IndexCalc("%", rest, as_index(2))))
        statements.append(LetIndex(tilings[d].var("pair"), IndexCalc("/", rest, as_index(2))))
        rest = name(tilings[d].var("pair"))
    halves = {d: lanes[d] // 2 if d in pair else lanes[d] for d in dims}
    far = {d: tilings[d].var("half" if d in pair else "l") for d in dims}
    statements += _numbers(rest, dims, halves, far.__getitem__)
    for d in pair:
        behind = name(far[d]) * 2 if halves[d] > 1 else as_index(0)
        statements.append(LetIndex(tilings[d].var("l"), behind + name(tilings[d].var("odd"))))
    return statements


def _interleaved(frame: Frame, dims: Sequence[int], lanes: Mapping[int, int]) -> tuple[int, ...]:
    """Two dims with an even number of lanes and no staged stream in common; () for none.

    () also for matrices, whose instructions fix the lanes.
    """
    if frame.schedule.tensor:
        return ()
    even = [d for d in reversed(dims) if lanes[d] % 2 == 0]
    streams = [frame.problem.streams[n] for n in frame.layouts]
    for other in even[1:]:
        if streams and not any(s.uses(even[0]) and s.uses(other) for s in streams):
            return even[0], other
    return ()


def _numbers(
    number: Index, dims: Sequence[int], extents: Mapping[int, int], var: Callable[[int], str]
) -> list[Statement]:
    """Declare the coordinates of a linear number in a space of extents, the last dim fastest."""
    statements: list[Statement] = []
    walked = [d for d in dims if extents[d] > 1]
    for d in reversed(walked):
        extent = as_index(extents[d])
        if d == walked[0]:
            statements.append(LetIndex(var(d), number))
            continue
        statements.append(LetIndex(var(d), IndexCalc("%", number, extent)))
        rest = f"{var(d)}_rest"
        statements.append(LetIndex(rest, IndexCalc("/", number, extent)))
        number = name(rest)
    return statements
