"""Epilogue of register blocking: combine shared points, and store the results."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.lower.codegen.base.destinations import Destination, at_first_point
from mdtensor.lower.codegen.base.frame import Frame, LaneVector, Tile
from mdtensor.lower.codegen.base.wide_accesses import lanes_of_results, wide_stores
from mdtensor.lower.codegen.body.tile_body import Body
from mdtensor.lower.codegen.body.write_outputs import finish_values, stores
from mdtensor.lower.codegen.memory.tile_accesses import room_of
from mdtensor.lower.codegen.register_blocking.warp_shuffle_reduction import PLACE, Sharing
from mdtensor.lower.ir.group_statements import AwaitCluster
from mdtensor.lower.ir.index import as_index, name
from mdtensor.lower.ir.statements import CopyRegister, If, Statement, VectorStore

_WORTH_MOVING = 16  # points of a work-item


def write_results(frame: Frame, tile: Tile, destinations: Sequence[Destination]) -> list[Statement]:
    """Combine shared points, and write those that lie inside their dims."""
    statements: list[Statement] = [AwaitCluster()] if frame.is_of_cluster else []
    pointers, placed = at_first_point(frame, destinations, "o", frame.problem.kept)
    statements += pointers
    writes = _guarded_writes(frame, tile, placed, destinations)
    sharing = frame.sharing
    if sharing == 1:
        return [*statements, *writes]
    statements += sharing_of(frame, tile).statements()
    return [*statements, If(name(PLACE), "<", as_index(1), tuple(writes))]


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
    wide = wide_stores(plain, lanes, streaming=all(each.streaming for each in destinations))
    if any(isinstance(s, VectorStore) and s.value.lanes > 1 for s in wide):
        wide = [*_renewed(frame, tile), *wide]
    ragged = [d for d in dims if frame.tilings[d].is_ragged]
    if not ragged:
        return wide
    guarded = _inside(frame, tile, placed, ragged, 0, ())
    tilings = [frame.tilings[d] for d in ragged]
    left = [name(each.var("e")) - name(each.var("t")) - each.block for each in tilings]
    checks, room = room_of(left, "room")
    return [*checks, If(as_index(0), "<=", room, tuple(wide), tuple(guarded))]


def _renewed(frame: Frame, tile: Tile) -> list[Statement]:
    """Moves of accumulators to fresh registers before wide stores.

    Four that are stored together lie side by side, as four factors do that were loaded together.
    Had they lain so all the time, factor and accumulator would be in one bank of registers, and
    each product would take two cycles.
    """
    if frame.problem.finish is not None or len(tile.points) < _WORTH_MOVING:
        return []
    return [CopyRegister(ref) for vectors in tile.accumulators for refs in vectors for ref in refs]


def _inside(
    frame: Frame,
    tile: Tile,
    placed: Sequence[Destination],
    ragged: Sequence[int],
    level: int,
    chosen: tuple[int, ...],
) -> list[Statement]:
    """The writes of the points with given leading coordinates, each guarded by its ragged dims."""
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
    """Finish one point and write it."""
    body = Body(frame, tile, {}, "b", None, prefix=f"e{u}_")
    piece, point = LaneVector(0, 1, 1), tile.points[u]
    statements: list[Statement] = []
    refs = finish_values(body, point, (), piece, tile.accumulators[u][0], f"{u}", statements)
    steps = tuple(zip(frame.unrolled_kept, point, strict=True))
    return [*statements, *stores(frame, steps, piece, refs, placed)]


def _lanes_of_result(frame: Frame, destination: Destination) -> int:
    """Adjacent results that one access can write."""
    kept = frame.problem.kept
    nearest = [d for d in kept if destination.strides[d].constant == 1]
    if len(nearest) != 1:
        return 1
    lanes = lanes_of_results(destination.memory, frame.tilings[nearest[0]].near)
    others = [destination.strides[d].constant for d in kept if d != nearest[0]]
    offset = [coefficient for _, coefficient in destination.offset.terms]
    even = all(n is not None and n % lanes == 0 for n in (*others, *offset))
    return lanes if even and frame.aligned and not destination.pointer.startswith("R") else 1


def sharing_of(frame: Frame, tile: Tile) -> Sharing:
    """The sharing of a tile's points among the work-items of a group."""
    accumulators = tuple(refs for (refs,) in tile.accumulators)
    return Sharing(
        frame.operator,
        frame.sharing,
        frame.items,
        frame.shares_with_neighbours,
        accumulators,
    )
