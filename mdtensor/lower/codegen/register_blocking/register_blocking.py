"""Register blocking: accumulators stay in registers over all tiles of the reduced dims.

A group computes one block of the kept dims after the other, a work-item one register tile of it.
No work-item leaves the others before they have read what all copied: points beyond the end of a
dim are computed as if they were the last one, and not written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import Frame, Tile, tile_of
from mdtensor.lower.codegen.base.partition import tile_loops, whole_parts
from mdtensor.lower.codegen.base.staged_layouts import INNER
from mdtensor.lower.codegen.base.stream_pointers import stream_pointer
from mdtensor.lower.codegen.base.tuple_variables import lets
from mdtensor.lower.codegen.base.value_from_expr import identity_of
from mdtensor.lower.codegen.memory.cooperative_copy import CopyTogether, copy_of
from mdtensor.lower.codegen.register_blocking.combine_tile import CombineTile
from mdtensor.lower.codegen.register_blocking.reduced_tiles import reduced_tiles
from mdtensor.lower.codegen.register_blocking.software_pipeline import pipelined_tiles
from mdtensor.lower.codegen.register_blocking.write_register_blocks import sharing_of, write_results
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.statements import IndexCalc, LetIndex, Statement

Counts = Mapping[int, int]


def resident_tiles(frame: Frame, destinations: Sequence[Destination]) -> list[Statement]:
    """The loops over blocks of the kept dims, and all that is done for a block."""
    statements = whole_parts(frame.tilings)
    copies = [copy_of(frame, n, frame.items) for n in frame.layouts]
    for copy in copies:
        statements += copy.declared()
    return [*statements, *blocks(frame, _block(frame, copies, destinations))]


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
    """Declares a lane's number along each dim of its warp.

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
    """Two dims of an even number of lanes that no staged stream uses both; () for none.

    Which lanes hold what of matrices, their products say.
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
    """Declares a number's coordinates in a space of the extents, the last dim fastest."""
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


def resident_memory(frame: Frame) -> list[Statement]:
    """Local memory through which work-items that share a reduction combine their results."""
    counts = {d: frame.tilings[d].register for d in frame.problem.kept}
    return sharing_of(frame, tile_of(frame, counts)).memory()


def blocks(frame: Frame, block: Sequence[Statement]) -> list[Statement]:
    """The loops over a group's blocks of the kept dims around what is done for a block."""
    kept = [d for d in frame.schedule.group_order if d in frame.problem.kept]
    return tile_loops(frame.tilings, kept, block)


def _block(
    frame: Frame, copies: Sequence[CopyTogether], destinations: Sequence[Destination]
) -> list[Statement]:
    """One block: accumulators, the tiles of the reduced dims, the results."""
    tile, statements = beginning(frame)
    tiles = pipelined_tiles if frame.schedule.stages > 1 else reduced_tiles
    statements += tiles(frame, copies, CombineTile(frame, tile))
    return [*statements, *write_results(frame, tile, destinations)]


def beginning(frame: Frame) -> tuple[Tile, list[Statement]]:
    """The register tile of a block, and what declares its indices and accumulators."""
    problem, tilings = frame.problem, frame.tilings
    operator = frame.operator
    tile = tile_of(frame, {d: tilings[d].register for d in problem.kept})
    kept = (tilings[d] for d in problem.kept)
    statements: list[Statement] = [LetIndex(t.var("r"), t.first) for t in kept]
    statements += _clamped_indices(frame)
    statements += _bases(frame)
    for (refs,) in tile.accumulators:
        neutral = identity_of(operator)
        statements += lets(refs, neutral, mutable=True)
    return tile, statements


def _clamped_indices(frame: Frame) -> list[Statement]:
    """Indices of points along ragged dims, as they are used for addresses: the last at most."""
    statements: list[Statement] = []
    for d in frame.problem.kept:
        if not frame.is_clamped(d):
            continue
        tiling, together = frame.tilings[d], frame.clamped_together(d)
        for position in tiling.positions(tiling.register):
            if position % together == 0:
                index = name(tiling.var("r")) + position
                inside = IndexCalc("min", index, tiling.extent - together)
                held = f"{tiling.var('q')}_{position}"
                statements.append(LetIndex(held, inside))
    return statements


def _bases(frame: Frame) -> list[Statement]:
    """A pointer per stream to the work-item's first point, reduced indices at their start."""
    statements: list[Statement] = []
    for number, stream in enumerate(frame.problem.streams):
        layout = frame.layouts.get(number)
        offset = as_index(0)
        for d in frame.problem.kept:
            tiling = frame.tilings[d]
            if layout is None and stream.uses(d) and not frame.is_clamped(d):
                offset = offset + stream.strides[d] * name(tiling.var("r"))
            elif layout is not None and layout.has(d, INNER) and tiling.threads > 1:
                offset = offset + layout.stride(d, INNER) * name(tiling.var("x")) * tiling.near
        statements.append(stream_pointer(frame, number, f"b{number}", offset))
    return statements
