"""Register tiles that stay: accumulators live while tiles of the reduced dims go by.

A group computes one block of the kept dims after the other, a work-item one register tile of it.
No work-item leaves the others before they have read what all copied: points beyond the end of a
dim are computed as if they were the last one, and not written.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mdtensor.lower.index import Index, as_index, name, total
from mdtensor.lower.nest import (
    Allocate,
    Barrier,
    If,
    IndexCalc,
    Let,
    LetIndex,
    Load,
    Loop,
    Pointer,
    Ref,
    Set,
    Statement,
    Step,
    Store,
    register_dtype,
)
from mdtensor.lower.passes.copy_together import CopyTogether, copy_of
from mdtensor.lower.passes.micro_kernel import (
    Body,
    Frame,
    Piece,
    Tile,
    stream_pointer,
    stream_pointers,
    tile_of,
)
from mdtensor.lower.passes.stage_inputs import INNER
from mdtensor.lower.passes.wide_accesses import lanes_of, wide_loads, wide_stores
from mdtensor.lower.passes.write_outputs import Destination, finish_values, stores
from mdtensor.lower.tiling import DimTiling
from mdtensor.lower.values import combined, identity_of

Counts = Mapping[int, int]


def resident_tiles(frame: Frame, destinations: Sequence[Destination]) -> list[Statement]:
    """The loops over blocks of the kept dims, and all that is done for a block."""
    statements: list[Statement] = []
    for d in frame.problem.dims:
        if not frame.tilings[d].tile:
            statements += _whole_part(frame.tilings[d])
    copies = [copy_of(frame, n, _items(frame)) for n in frame.layouts]
    for copy in copies:
        statements += copy.declared()
    tiled = [d for d in frame.schedule.group_order if d in frame.problem.kept]
    tiled = [d for d in tiled if frame.tilings[d].tile]
    return [*statements, *_blocks(frame, tiled, copies, destinations)]


def item_numbers(frame: Frame) -> list[Statement]:
    """Declares `x_d`, the work-item's number along each dim: warps of lanes, or row by row.

    Work-items that share a reduction are neighbours where the group order ends with a reduced dim;
    else those are that compute neighbouring points.
    """
    schedule, tilings = frame.schedule, frame.tilings
    dims = (*schedule.reduce_order, *schedule.loop_order)
    if _shares_with_neighbours(frame):
        dims = (*schedule.loop_order, *schedule.reduce_order)
    if _items(frame) == 1:
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
        *_numbers(name("lane"), dims, lanes, lambda d: tilings[d].var("l")),
    ]
    for d in dims:
        if tilings[d].threads > 1:
            first = name(tilings[d].var("v")) * lanes[d] if warps[d] > 1 else as_index(0)
            inside = name(tilings[d].var("l")) if lanes[d] > 1 else as_index(0)
            statements.append(LetIndex(tilings[d].var("x"), first + inside))
    return statements


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
    if _sharing(frame) == 1:
        return []
    points = math.prod(frame.schedule.registers[d] for d in frame.problem.kept)
    types = frame.problem.scalar.result_dtypes
    size = _items(frame) * points
    return [Allocate(f"L{k}", register_dtype(t), "local", size) for k, t in enumerate(types)]


def _items(frame: Frame) -> int:
    return math.prod(frame.schedule.threads)


def _shares_with_neighbours(frame: Frame) -> bool:
    return frame.problem.reduced[frame.schedule.group_order[-1]]


def _sharing(frame: Frame) -> int:
    """Work-items that share the reduction of the same points."""
    return math.prod(frame.schedule.threads[d] for d in frame.problem.contracted)


def _whole_part(tiling: DimTiling) -> list[Statement]:
    start = LetIndex(tiling.var("t"), name(tiling.var("lo")))
    return [start, LetIndex(tiling.var("e"), name(tiling.var("hi")))]


def _blocks(
    frame: Frame,
    tiled: Sequence[int],
    copies: Sequence[CopyTogether],
    destinations: Sequence[Destination],
) -> list[Statement]:
    if not tiled:
        return _block(frame, copies, destinations)
    tiling = frame.tilings[tiled[0]]
    start, low, high = tiling.var("t"), name(tiling.var("lo")), name(tiling.var("hi"))
    end = LetIndex(tiling.var("e"), IndexCalc("min", name(start) + tiling.tile, high))
    body = (end, *_blocks(frame, tiled[1:], copies, destinations))
    return [Loop(start, low, high + (tiling.tile - 1), as_index(tiling.tile), body)]


def _block(
    frame: Frame, copies: Sequence[CopyTogether], destinations: Sequence[Destination]
) -> list[Statement]:
    """One block: accumulators, the tiles of the reduced dims, the results."""
    problem, tilings = frame.problem, frame.tilings
    operator = problem.operator
    assert operator is not None
    tile = tile_of(frame, {d: tilings[d].register for d in problem.kept})
    kept = (tilings[d] for d in problem.kept)
    statements: list[Statement] = [LetIndex(t.var("r"), _first(t)) for t in kept]
    statements += _clamped_indices(frame)
    statements += _bases(frame)
    for (refs,) in tile.accumulators:
        neutral = identity_of(operator)
        statements += [Let(ref, n, mutable=True) for ref, n in zip(refs, neutral, strict=True)]
    statements += _reduced_tiles(frame, copies, _Compute(frame, tile))
    return [*statements, *_results(frame, tile, destinations)]


def _first(tiling: DimTiling) -> Index:
    """The index of a work-item's first point in the tile."""
    start = name(tiling.var("t"))
    return start if tiling.threads == 1 else start + name(tiling.var("x")) * tiling.near


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


