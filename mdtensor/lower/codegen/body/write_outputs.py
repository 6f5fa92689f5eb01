"""Epilogue of a register tile: combine lanes and work-items, add earlier tiles, store results."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import (
    Frame,
    LaneVector,
    Steps,
    Tile,
    powers_of_two,
    single_accumulators,
)
from mdtensor.lower.codegen.base.partition import tiles_after
from mdtensor.lower.codegen.base.tuple_variables import lets, sets_at_once
from mdtensor.lower.codegen.base.value_from_expr import combined
from mdtensor.lower.codegen.body.combine_lanes import combined_lanes
from mdtensor.lower.codegen.body.tile_body import Body
from mdtensor.lower.codegen.memory.transpose_rows import transposed_rows
from mdtensor.lower.ir.group_statements import Barrier
from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.ir.statements import (
    Allocate,
    If,
    IndexCalc,
    LetIndex,
    Set,
    Statement,
    VectorStore,
)
from mdtensor.lower.ir.values import Load, Ref, Slice, Value
from mdtensor.lower.schedule.rules.row_stores import is_multiple


def write_tile(
    frame: Frame, tile: Tile, destinations: Sequence[Destination], earlier: Index
) -> list[Statement]:
    """Finish and store a tile; `earlier` is positive where earlier tiles of reduced dims exist."""
    statements: list[Statement] = []
    values: list[list[tuple[Ref, ...]]] = [list(vectors) for vectors in tile.accumulators]
    pieces = tile.pieces
    if frame.lane_is_reduced:
        values = [[refs] for refs in _across_lanes(frame, tile, statements)]
        pieces = (LaneVector(0, 1, 1),)
    if _reduces_over_items(frame):
        return [*statements, *_across_items(frame, tile, values, destinations, earlier)]
    return [*statements, *_finish(frame, tile, values, pieces, destinations, earlier)]


def _finish(
    frame: Frame,
    tile: Tile,
    values: list[list[tuple[Ref, ...]]],
    pieces: Sequence[LaneVector],
    destinations: Sequence[Destination],
    earlier: Index,
) -> list[Statement]:
    statements: list[Statement] = []
    if earlier.terms:
        added: list[Statement] = []
        for u, point in enumerate(tile.points):
            for piece, refs in zip(pieces, values[u], strict=True):
                added += _add_earlier(frame, _steps(frame, point), piece, refs, destinations)
        statements.append(If(as_index(0), "<", earlier, tuple(added)))

    def writes(*, finished: bool) -> tuple[Statement, ...]:
        body = Body(frame, tile, {}, "b", None, prefix="e")
        found: list[Statement] = []
        for u, point in enumerate(tile.points):
            for p, piece in enumerate(pieces):
                refs = values[u][p]
                if finished:
                    refs = finish_values(body, point, (), piece, refs, f"{u}_{p}", found)
                found += stores(frame, _steps(frame, point), piece, refs, destinations)
        if frame.schedule.transposed:
            aligned = {each.pointer: _begins_aligned(frame, each) for each in destinations}
            found = transposed_rows(found, aligned)
        return tuple(found)

    if frame.problem.finish is None or not earlier.terms:
        return [*statements, *writes(finished=True)]
    later = tiles_after(frame.tilings, frame.problem.contracted)
    condition = If(as_index(0), "<", later, writes(finished=False), writes(finished=True))
    return [*statements, condition]


def _begins_aligned(frame: Frame, destination: Destination) -> bool:
    """Whether all register tiles start whole vectors after the destination's start."""
    steps = [stride * frame.tilings[d].register for d, stride in enumerate(destination.strides)]
    return all(is_multiple(steps[d], frame.schedule.width) for d in frame.unrolled_kept)


def finish_values(
    body: Body,
    point: tuple[int, ...],
    combined_steps: Steps,
    piece: LaneVector,
    refs: tuple[Ref, ...],
    suffix: str,
    statements: list[Statement],
) -> tuple[Ref, ...]:
    """Declare the epilogue's results for a tuple; return the tuple itself without epilogue."""
    finish = body.frame.problem.finish
    if finish is None:
        return refs
    values = body.values(finish.function, finish.reads, point, combined_steps, piece, refs)
    statements += body.statements
    body.statements.clear()
    lanes = refs[0].lanes
    done = tuple(Ref(f"f{suffix}_{k}", v.dtype, lanes) for k, v in enumerate(values))
    statements += lets(done, values)
    return done


def _steps(frame: Frame, point: tuple[int, ...]) -> Steps:
    return tuple(zip(frame.unrolled_kept, point, strict=True))


def stores(
    frame: Frame,
    steps: Steps,
    piece: LaneVector,
    refs: Sequence[Ref],
    destinations: Sequence[Destination],
) -> list[Statement]:
    """Store a tuple of values to its destinations."""
    statements: list[Statement] = []
    for destination, ref in zip(destinations, refs, strict=True):
        statements += _stores(frame, destination, steps, piece, ref)
    return statements


def _across_lanes(frame: Frame, tile: Tile, statements: list[Statement]) -> list[tuple[Ref, ...]]:
    """Reduce each point's vectors, then their lanes, then the remainder's scalars."""
    operator = frame.operator
    points: list[tuple[Ref, ...]] = []
    for vectors in tile.accumulators:
        refs = vectors[0]
        for left, last in zip(range(len(vectors) - 1, 0, -1), reversed(vectors), strict=False):
            results = combined(operator, refs, last)
            fresh = tuple(Ref(f"{r.name}_{left}", r.dtype, r.lanes) for r in vectors[0])
            statements += lets(fresh, results)
            refs = fresh
        points.append(refs)
    found = combined_lanes(operator, points, statements)
    for u, left_over in enumerate(single_accumulators(frame, tile)):
        results = combined(operator, found[u], left_over)
        fresh = tuple(Ref(f"h{u}_{k}", ref.dtype) for k, ref in enumerate(found[u]))
        statements += lets(fresh, results, mutable=True)
        found[u] = fresh
    return found


