"""What bulk copies and products of four warps ask of a problem and a schedule."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.errors import LoweringError
from mdtensor.lower.index import as_index
from mdtensor.lower.nest import F32
from mdtensor.lower.passes.matrix_tile import COLUMNS, Factors, factors_of, is_turned
from mdtensor.lower.problem import Problem
from mdtensor.lower.schedule import Schedule
from mdtensor.lower.tiling import tilings_of

ROW_BYTES = 128  # of a panel, as many as a tile has of the reduction
ROWS = 64  # that four warps compute
MOST_COLUMNS = 256
_PIECE_BYTES = 16  # of which all addresses are multiples
_MOST_DIMS = 5
_BESIDE_TWO_STEPS = 192  # columns


def panel_of(factors: Factors) -> int:
    """Elements of a row of a panel."""
    return ROW_BYTES // factors.memory.itemsize


def steps_held(columns: int) -> int:
    """Steps whose rows go through registers together, where rows do.

    A product's wait is shorter than two steps; many columns leave registers for one beside another.
    """
    return 2 if columns <= _BESIDE_TWO_STEPS else 1


def is_box(problem: Problem, number: int) -> bool:
    """Whether a stream is an array as bulk copies take it."""
    stream = problem.streams[number]
    used = [d for d in problem.dims if stream.uses(d)]
    strides = [(stream.strides[d].constant or 0, problem.extent(d)) for d in used]
    offsets = [read.offset for read in problem.reads if read.stream == number]
    piece = _PIECE_BYTES // problem.inputs[stream.buffer].itemsize
    return all(is_array(strides, as_index(n).constant, piece) for n in offsets)


def is_array(strides: Sequence[tuple[int, int]], offset: int | None, piece: int) -> bool:
    """Whether strides and extents are rows inside rows that begin at multiples of a piece."""
    found = sorted(strides)
    if not 2 <= len(found) <= _MOST_DIMS or found[0][0] != 1:
        return False
    if offset is None or offset % piece or offset < 0:
        return False
    inside = 1
    for stride, extent in found:
        if stride < inside or (stride > 1 and stride % piece):
            return False
        inside = stride * extent
    return True


def validate_bulk(problem: Problem, schedule: Schedule) -> None:
    """Whether four warps can multiply what bulk copies bring; LoweringError says what forbids it.

    Beyond what is asked of matrices that warps multiply.
    """
    row, column, depth = schedule.tensor
    factors = factors_of(problem, row, column, depth)
    assert factors is not None
    panel = panel_of(factors)
    if problem.is_general or schedule.last_group or any(schedule.padding):
        raise LoweringError("bulk copies need fixed extents, no padding, and no last group")
    if schedule.registers[row] != 2 or schedule.threads[row] * 2 % ROWS:
        raise LoweringError(f"four warps have {ROWS} rows: work-items have 2 of them")
    if schedule.threads[column] != COLUMNS or schedule.registers[column] * COLUMNS > MOST_COLUMNS:
        raise LoweringError(f"four warps have all columns of a group, at most {MOST_COLUMNS}")
    tilings = tilings_of(problem, schedule)
    for d in problem.dims:
        whole = tilings[d].tile or tilings[d].part.constant or 0
        length = {row: 1, column: 1, depth: panel}.get(d, 1)
        if problem.reduced[d] and whole != length:
            raise LoweringError(f"tiles are {panel} deep along one reduced dim, and 1 along others")
        if tilings[d].is_split and (tilings[d].part.constant or 0) % length:
            raise LoweringError(f"parts of a reduction begin at multiples of {length}")
        if d not in schedule.tensor and tilings[d].block > 1:
            raise LoweringError("a group has one point of the dims that are no matrix's own")
    for number, own in ((factors.rows, row), (factors.columns, column)):
        if not is_box(problem, number):
            raise LoweringError("bulk copies take rows inside rows, at multiples of 16 bytes")
        if is_turned(problem, number, own) and tilings[own].block % panel:
            raise LoweringError(f"where a factor lies along its own dim, a tile has {panel}s of it")
    if factors.memory == F32 and is_turned(problem, factors.columns, column):
        raise LoweringError("columns of tf32 lie along the reduction")