# ---- tiles of the reduced dims ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Compute:
    """The combination of one tile into the accumulators."""

    frame: Frame
    tile: Tile

    def statements(self, whole: int) -> list[Statement]:
        """The loops over a tile; that of the dim `whole` is not cut off (-1 for none)."""
        return self._loops(0, {}, whole)

    def _loops(self, level: int, counts: Counts, whole: int) -> list[Statement]:
        order = self.frame.schedule.reduce_order
        if level == len(order):
            return [*stream_pointers(self.frame), *self._body(counts)]
        d = order[level]
        tiling = self.frame.tilings[d]
        var, start, end = tiling.var("r"), _first(tiling), name(tiling.var("e"))

        def inner(count: int) -> tuple[Statement, ...]:
            return tuple(self._loops(level + 1, {**counts, d: count}, whole))

        if d == whole and tiling.tile == tiling.block:
            return [LetIndex(var, start), *inner(tiling.register)]
        item = start - name(tiling.var("t"))
        block = as_index(tiling.block)
        loops: list[Statement] = [
            LetIndex(var, start, mutable=True),
            Loop(var, None, end + item, block, inner(tiling.register)),
        ]
        if d == whole or _is_even(tiling) or tiling.block == 1:
            return loops
        if tiling.threads > 1 and tiling.near > 1:
            loops.append(Step(var, name(tiling.var("x")) * (1 - tiling.near)))
        stop = end + (tiling.threads - 1)
        loops.append(Loop(var, None, stop, as_index(tiling.threads), inner(1)))
        return loops

    def _body(self, counts: Counts) -> list[Statement]:
        frame = self.frame
        plain = Body(frame, self.tile, counts, "p", lanes=None).with_reduction()
        streams = range(frame.problem.finish_streams)
        return wide_loads(plain, {f"p{n}": _lanes_of_stream(frame, n) for n in streams})


def _lanes_of_stream(frame: Frame, number: int) -> int:
    """Elements of a stream that one access can read."""
    if number in frame.layouts:
        return _lanes_in_tile(frame, number)
    return _lanes_in_place(frame, number) if frame.aligned else 1


