"""Pointwise register tiles, without a reduction: shared elements are loaded once.

A group computes one block after the other, a work-item one register tile of it. A tile that lies
inside its dims is computed as a whole, in wide accesses where buffers and strides allow; of one
that is cut off, the points that lie inside are computed one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import Frame, LaneVector, Tile, tile_of
from mdtensor.lower.codegen.base.item_numbers import item_numbers
from mdtensor.lower.codegen.base.loop_structure import LoopStructure
from mdtensor.lower.codegen.base.partition import tile_loop, tile_loops, whole_parts
from mdtensor.lower.codegen.body.tile_body import Body
from mdtensor.lower.codegen.body.write_outputs import finish_values, stores
from mdtensor.lower.codegen.memory.cooperative_copy import CooperativeCopy, copy_of
from mdtensor.lower.codegen.memory.tile_accesses import (
    loose_dims,
    room_in,
    tile_pointers,
    wide_reads,
    wide_writes,
)
from mdtensor.lower.codegen.register_blocking.reduced_tiles import copied
from mdtensor.lower.gpu.streaming.plane_prefetch import PlanePrefetch
from mdtensor.lower.gpu.streaming.planes import planes_of
from mdtensor.lower.gpu.streaming.register_rotation import (
    first_pointers,
    handed_on,
    of_first_block,
    steps_along,
)
from mdtensor.lower.gpu.streaming.streamed_output import StreamedOutput, lengths_of_runs, runs_of
from mdtensor.lower.ir.index import as_index, name
from mdtensor.lower.ir.statements import If, LetIndex, Loop, Statement

_ONE = LaneVector(0, 1, 1)


def pointwise_tiles(frame: Frame, destinations: Sequence[Destination]) -> list[Statement]:
    """The loops over blocks, and the code of a block."""
    tilings, items = frame.tilings, frame.items
    copies = [copy_of(frame, number, items) for number in frame.layouts]
    statements = whole_parts(tilings)
    for copy in copies:
        statements += copy.declared()
    tiled = [d for d in frame.schedule.group_order if tilings[d].tile]
    if frame.schedule.march:
        d = tiled.pop()
        planes = planes_of(frame.problem, frame.schedule, tilings, aligned=frame.aligned)
        ahead = PlanePrefetch(planes, tilings, d, items, bool(tiled))
        lengths = lengths_of_runs(frame.problem, frame.schedule, tilings) if frame.aligned else ()
        out = StreamedOutput(
            tuple(destinations), lengths, tilings, d, items, runs_of(frame.schedule)
        )
        statements += [*ahead.declared(), *out.declared()]
        body = _marching(frame, destinations, d, ahead, out)
    else:
        body = _block(frame, copies, destinations)
    return [*statements, *tile_loops(tilings, tiled, body)]


POINTWISE = LoopStructure(item_numbers, pointwise_tiles)


def _block(
    frame: Frame, copies: Sequence[CooperativeCopy], destinations: Sequence[Destination]
) -> list[Statement]:
    problem, tilings = frame.problem, frame.tilings
    starts = {d: name(tilings[d].var("t")) for d in problem.dims}
    statements = copied(frame, copies, starts)
    statements += [LetIndex(tilings[d].var("r"), tilings[d].first) for d in problem.dims]
    loose = loose_dims(frame)
    tile = _whole_tile(frame, destinations, loose)
    whole = [*tile.pointers, *wide_reads(frame, destinations, tile.computed), *tile.written]
    checks, room = room_in(frame, [d for d in problem.dims if d not in loose])
    if room is None:
        return [*statements, *whole]
    single = _single_points(frame, destinations)
    return [*statements, *checks, If(as_index(0), "<=", room, tuple(whole), tuple(single))]


def _marching(
    frame: Frame,
    destinations: Sequence[Destination],
    d: int,
    ahead: PlanePrefetch,
    out: StreamedOutput,
) -> list[Statement]:
    """The loop over a group's blocks along a dim, with register rotation between blocks."""
    tilings = frame.tilings
    others = [e for e in frame.problem.dims if e != d]
    statements: list[Statement] = [LetIndex(tilings[e].var("r"), tilings[e].first) for e in others]
    loose = [e for e in loose_dims(frame) if e != d]
    if ahead.planes:  # what lies in local memory can be read everywhere
        loose = [e for e in others if tilings[e].is_ragged]
    whole = _marched(frame, out.placed(destinations), d, loose, ahead, out)
    checks, room = room_in(frame, [e for e in others if e not in loose])
    if room is None:
        return [*statements, *whole]
    first = LetIndex(tilings[d].var("r"), tilings[d].first)
    single = [tile_loop(tilings[d], [first, *_single_points(frame, destinations)])]
    return [*statements, *checks, If(as_index(0), "<=", room, tuple(whole), tuple(single))]


