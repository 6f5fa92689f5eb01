"""TMA stores: warps write results to panels in local memory, which are copied out as boxes.

A warp has 16 rows of a block, and a panel or two of its own, so that no warp waits for another.
What lies outside of the result's extents the copy engine leaves out.
"""

from __future__ import annotations

import itertools

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.frame import Frame, LaneVector, Tile
from mdtensor.lower.codegen.body.tile_body import Body
from mdtensor.lower.codegen.body.write_outputs import finish_values
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import rows_of
from mdtensor.lower.gpu.tma.tma_layout import is_array
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.register_types import F32, register_dtype
from mdtensor.lower.ir.statements import Allocate, If, IndexCalc, LetIndex, Statement, VectorStore
from mdtensor.lower.ir.tma_statements import AwaitStores, BulkStore, TensorMap, WarpBarrier
from mdtensor.lower.ir.values import Pack, Ref
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of

_PANELS, _MAP = "R", "TR"
_ROW = 128  # bytes of a panel's row
_ROWS = 16  # of a warp
_GROUP = 8  # rows, or columns, of which a work-item has one, or two


def validate_results(problem: Problem, schedule: Schedule) -> None:
    """Check that results can leave through local memory; raise LoweringError otherwise."""
    if not schedule.results or schedule.march:
        return
    if not schedule.bulk or len(problem.writes) != 1:
        raise LoweringError("one result leaves through local memory, of matrices by bulk copies")
    (write,), column = problem.writes, schedule.tensor[1]
    memory = problem.outputs[write.buffer]
    if register_dtype(memory) != F32 or problem.written_dtypes != (F32,):
        raise LoweringError("results that leave through local memory are computed in float32")
    tilings = tilings_of(problem, schedule)
    if schedule.chunks[schedule.tensor[0]] > 1:
        raise LoweringError("where rows go through registers, results leave one by one")
    if any(tilings[d].is_split for d in problem.contracted):
        raise LoweringError("partial results do not leave through local memory")
    strides = [(write.strides[d].constant or 0, problem.extent(d)) for d in problem.kept]
    columns = _ROW // memory.itemsize
    if write.strides[column].constant != 1 or tilings[column].block % columns:
        raise LoweringError(
            f"results leave in whole panels of {columns} columns next to each other"
        )
    rows = sorted(rows_of(problem, schedule), key=lambda d: -(write.strides[d].constant or 0))
    if tuple(rows) != rows_of(problem, schedule):
        raise LoweringError("the rows of a block are numbered as they lie in the result")
    if not is_array(strides, as_index(write.offset).constant, 16 // memory.itemsize):
        raise LoweringError("bulk copies take rows inside rows, at multiples of 16 bytes")


def panels_of_results(frame: Frame) -> list[Statement]:
    """Declare the panels in local memory through which results leave."""
    memory = _memory(frame)
    warps = frame.items // WARP
    elements = _ROWS * _ROW // memory.itemsize
    return [Allocate(_PANELS, memory, "local", warps * _buffers(frame) * elements)]


def map_of_results(frame: Frame) -> TensorMap:
    """The tensor map of the result."""
    problem, (write,) = frame.problem, frame.problem.writes
    memory = _memory(frame)
    dims, box = _dims(frame), {frame.schedule.tensor[1]: _ROW // memory.itemsize}
    box |= _rows_of_warp(frame.problem, frame.schedule)
    return TensorMap(
        _MAP,
        f"O{write.buffer}",
        memory,
        as_index(write.offset).constant or 0,
        tuple(problem.extent(d) for d in dims),
        tuple(write.strides[d].constant or 0 for d in dims),
        tuple(box.get(d, 1) for d in dims),
    )


def bulk_results(frame: Frame, tile: Tile) -> list[Statement]:
    """Finish the points of a block, and store them panel by panel."""
    column, memory = frame.schedule.tensor[1], _memory(frame)
    columns = _ROW // memory.itemsize
    elements, buffers = _ROWS * columns, _buffers(frame)
    at = {d: name(frame.tilings[d].var("t")) for d in frame.problem.kept}
    for d, length in _rows_of_warp(frame.problem, frame.schedule).items():
        if frame.tilings[d].block > length:
            at[d] = at[d] + name(frame.tilings[d].var("w")) * length
    mine = name("warp") * (buffers * elements)
    statements: list[Statement] = list(_places(frame))
    for n in range(_panels(frame)):
        first = mine + n % buffers * elements
        where = {**at, column: at[column] + n * columns}
        begun = BulkStore(_MAP, tuple(where[d] for d in _dims(frame)), _PANELS, first)
        statements += [
            _by_one(AwaitStores(buffers - 1, read=True)),
            WarpBarrier(),
            *_panel(frame, tile, n, first),
            WarpBarrier(shown=True),
            _by_one(begun),
        ]
    return statements


def all_stored() -> Statement:
    """Wait until all TMA stores are complete."""
    return _by_one(AwaitStores(0))


def _by_one(statement: Statement) -> Statement:
    return If(name("lane"), "==", as_index(0), (statement,))


def _memory(frame: Frame) -> np.dtype:
    return frame.problem.outputs[frame.problem.writes[0].buffer]


def _dims(frame: Frame) -> list[int]:
    """The dims of the result, the nearest first."""
    (write,) = frame.problem.writes
    return sorted(frame.problem.kept, key=lambda d: write.strides[d].constant or 0)


def _panels(frame: Frame) -> int:
    """The number of panels of a block's columns."""
    column = frame.schedule.tensor[1]
    return frame.tilings[column].block * _memory(frame).itemsize // _ROW


def _buffers(frame: Frame) -> int:
    """The number of panels that a warp alternates: two, or one where a block's number is odd."""
    return 1 if _panels(frame) % 2 else 2


def _places(frame: Frame) -> list[Statement]:
    """Declare the positions of a work-item's pairs in the swizzled row of a panel."""
    memory, column = _memory(frame), frame.schedule.tensor[1]
    line, place = _line(frame), name(frame.tilings[column].var("l"))
    apart = _GROUP * memory.itemsize // 16  # pieces of a group of columns
    pairs = 4 // apart  # of a piece
    statements: list[Statement] = [
        LetIndex("piece", IndexCalc("/", place, as_index(pairs))),
        LetIndex("pair", IndexCalc("%", place, as_index(pairs))),
    ]
    for n in range(8 // apart):
        number = IndexCalc("^", name("piece") + n * apart, line)
        statements.append(LetIndex(f"piece_{n}", number))
    return statements


def _panel(frame: Frame, tile: Tile, number: int, first: Index) -> list[Statement]:
    """Finish a work-item's points of a panel, and store them there in pairs."""
    memory, column = _memory(frame), frame.schedule.tensor[1]
    columns = _ROW // memory.itemsize
    dims, register = frame.unrolled_kept, frame.tilings[column]
    inside = [p for p in register.positions(register.register) if p // columns == number]
    line = _line(frame) * columns + name("pair") * 2
    statements: list[Statement] = []
    numbered = {point: n for n, point in enumerate(tile.points)}
    for n, down in enumerate(_positions(frame)):
        for along in inside[::2]:
            points = [_point(dims, {**down, column: c}) for c in (along, along + 1)]
            pair = [_finished(frame, tile, numbered[p], statements) for p in points]
            piece = name(f"piece_{along % columns // _GROUP}") * (16 // memory.itemsize)
            place = first + line + n * _GROUP * columns + piece
            statements.append(VectorStore(_PANELS, memory, place, Pack(tuple(pair))))
    return statements


def _rows_of_warp(problem: Problem, schedule: Schedule) -> dict[int, int]:
    """The number of adjacent rows of a warp along each row dim."""
    rows = rows_of(problem, schedule)
    return {d: schedule.warp[d] * schedule.registers[d] for d in rows}


def _line(frame: Frame) -> Index:
    """The number of a work-item's first row within its warp."""
    line, inner = as_index(0), 1
    for d in reversed(rows_of(frame.problem, frame.schedule)):
        if (lanes := frame.schedule.warp[d]) > 1:
            line = line + name(frame.tilings[d].var("l")) * inner
        inner *= lanes
    return line


def _positions(frame: Frame) -> list[dict[int, int]]:
    """Positions of a work-item's rows by dim, relative to its first one."""
    rows = rows_of(frame.problem, frame.schedule)
    along = [frame.tilings[d].positions(frame.tilings[d].register) for d in rows]
    return [dict(zip(rows, places, strict=True)) for places in itertools.product(*along)]


def _point(dims: tuple[int, ...], places: dict[int, int]) -> tuple[int, ...]:
    return tuple(places.get(d, 0) for d in dims)


def _finished(frame: Frame, tile: Tile, u: int, statements: list[Statement]) -> Ref:
    body = Body(frame, tile, {}, "b", None, prefix=f"e{u}_")
    refs = tile.accumulators[u][0]
    (ref,) = finish_values(body, tile.points[u], (), LaneVector(0, 1, 1), refs, f"{u}", statements)
    return ref
