"""Boxes of TMA copies, and the requirements of TMA and wgmma on problems and schedules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import (
    COLUMNS,
    Factors,
    is_turned,
    matrices_of,
    rows_of,
)
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import ROWS as LANES
from mdtensor.lower.ir.register_types import F32
from mdtensor.lower.problem.problem import Axis, Problem
from mdtensor.lower.problem.zero_padding import axes_of, begin_of
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of

ROW_BYTES = 128  # of a panel, as many as a tile has of the reduction
ROWS = 64  # that four warps compute
ROWS_OF_WARP = 16
MOST_COLUMNS = 256
_PIECE_BYTES = 16  # of which all addresses are multiples
_MOST_DIMS = 5
_BESIDE_TWO_STEPS = 192  # columns
_MOST_ALONG, _MOST_STEP = 256, 8  # elements of an array along a dim of a box, and its step


@dataclass(frozen=True, slots=True)
class Box:
    """The box of one TMA copy: array axes, nearest first, with lengths and steps.

    Of every axis, so many elements that lie a step apart; from one such box to the next it is a
    panel along the dim that is `turned` (-1 where there is only one box).
    """

    axes: tuple[Axis, ...]
    lengths: tuple[int, ...]
    steps: tuple[int, ...]
    turned: int


def panel_of(factors: Factors) -> int:
    """Elements per row of a panel."""
    return ROW_BYTES // factors.memory.itemsize


def steps_held(columns: int) -> int:
    """The number of steps whose rows pass through registers together.

    A product's wait is shorter than two steps; many columns leave registers for one beside another.
    """
    return 2 if columns <= _BESIDE_TWO_STEPS else 1


def own_dims(problem: Problem, schedule: Schedule) -> dict[int, tuple[int, ...]]:
    """The dims of the rows, and those of the columns, by stream number."""
    factors = matrices_of(problem, schedule.tensor)
    return {factors.rows: rows_of(problem, schedule), factors.columns: (schedule.tensor[1],)}


def box_of(
    problem: Problem, number: int, own: Mapping[int, int], depth: int, panel: int
) -> Box | None:
    """The TMA box of a stream for a tile with `own` points of its dims; None if it has none.

    It has a `panel`'s row of the reduction along the dim `depth`.
    """
    axes = axes_of(problem, number)
    turned = next((d for d in own if is_turned(problem, number, d)), -1)
    if axes is None or not _is_array(problem, number, axes):
        return None
    tile = {**own, depth: panel} | ({turned: panel} if turned >= 0 else {})
    lengths: list[int] = []
    steps: list[int] = []
    for axis in axes:
        along = [d for d in tile if axis.coefficients[d] and (tile[d] > 1 or d == depth)]
        step = axis.coefficients[along[0]] if along else 1
        length = tile[along[0]] if along else 1
        if len(along) > 1 or not 1 <= step <= _MOST_STEP or (length - 1) * step >= _MOST_ALONG:
            return None
        if depth in along and not _ends_in_zeros(problem, axis, depth, panel):
            return None
        lengths.append(length)
        steps.append(step if length > 1 else 1)
    if steps[0] != 1 or (turned >= 0 and math.prod(lengths) != panel * panel):
        return None
    return Box(axes, tuple(lengths), tuple(steps), turned)


def _ends_in_zeros(problem: Problem, axis: Axis, depth: int, panel: int) -> bool:
    """Whether the reduction's end is padded with zeros by TMA, or tiles are whole."""
    alone = sum(map(bool, axis.coefficients)) == 1 and axis.coefficients[depth] == 1
    whole = axis.offset == 0 and axis.extent == problem.extent(depth)
    return (alone and whole) or problem.extent(depth) % panel == 0