def _lanes_in_tile(frame: Frame, number: int) -> int:
    """Elements of a staged tile that can be read at once, where a work-item's points begin."""
    layout = frame.layouts[number]
    lanes = lanes_of(layout.memory)
    nearest = [axis for axis in layout.axes if axis.stride.constant == 1]
    if not nearest or nearest[0].part != INNER or frame.tilings[nearest[0].dim].near % lanes:
        return 1
    others = [axis.stride.constant for axis in layout.axes if axis is not nearest[0]]
    return lanes if all(s is not None and s % lanes == 0 for s in others) else 1


def _lanes_in_place(frame: Frame, number: int) -> int:
    """The same for a stream that is read where it is."""
    stream = frame.problem.streams[number]
    lanes = lanes_of(frame.problem.inputs[stream.buffer])
    nearest = [d for d in frame.problem.dims if stream.strides[d].constant == 1]
    if len(nearest) != 1 or frame.tilings[nearest[0]].near % lanes:
        return 1
    if frame.is_clamped(nearest[0]) and frame.clamped_together(nearest[0]) % lanes:
        return 1
    others = [stream.strides[d].constant for d in frame.problem.dims if d != nearest[0]]
    offsets = [as_index(r.offset).constant for r in frame.problem.reads if r.stream == number]
    even = all(n is not None and n % lanes == 0 for n in (*others, *offsets))
    return lanes if even and not any(r.computed for r in frame.problem.reads) else 1


def _is_even(tiling: DimTiling, length: int = 0) -> bool:
    """Whether parts, and tiles of them, are whole multiples of a length (0: of blocks)."""
    extent, part = tiling.extent.constant, tiling.part.constant
    if extent is None or part is None:
        return False
    length = length or tiling.block
    if tiling.parts.constant == 1:
        return extent % length == 0
    return extent % part == 0 and part % length == 0


def _reduced_tiles(
    frame: Frame, copies: Sequence[CopyTogether], compute: _Compute
) -> list[Statement]:
    """The loops over tiles of the reduced dims; the innermost one keeps what is no whole tile."""
    tiled = [d for d in frame.schedule.group_order if d in frame.problem.contracted]
    tiled = [d for d in tiled if frame.tilings[d].tile]
    starts = {d: name(frame.tilings[d].var("t")) for d in frame.problem.dims}
    if not tiled:
        return [*_copied(frame, copies, starts), *compute.statements(-1)]
    statements = _innermost(frame, copies, compute, tiled[-1], starts)
    for d in reversed(tiled[:-1]):
        tiling = frame.tilings[d]
        start, low, high = tiling.var("t"), name(tiling.var("lo")), name(tiling.var("hi"))
        end = LetIndex(tiling.var("e"), IndexCalc("min", name(start) + tiling.tile, high))
        stop = high + (tiling.tile - 1)
        body = (end, *statements)
        statements = list[Statement]([Loop(start, low, stop, as_index(tiling.tile), body)])
    return statements


def _innermost(
    frame: Frame,
    copies: Sequence[CopyTogether],
    compute: _Compute,
    d: int,
    starts: Mapping[int, Index],
) -> list[Statement]:
    tiling = frame.tilings[d]
    start, low, high = tiling.var("t"), name(tiling.var("lo")), name(tiling.var("hi"))
    tile = as_index(tiling.tile)
    even = _is_even(tiling, tiling.tile)
    ahead = frame.schedule.prefetch and bool(copies)
    statements: list[Statement] = [LetIndex(start, low, mutable=True)]
    if ahead:
        statements += _fetched(frame, copies, starts)
    body: list[Statement] = [LetIndex(tiling.var("e"), name(start) + tiling.tile)]
    body += _put(frame, copies) if ahead else _copied(frame, copies, starts)
    if ahead:
        following = name(start) + tiling.tile
        if even:
            body.append(LetIndex("following", IndexCalc("min", following, high - tiling.tile)))
            following = name("following")
        body += _fetched(frame, copies, {**starts, d: following})
    body += compute.statements(d)
    statements.append(Loop(start, None, high, tile, tuple(body)))
    if even:
        return statements
    rest: list[Statement] = [LetIndex(tiling.var("e"), high)]
    rest += _put(frame, copies) if ahead else _copied(frame, copies, starts)
    rest += compute.statements(-1)
    return [*statements, If(name(start), "<", high, tuple(rest))]


