"""Tensor cores: warps multiply small matrices of a staged tile and accumulate in registers.

It applies wherever two staged streams of half floats are multiplied as float32 and added up, one
with rows, the other with columns, both with the reduction: a product of matrices, a batch of them,
a convolution, a contraction of tensors. So it does to streams of float32 that are multiplied as
tf32, and to streams of float64, whose products are added up in float64 as work-items add them. The
accumulators are those of a register tile whose warps have 8 rows of 4 work-items: each holds two
neighbouring columns of every eighth row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.frame import Frame, Tile
from mdtensor.lower.codegen.base.staged_layouts import FULL, INNER, TileLayout
from mdtensor.lower.codegen.base.stream_pointers import READ_STAGE
from mdtensor.lower.codegen.register_blocking.register_blocking import (
    REGISTER_BLOCKS,
    resident_tiles,
)
from mdtensor.lower.ir.group_statements import MatrixOperand, MatrixProduct
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.register_types import F32, F64
from mdtensor.lower.ir.statements import Statement
from mdtensor.lower.ir.values import Ref
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.specs import is_short_float
from mdtensor.translate.combine import named
from mdtensor.translate.scalar import Expr

ROWS, COLUMNS = 8, 4  # work-items of a warp along rows and columns
_STEP_BYTES, _PIECE_BYTES = 32, 16  # of a row that are multiplied at once, and are read at once
_STEPS_OF_DOUBLES = (1, 2, 4)  # times as many bytes of them can be multiplied at once


@dataclass(frozen=True, slots=True)
class Factors:
    """The streams of a product's rows and columns, and their element type."""

    rows: int
    columns: int
    memory: np.dtype

    @property
    def steps(self) -> tuple[int, ...]:
        """Possible depths of a product, in elements: 32 bytes, for float64 more."""
        least = _STEP_BYTES // self.memory.itemsize
        return tuple(least * n for n in (_STEPS_OF_DOUBLES if self.memory == F64 else (1,)))

    @property
    def step(self) -> int:
        """The smallest depth of a product, in elements."""
        return self.steps[0]

    @property
    def piece(self) -> int:
        """Elements per read: 16 bytes, or one float64."""
        return 1 if self.memory == F64 else _PIECE_BYTES // self.memory.itemsize


def factors_of(problem: Problem, row: int, column: int, depth: int) -> Factors | None:
    """The factors of a matrix product along three dims; None where there is none."""
    held = problem.scalar.result_dtypes
    if problem.operator is None or held not in ((F32,), (F64,)):
        return None
    if problem.operator.results != named("add", held).results or not _multiplies(problem):
        return None
    first, second = (read.stream for read in problem.reads)
    for rows, columns in ((first, second), (second, first)):
        lhs, rhs = problem.streams[rows], problem.streams[columns]
        shared = lhs.uses(depth) and rhs.uses(depth)
        apart = lhs.uses(row) and not lhs.uses(column) and rhs.uses(column) and not rhs.uses(row)
        if shared and apart:
            return Factors(rows, columns, problem.inputs[lhs.buffer])
    return None


def matrices_of(problem: Problem, dims: Sequence[int]) -> Factors:
    """The factors of the product along rows, columns and a reduction; LoweringError for none."""
    factors = factors_of(problem, *dims)
    if factors is None:
        raise LoweringError(
            "no product of half floats along these dims is added up in float32, nor one of float64"
        )
    return factors


def rows_of(problem: Problem, schedule: Schedule) -> tuple[int, ...]:
    """The dims of a group's block rows, the nearest last: one, or several with bulk copies."""
    row, column, _ = schedule.tensor
    several = (d for d in schedule.loop_order if schedule.registers[d] * schedule.threads[d] > 1)
    return tuple(d for d in several if d != column) or (row,)


def _multiplies(problem: Problem) -> bool:
    """Whether the scalar function is the product of two plain streams of one type.

    Short floats are converted before; what is float32 already is taken as tf32, float64 as it is.
    """
    (result,) = problem.scalar.results
    if result.op != "mul" or len(problem.reads) != 2:
        return False
    positions = [_factor(argument) for argument in result.args]
    streams = {read.stream for read in problem.reads}
    types = {problem.inputs[problem.streams[n].buffer] for n in streams}
    plain = all(problem.is_plain(n) for n in streams)
    return sorted(positions) == [0, 1] and len(streams) == 2 and len(types) == 1 and plain