def _is_array(problem: Problem, number: int, axes: Sequence[Axis]) -> bool:
    """Whether a stream's rows are aligned to whole pieces."""
    if not 2 <= len(axes) <= _MOST_DIMS or axes[0].stride != 1:
        return False
    piece = _PIECE_BYTES // problem.inputs[problem.streams[number].buffer].itemsize
    reads = [read for read in problem.reads if read.stream == number]
    offsets = [begin_of(problem, number, axes, read.offset).constant for read in reads]
    placed = all(n is not None and n >= 0 and n % piece == 0 for n in offsets)
    return placed and all(axis.stride % piece == 0 for axis in axes[1:])


def is_array(strides: Sequence[tuple[int, int]], offset: int | None, piece: int) -> bool:
    """Whether strides and extents form nested rows aligned to whole pieces."""
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
    """Check that TMA and wgmma can compute a problem; raise LoweringError otherwise.

    These rules come on top of those of `validate_tensor`.
    """
    if not schedule.bulk:
        return
    _, column, depth = schedule.tensor
    factors = matrices_of(problem, schedule.tensor)
    panel = panel_of(factors)
    if problem.is_general or schedule.last_group or any(schedule.padding):
        raise LoweringError("bulk copies need fixed extents, no padding, and no last group")
    rows = rows_of(problem, schedule)
    _validate_rows(schedule, rows)
    if schedule.threads[column] != COLUMNS or schedule.registers[column] * COLUMNS > MOST_COLUMNS:
        raise LoweringError(f"four warps have all columns of a group, at most {MOST_COLUMNS}")
    tilings = tilings_of(problem, schedule)
    for d in problem.contracted:
        whole = tilings[d].tile or tilings[d].part.constant or 0
        length = panel if d == depth else 1
        if whole != length:
            raise LoweringError(f"tiles are {panel} deep along one reduced dim, and 1 along others")
        if tilings[d].is_split and (tilings[d].part.constant or 0) % length:
            raise LoweringError(f"parts of a reduction begin at multiples of {length}")
    owners = own_dims(problem, schedule)
    for number, own in owners.items():
        used = [d for d in problem.kept if problem.streams[number].uses(d) and d not in own]
        if any(tilings[d].block > 1 for d in used):
            raise LoweringError("a group has one point of the dims that are no matrix's own")
    for number, own in owners.items():
        blocks = {d: tilings[d].block for d in own}
        _validate_box(blocks, box_of(problem, number, blocks, depth, panel), panel)
    if factors.memory == F32 and is_turned(problem, factors.columns, column):
        raise LoweringError("columns of tf32 lie along the reduction")


def _validate_rows(schedule: Schedule, rows: Sequence[int]) -> None:
    """Check that a block's rows are numbered by lanes, then work-items' pairs, then warps."""
    if math.prod(schedule.registers[d] * schedule.threads[d] for d in rows) % ROWS:
        raise LoweringError(f"four warps have {ROWS} rows: work-items have 2 of them")
    if math.prod(schedule.registers[d] for d in rows) != ROWS_OF_WARP // LANES:
        raise LoweringError(f"four warps have {ROWS} rows: work-items have 2 of them")
    place = 0
    for d in reversed(rows):
        lanes, warps = schedule.warp[d], schedule.threads[d] // schedule.warp[d]
        for kind, count in enumerate((lanes, schedule.registers[d], warps)):
            if count > 1 and kind < place:
                raise LoweringError("rows go by lanes, then points, then warps, the nearest first")
            place = max(place, kind) if count > 1 else place


def _validate_box(blocks: Mapping[int, int], box: Box | None, panel: int) -> None:
    if box is None:
        raise LoweringError("bulk copies take rows inside rows, at multiples of 16 bytes")
    if box.turned >= 0 and blocks[box.turned] % panel:
        raise LoweringError(f"where a factor lies along its own dim, a tile has {panel}s of it")
    nearest_first = reversed(blocks)
    order = [n for d in nearest_first for n, a in enumerate(box.axes) if a.coefficients[d]]
    if order != sorted(order):
        raise LoweringError("the rows of a block are numbered as they lie in their array")