def _reduces_over_items(frame: Frame) -> bool:
    return any(frame.schedule.threads[d] > 1 for d in frame.problem.contracted)


def shared_memory(frame: Frame) -> list[Statement]:
    """Local memory in which the work-items of a group combine their results."""
    if not _reduces_over_items(frame):
        return []
    items = math.prod(frame.schedule.threads)
    dtypes = frame.problem.scalar.result_dtypes
    return [
        Allocate(f"L{k}", register_dtype(dtype), "local", items) for k, dtype in enumerate(dtypes)
    ]


def _across_items(
    frame: Frame,
    tile: Tile,
    values: list[list[tuple[Ref, ...]]],
    destinations: Sequence[Destination],
    earlier: Index,
) -> list[Statement]:
    """A tree reduction over work-items in local memory; work-item 0 writes.

    The number of the work-item has its first reduced dim slowest, and every step combines
    neighbours, so the order of elements is kept.
    """
    operator = frame.operator
    items = math.prod(frame.schedule.threads)
    item = name("item")
    statements: list[Statement] = []
    for u in range(len(tile.points)):
        for p, refs in enumerate(values[u]):
            statements.append(Barrier())
            statements += [VectorStore(f"L{k}", ref.dtype, item, ref) for k, ref in enumerate(refs)]
            distance = 1
            while distance < items:
                lhs = [Load(f"L{k}", ref.dtype, item) for k, ref in enumerate(refs)]
                rhs = [Load(f"L{k}", ref.dtype, item + distance) for k, ref in enumerate(refs)]
                held = [Ref(f"t{u}_{p}_{distance}_{k}", r.dtype) for k, r in enumerate(refs)]
                results = combined(operator, lhs, rhs)
                body: list[Statement] = lets(held, results)
                body += [VectorStore(f"L{k}", h.dtype, item, h) for k, h in enumerate(held)]
                in_reach: Statement = If(item + distance, "<", as_index(items), tuple(body))
                turn = name(f"turn{distance}")
                statements += [Barrier(), If(turn, "<", as_index(1), (in_reach,))]
                distance *= 2
            statements.append(Barrier())
            statements += [
                Set(ref, Load(f"L{k}", ref.dtype, as_index(0))) for k, ref in enumerate(refs)
            ]
    writes = _finish(frame, tile, values, tile.pieces, destinations, earlier)
    return [*statements, If(item, "<", as_index(1), tuple(writes))]


def item_turns(frame: Frame) -> list[Statement]:
    """Declare, per step of the tree, a number that is 0 in the work-items that combine."""
    if not _reduces_over_items(frame):
        return []
    statements: list[Statement] = []
    distance = 1
    while distance < math.prod(frame.schedule.threads):
        turn = IndexCalc("%", name("item"), as_index(2 * distance))
        statements.append(LetIndex(f"turn{distance}", turn))
        distance *= 2
    return statements


def _address(frame: Frame, destination: Destination, steps: Steps, offset: int) -> Index:
    address = total(destination.strides[d] * step for d, step in steps if step)
    if offset:
        address = address + destination.strides[frame.schedule.lane] * offset
    return address


def _lane_stride(frame: Frame, destination: Destination) -> Index:
    lane = frame.schedule.lane
    if lane < 0 or (frame.lane_is_reduced and lane != frame.problem.scanned):
        return as_index(1)
    return destination.strides[lane]


def _add_earlier(
    frame: Frame,
    steps: Steps,
    piece: LaneVector,
    refs: tuple[Ref, ...],
    destinations: Sequence[Destination],
) -> list[Statement]:
    operator = frame.operator
    before = [
        load_at(frame, destination, steps, piece, ref)
        for destination, ref in zip(destinations, refs, strict=True)
    ]
    results = combined(operator, before, refs)
    if len(refs) == 1:
        return [Set(refs[0], results[0])]
    held = [Ref(f"e_{ref.name}", ref.dtype, ref.lanes) for ref in refs]
    return [
        *sets_at_once(refs, results, held),
    ]


def load_at(
    frame: Frame, destination: Destination, steps: Steps, piece: LaneVector, ref: Ref
) -> Value:
    """A load of a destination's current value at a point."""
    return Load(
        destination.pointer,
        destination.memory,
        _address(frame, destination, steps, piece.offset),
        ref.lanes,
        _lane_stride(frame, destination),
        0 if piece.valid == ref.lanes else piece.valid,
    )


def _stores(
    frame: Frame, destination: Destination, steps: Steps, piece: LaneVector, ref: Ref
) -> list[Statement]:
    stride = _lane_stride(frame, destination)
    address = _address(frame, destination, steps, piece.offset)
    statements: list[Statement] = []
    for start, lanes in powers_of_two(piece.valid, ref.lanes):
        value = ref if lanes == ref.lanes else Slice(ref, start, lanes)
        streaming = destination.streaming and lanes == frame.schedule.width and lanes > 1
        statements.append(
            VectorStore(
                destination.pointer,
                destination.memory,
                address + stride * start,
                value,
                stride,
                streaming,
                aligned=streaming and frame.schedule.peel,
            )
        )
    return statements