def _factor(expr: Expr) -> int:
    """The parameter that an expression makes a factor of; -1 for any other expression."""
    if expr.op == "param":
        return expr.number if expr.dtype == F64 else -1
    if expr.op not in ("cast", "tf32") or expr.dtype != F32 or expr.args[0].op != "param":
        return -1
    is_factor = expr.op == "tf32" or is_short_float(expr.args[0].dtype)
    return expr.args[0].number if is_factor else -1


def validate_tensor(problem: Problem, schedule: Schedule) -> None:
    """Check that warps can compute a problem by a schedule; raise LoweringError otherwise."""
    if not schedule.tensor:
        return
    if len(schedule.tensor) != 3 or not set(schedule.tensor) <= set(problem.dims):
        raise LoweringError("schedule.tensor needs the dims of rows, columns and a reduction")
    row, column, depth = schedule.tensor
    kept = not problem.reduced[row] and not problem.reduced[column]
    if row == column or not kept or not problem.reduced[depth]:
        raise LoweringError("matrices have rows and columns along kept dims, and a reduced dim")
    factors = matrices_of(problem, schedule.tensor)
    if schedule.bulk and factors.memory == F64:
        raise LoweringError("bulk copies bring half floats and tf32, which four warps multiply")
    streams = (factors.rows, factors.columns)
    if any(not schedule.staged[n] for n in streams) or schedule.stages < 2 or schedule.prefetch:
        raise LoweringError("matrices are staged in 2 or more stages, and not prefetched")
    if not schedule.as_source or not all(schedule.as_source[n] for n in streams):
        raise LoweringError("matrices lie in local memory as their sources do")
    rows = rows_of(problem, schedule) if schedule.bulk else (row,)
    lanes = math.prod(schedule.warp[d] for d in rows) if schedule.warp else 0
    others = [d for d in problem.dims if d not in (*rows, column)]
    alone = all(schedule.warp[d] == 1 for d in others) if schedule.warp else False
    last = max(map(schedule.loop_order.index, rows)) < schedule.loop_order.index(column)
    if not alone or (lanes, schedule.warp[column]) != (ROWS, COLUMNS) or not last:
        raise LoweringError(f"a warp has {ROWS} rows of {COLUMNS} work-items")
    beside = 2 if schedule.bulk and is_held(problem, factors, row) else 1
    chunks = [schedule.chunks[d] for d in (*rows, column)] if schedule.chunks else []
    if chunks != [*(beside if d == row else 1 for d in rows), 2]:
        said = "next to each other" if beside == 2 else "apart"
        raise LoweringError(
            f"a work-item holds pairs of columns of rows {said}: chunks {beside} and 2"
        )
    pairs = math.prod(schedule.registers[d] for d in rows) % 2 == 0
    if (
        not pairs
        or schedule.registers[column] % 2
        or schedule.registers[depth] not in factors.steps
    ):
        deep = " or ".join(map(str, factors.steps))
        raise LoweringError(f"register tiles are pairs of rows and columns, and {deep} deep")
    for d in problem.kept:
        used = [problem.streams[n].uses(d) for n in streams]
        if schedule.registers[d] > 1 and all(used):
            raise LoweringError("a register tile has no points along dims of both factors")
    tilings = tilings_of(problem, schedule)
    for d in problem.contracted:
        whole = tilings[d].tile or tilings[d].block
        filled = schedule.bulk or tilings[d].is_even(whole)  # with zeros, by bulk copies
        if schedule.threads[d] > 1 or not filled:
            raise LoweringError("tiles of matrices are whole, and work-items share no reduction")
        if d != depth and schedule.registers[d] > 1:
            raise LoweringError("only one reduced dim has a register tile where matrices have")


def is_turned(problem: Problem, number: int, own: int) -> bool:
    """Whether a factor is contiguous along its own dim instead of along the reduction."""
    return problem.streams[number].strides[own].constant == 1