def _marched(
    frame: Frame,
    destinations: Sequence[Destination],
    d: int,
    loose: Sequence[int],
    ahead: PlanePrefetch,
    out: StreamedOutput,
) -> list[Statement]:
    """The loop over whole blocks along a dim, and the code for the dim's remainder."""
    tiling = frame.tilings[d]
    start, high = tiling.var("t"), name(tiling.var("hi"))
    first = LetIndex(tiling.var("r"), tiling.first)
    tile = _whole_tile(frame, destinations, loose)
    handed = handed_on(tile.computed, steps_along(frame, d))
    lanes = ahead.lanes()
    before = wide_reads(frame, destinations, handed.before, lanes)
    inside = wide_reads(frame, destinations, handed.inside, lanes)
    places, before = ahead.read_from(before, first=True)
    pointers, inside = ahead.read_from(inside)
    used = [p for p in (*first_pointers(frame, d), *tile.pointers) if not ahead.holds(p)]
    block = (
        first,
        *out.pointed([p for p in used if p in tile.pointers]),
        *ahead.awaited(out.shown(), out.left()),
        *pointers,
        *inside,
        *tile.written,
        *handed.after,
        *ahead.passed(),
        *out.passed(),
    )
    statements = [
        *ahead.begun(),
        *out.begun(),
        LetIndex(start, name(tiling.var("lo")), mutable=True),
        *(p for p in used if p not in tile.pointers),
        *places,
        *of_first_block(before),
        Loop(start, None, high, as_index(tiling.tile), block),
        *out.ended(),
    ]
    if not tiling.remainder:
        return statements
    rest = _whole_tile(frame, destinations, loose, {d: tiling.remainder})
    left = (
        first,
        *rest.pointers,
        *wide_reads(frame, destinations, rest.computed),
        *rest.written,
    )
    return [*statements, If(name(start), "<", high, left)]


@dataclass(frozen=True, slots=True)
class _WholeTile:
    """The code of all points of a work-item: pointers, computation with scalar loads, stores."""

    pointers: list[Statement]
    computed: list[Statement]
    written: list[Statement]


def _whole_tile(
    frame: Frame,
    destinations: Sequence[Destination],
    loose: Sequence[int],
    left: Mapping[int, int] = MappingProxyType({}),
) -> _WholeTile:
    """All points of a work-item, with wide stores; points of loose dims are guarded.

    `left` has the points along dims of which there are fewer than elsewhere.
    """
    counts = {d: left.get(d, frame.tilings[d].register) for d in frame.problem.dims}
    tile = tile_of(frame, counts)
    pointers, placed = tile_pointers(frame, destinations)
    computed, written = _points(frame, tile, placed)
    together = [store for each in written for store in each]
    together = wide_writes(frame, destinations, placed, together)
    checks, room = room_in(frame, loose, "loose")
    if room is None:
        return _WholeTile(pointers, computed, together)
    single: list[Statement] = []
    for point, each in zip(tile.points, written, strict=True):
        single += _where_inside(frame, point, loose, each)
    chosen = If(as_index(0), "<=", room, tuple(together), tuple(single))
    return _WholeTile(pointers, computed, [*checks, chosen])


def _where_inside(
    frame: Frame, point: Sequence[int], dims: Sequence[int], statements: Sequence[Statement]
) -> list[Statement]:
    """The statements, guarded by a point's lying inside some dims."""
    found = tuple(statements)
    for d, position in zip(frame.unrolled_kept, point, strict=True):
        if d in dims:
            tiling = frame.tilings[d]
            index = name(tiling.var("r")) + position
            found = (If(index, "<", name(tiling.var("e")), found),)
            if tiling.lead:
                found = (If(as_index(-1), "<", index, found),)
    return [*found]


def _single_points(frame: Frame, destinations: Sequence[Destination]) -> list[Statement]:
    """The points of a work-item that lie inside all dims, one by one."""
    tilings = frame.tilings
    pointers, placed = tile_pointers(frame, destinations)
    tile = tile_of(frame, dict.fromkeys(frame.problem.dims, 1))
    computed, (written,) = _points(frame, tile, placed)
    statements = [*pointers, *computed, *written]
    for d in reversed(frame.schedule.loop_order):
        tiling = tilings[d]
        index, first, near = tiling.var("r"), name(tiling.var("f")), tiling.near
        inside: Statement = If(name(index), "<", name(tiling.var("e")), tuple(statements))
        if tiling.lead:
            inside = If(as_index(-1), "<", name(index), (inside,))
        chunk = tiling.var("c") if tiling.register > near else ""
        start = name(chunk) if chunk else first
        statements = [Loop(index, start, start + near, as_index(1), (inside,))]
        if chunk:
            apart = near * tiling.threads
            end = first + tiling.register // near * apart
            statements = [Loop(chunk, first, end, as_index(apart), tuple(statements))]
    firsts = [LetIndex(t.var("f"), name(t.var("r"))) for t in tilings]
    return [*firsts, *statements]


def _points(
    frame: Frame, tile: Tile, placed: Sequence[Destination]
) -> tuple[list[Statement], list[list[Statement]]]:
    """The computation of a tile's points, and the statements that store each one."""
    computed = list(Body(frame, tile, {}, "b", None).without_reduction())
    finish = Body(frame, tile, {}, "b", None, prefix="e")
    written: list[list[Statement]] = []
    for u, point in enumerate(tile.points):
        (held,) = tile.accumulators[u]
        refs = finish_values(finish, point, (), _ONE, held, f"{u}", computed)
        steps = tuple(zip(frame.unrolled_kept, point, strict=True))
        written.append(stores(frame, steps, _ONE, refs, placed))
    return computed, written