def _copied(
    frame: Frame, copies: Sequence[CopyTogether], starts: Mapping[int, Index]
) -> list[Statement]:
    return [*_fetched(frame, copies, starts), *_put(frame, copies)] if copies else []


def _fetched(
    frame: Frame, copies: Sequence[CopyTogether], starts: Mapping[int, Index]
) -> list[Statement]:
    clamped = {
        d
        for d in frame.problem.dims
        if not _is_even(frame.tilings[d], frame.tilings[d].tile or _part_of_tile(frame, d))
    }
    return [statement for copy in copies for statement in copy.fetch(starts, clamped)]


def _part_of_tile(frame: Frame, d: int) -> int:
    """Points of a dim without tiles that a copy covers."""
    tiling = frame.tilings[d]
    return tiling.part.constant or tiling.block if frame.problem.reduced[d] else tiling.block


def _put(frame: Frame, copies: Sequence[CopyTogether]) -> list[Statement]:
    stored = [statement for copy in copies for statement in copy.put()]
    return stored if _items(frame) == 1 else [Barrier(), *stored, Barrier()]


# ---- results ----------------------------------------------------------------------------------


def _results(frame: Frame, tile: Tile, destinations: Sequence[Destination]) -> list[Statement]:
    """Combines what work-items share, and writes the points that lie inside their dims."""
    statements: list[Statement] = []
    placed: list[Destination] = []
    for k, destination in enumerate(destinations):
        offset = destination.offset + total(
            destination.strides[d] * name(frame.tilings[d].var("r")) for d in frame.problem.kept
        )
        memory = destination.memory
        statements.append(
            Pointer(f"o{k}", destination.pointer, memory, "global", offset, const=False)
        )
        placed.append(replace(destination, pointer=f"o{k}"))
    writes = _guarded_writes(frame, tile, placed, destinations)
    sharing = _sharing(frame)
    if sharing == 1:
        return [*statements, *writes]
    statements += _combined_across_items(frame, tile)
    return [*statements, If(name("place"), "<", as_index(1), tuple(writes))]


def _guarded_writes(
    frame: Frame,
    tile: Tile,
    placed: Sequence[Destination],
    destinations: Sequence[Destination],
) -> list[Statement]:
    dims = frame.unrolled_kept
    plain = [s for u in range(len(tile.points)) for s in _written(frame, tile, u, placed)]
    lanes = {
        after.pointer: count
        for after, before in zip(placed, destinations, strict=True)
        if (count := _lanes_of_result(frame, before)) > 1
    }
    wide = wide_stores(plain, lanes, streaming=frame.schedule.streaming)
    ragged = [d for d in dims if frame.tilings[d].is_ragged]
    if not ragged:
        return wide
    guarded = _inside(frame, tile, placed, ragged, 0, ())
    checks: list[Statement] = []
    room = as_index(0)
    for n, d in enumerate(ragged):
        tiling = frame.tilings[d]
        left = name(tiling.var("e")) - name(tiling.var("t")) - tiling.block
        held = f"room{n}"
        checks.append(LetIndex(held, IndexCalc("min", left, room)))
        room = name(held)
    return [*checks, If(as_index(0), "<=", room, tuple(wide), tuple(guarded))]