def is_held(problem: Problem, factors: Factors, row: int) -> bool:
    """Whether rows of bulk copies pass through registers: tf32, strided along the reduction."""
    return factors.memory == F32 and is_turned(problem, factors.rows, row)


def matrix_product(frame: Frame, tile: Tile) -> list[Statement]:
    """The matrix product of one step of the reduction."""
    row, column, depth = frame.schedule.tensor
    factors = matrices_of(frame.problem, frame.schedule.tensor)
    rows, columns = frame.layouts[factors.rows], frame.layouts[factors.columns]
    groups = _groups(frame, factors.rows, row, 1), _groups(frame, factors.columns, column, 2)
    return [
        MatrixProduct(
            _operand(frame, rows, row, depth, groups[0]),
            _operand(frame, columns, column, depth, groups[1]),
            accumulators_of(frame, tile, factors),
            frame.schedule.registers[depth],
        )
    ]


MATRIX_BLOCKS = replace(REGISTER_BLOCKS, loops=partial(resident_tiles, product=matrix_product))


def accumulators_of(
    frame: Frame, tile: Tile, factors: Factors
) -> tuple[tuple[tuple[Ref, Ref], ...], ...]:
    """A work-item's accumulators, in pairs, by groups of rows and columns."""
    row, column, _ = frame.schedule.tensor
    dims = frame.unrolled_kept
    numbered = {point: n for n, point in enumerate(tile.points)}

    def accumulator(places: dict[int, int]) -> Ref:
        return tile.accumulators[numbered[tuple(places.get(d, 0) for d in dims)]][0][0]

    return tuple(
        tuple(
            (
                accumulator({**mine, **yours}),
                accumulator({**mine, **yours, column: yours[column] + 1}),
            )
            for yours in _groups(frame, factors.columns, column, 2)
        )
        for mine in _groups(frame, factors.rows, row, 1)
    )


def _groups(frame: Frame, number: int, along: int, pair: int) -> list[dict[int, int]]:
    """Positions of a factor's groups, by dim; its own dim is innermost."""
    stream, tilings = frame.problem.streams[number], frame.tilings
    others = [d for d in frame.unrolled_kept if stream.uses(d) and d != along]
    dims = [*others, along]
    positions = [tilings[d].positions(tilings[d].register) for d in dims]
    positions[-1] = positions[-1][::pair]
    return [dict(zip(dims, place, strict=True)) for place in itertools.product(*positions)]


def _operand(
    frame: Frame, layout: TileLayout, across: int, along: int, groups: list[dict[int, int]]
) -> MatrixOperand:
    steps = {axis.dim: axis.stride.constant or 0 for axis in layout.axes}
    if 1 not in (steps[across], steps[along]):
        raise LoweringError("the nearest dim of a matrix is its own or the reduction's")
    piece = _PIECE_BYTES // layout.memory.itemsize
    if any(step % piece for step in steps.values() if step != 1) or layout.apart % piece:
        raise LoweringError(f"rows of a matrix begin at multiples of 16 bytes: pad them by {piece}")
    start: Index = name(READ_STAGE) * layout.apart
    for axis in layout.axes:
        tiling = frame.tilings[axis.dim]
        if axis.part == FULL:
            start = start + axis.stride * (name(tiling.var("r")) - name(tiling.var("t")))
        elif axis.part == INNER and axis.dim == across:
            lanes = frame.schedule.warp[across]
            warp = name(tiling.var("v")) if tiling.threads > lanes else as_index(0)
            start = start + axis.stride * warp * (lanes * tiling.near)
        elif tiling.threads > 1:
            start = start + axis.stride * name(tiling.var("x")) * tiling.near
    offsets = tuple(sum(steps[d] * place for d, place in group.items()) for group in groups)
    pairs = zip(offsets[::2], offsets[1::2], strict=False)
    if len({second - first for first, second in pairs}) > 1:
        raise LoweringError("groups of a matrix are read in pairs, which all lie as far apart")
    return MatrixOperand(layout.pointer, start, steps[across], steps[along], offsets, layout.memory)