def _inside(
    frame: Frame,
    tile: Tile,
    placed: Sequence[Destination],
    ragged: Sequence[int],
    level: int,
    chosen: tuple[int, ...],
) -> list[Statement]:
    """The writes of points whose first coordinates are chosen, each where it lies in its dims."""
    dims = frame.unrolled_kept
    if level == len(dims):
        return _written(frame, tile, tile.points.index(chosen), placed)
    d = dims[level]
    tiling = frame.tilings[d]
    statements: list[Statement] = []
    for position in tiling.positions(tiling.register):
        inner = _inside(frame, tile, placed, ragged, level + 1, (*chosen, position))
        if d in ragged:
            index = name(tiling.var("r")) + position
            statements.append(If(index, "<", name(tiling.var("e")), tuple(inner)))
        else:
            statements += inner
    return statements


def _written(frame: Frame, tile: Tile, u: int, placed: Sequence[Destination]) -> list[Statement]:
    """Finishes one point and writes it."""
    body = Body(frame, tile, {}, "b", None, prefix=f"e{u}_")
    piece, point = Piece(0, 1, 1), tile.points[u]
    statements: list[Statement] = []
    refs = finish_values(body, point, (), piece, tile.accumulators[u][0], f"{u}", statements)
    steps = tuple(zip(frame.unrolled_kept, point, strict=True))
    return [*statements, *stores(frame, steps, piece, refs, placed)]


def _lanes_of_result(frame: Frame, destination: Destination) -> int:
    """Neighbouring results that one access can write."""
    lanes = lanes_of(destination.memory)
    kept = frame.problem.kept
    nearest = [d for d in kept if destination.strides[d].constant == 1]
    if len(nearest) != 1 or frame.tilings[nearest[0]].near % lanes:
        return 1
    others = [destination.strides[d].constant for d in kept if d != nearest[0]]
    offset = [coefficient for _, coefficient in destination.offset.terms]
    even = all(n is not None and n % lanes == 0 for n in (*others, *offset))
    return lanes if even and frame.aligned and not destination.pointer.startswith("R") else 1


def _combined_across_items(frame: Frame, tile: Tile) -> list[Statement]:
    """A tree over the work-items that share points, in local memory, for all points at once.

    Every step combines neighbours, so the order of elements is kept. The first of them holds the
    result; `place` is a work-item's number among them.
    """
    operator = frame.problem.operator
    assert operator is not None
    sharing, items = _sharing(frame), _items(frame)
    place, item = name("place"), name("item")
    apart, whole = 1, IndexCalc("%", item, as_index(sharing))
    if not _shares_with_neighbours(frame):
        apart = items // sharing
        whole = IndexCalc("/", item, as_index(apart))
    statements: list[Statement] = [LetIndex("place", whole), Barrier()]
    pairs = [(u, refs) for u, (refs,) in enumerate(tile.accumulators)]
    for u, refs in pairs:
        index = item + u * items
        statements += [Store(f"L{k}", ref.dtype, index, ref) for k, ref in enumerate(refs)]
    for distance in itertools.takewhile(lambda n: n < sharing, (1 << n for n in range(32))):
        body: list[Statement] = []
        for u, refs in pairs:
            index = item + u * items
            others = [
                Load(f"L{k}", ref.dtype, index + distance * apart) for k, ref in enumerate(refs)
            ]
            held = [Ref(f"t{u}_{distance}_{k}", r.dtype) for k, r in enumerate(refs)]
            results = combined(operator, refs, others)
            body += [Let(h, v) for h, v in zip(held, results, strict=True)]
            body += [Set(ref, h) for ref, h in zip(refs, held, strict=True)]
            body += [Store(f"L{k}", h.dtype, index, h) for k, h in enumerate(held)]
        turn = f"turn{distance}"
        statements.append(LetIndex(turn, IndexCalc("%", place, as_index(2 * distance))))
        in_reach = If(place + distance, "<", as_index(sharing), tuple(body))
        statements += [Barrier(), If(name(turn), "<", as_index(1), (in_reach,))]
    return statements
