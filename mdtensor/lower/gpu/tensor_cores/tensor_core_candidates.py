"""GPU candidates on tensor cores, by mma instructions.

Rows, columns and the reduction are the longest dims along which two streams are such factors; what
other dims there are is shared out among groups, or walked tile by tile.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from mdtensor.errors import LoweringError
from mdtensor.lower.gpu.tensor_cores.tensor_core_cost import matrix_bytes
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import (
    COLUMNS,
    ROWS,
    Factors,
    factors_of,
    is_held,
    is_turned,
    matrices_of,
    validate_tensor,
)
from mdtensor.lower.ir.register_types import F32, F64
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

# Warps of a group along rows and columns, and what a warp computes of them.
_WARPS = ((2, 2), (2, 4), (4, 2), (1, 2), (2, 1), (1, 4), (1, 1))
_TILES = ((64, 64), (32, 64), (64, 32), (32, 32), (16, 64), (16, 32))
_DEPTH_BYTES = (64, 128)
_STAGES = (3, 4, 5)
_HELD_BYTES = 512  # of a work-item's accumulators, in registers
# Bytes that rows are longer than whole lines: next ones lie in other banks, both where 16 bytes of
# them are read at once and where single floats are: those of rows across the reduction by four rows
# of eight, float64 by four rows or columns of four at a time.
_PADDING, _PADDING_SINGLE = 16, 32
_SWATH = 8
_SPLITS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
_SHARED = 3  # groups of a core, where a reduction is split among them
NARROW = 32  # columns at most, of blocks that have all of them


def matrix_dims(problem: Problem, *, bulk: bool = False) -> tuple[int, int, int] | None:
    """The dims of rows, columns and reduction of a matrix product; None where there is none.

    With `bulk`, None also for factors that bulk copies cannot load.
    """
    found: list[tuple[int, bool, tuple[int, int, int]]] = []
    for row, column in itertools.permutations(problem.kept, 2):
        for depth in problem.contracted:
            factors = factors_of(problem, row, column, depth)
            if factors is None or not _are_nearest(problem, factors, (row, column, depth)):
                continue
            if bulk and factors.memory == F32 and is_turned(problem, factors.columns, column):
                continue  # only rows of tf32 go through registers
            if bulk and factors.memory == F64:
                continue
            held = bulk and is_held(problem, factors, row)
            pairs = (row, column) if held else (column,)
            beside = (any(w.strides[d].constant == 1 for d in pairs) for w in problem.writes)
            narrow = bulk and is_narrow(problem, (row, column, depth))
            if not narrow and not all(beside):
                continue  # every result would be a line of its own
            points = math.prod(min(256, problem.extent(d)) for d in (row, column, depth))
            found.append((points, narrow, (row, column, depth)))
    return max(found)[2] if found else None


def is_narrow(problem: Problem, dims: tuple[int, int, int]) -> bool:
    """Whether a product has so few columns that they should not become rows, padded to 64.

    Then there are few results, in whatever order they are written.
    """
    row, column, _ = dims
    factors = matrices_of(problem, dims)
    rows, columns = (problem.streams[n] for n in (factors.rows, factors.columns))
    own = [d for d in problem.kept if columns.uses(d) and not rows.uses(d)]
    few = own == [column] and problem.extent(column) <= NARROW < problem.extent(row)
    turned = is_held(problem, factors, row) or is_turned(problem, factors.columns, column)
    return few and not turned


def _are_nearest(problem: Problem, factors: Factors, dims: tuple[int, int, int]) -> bool:
    """Whether both factors are contiguous along their own dim or the reduction, in whole pieces."""
    (row, column, depth), piece = dims, factors.piece
    for number, own in ((factors.rows, row), (factors.columns, column)):
        strides = [stride.constant for stride in problem.streams[number].strides]
        nearest = [d for d in (own, depth) if strides[d] == 1 and problem.extent(d) % piece == 0]
        if not nearest or any(s is None or s % piece for s in strides if s != 1):
            return False
    return True


def matrix_candidates(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Valid tensor core schedules, where the device and the problem support them."""
    dims = matrix_dims(problem) if target.matrices else None
    if dims is None:
        return
    itemsize, held = (
        matrices_of(problem, dims).memory.itemsize,
        problem.scalar.result_dtypes[0].itemsize,
    )
    for warps, tile, nbytes, stages in itertools.product(_WARPS, _TILES, _DEPTH_BYTES, _STAGES):
        if math.prod(tile) // WARP * held > _HELD_BYTES:
            continue
        schedule = matrix_blocked(problem, dims, warps, tile, nbytes // itemsize, stages)
        most = target.l1_bytes - target.core.reserved_bytes
        if _is_valid(problem, schedule) and matrix_bytes(problem, schedule) <= most:
            yield schedule
            # Several groups share a core; where tiles are few, more stages hide nothing.
            several = splits(problem, schedule, _SHARED * target.cores) if stages == 3 else ()
            yield from (split for split in several if _is_valid(problem, split))


def _is_valid(problem: Problem, schedule: Schedule) -> bool:
    try:
        validate(problem, schedule)
        validate_tensor(problem, schedule)
    except LoweringError:
        return False
    return True


def splits(problem: Problem, schedule: Schedule, most: int) -> Iterator[Schedule]:
    """Variants with one dim of the reduction split, of at `most` so many groups."""
    groups = math.prod(schedule.parts[d] for d in problem.kept)
    for d, count in itertools.product(problem.contracted, _SPLITS):
        if groups * count <= most and count <= problem.extent(d):
            parts = tuple(count if n == d else part for n, part in enumerate(schedule.parts))
            yield replace(schedule, parts=parts)


def matrix_blocked(
    problem: Problem,
    dims: tuple[int, int, int],
    warps: tuple[int, int],
    tile: tuple[int, int],
    depth: int,
    stages: int,
) -> Schedule:
    """A schedule from the warps of a group and each warp's tile, both as (rows, columns)."""
    count = len(problem.extents)
    row, column, along = dims

    def by_dim(default: int, **values: int) -> tuple[int, ...]:
        chosen = {row: values["row"], column: values["column"], along: values.get("along", default)}
        return tuple(chosen.get(d, default) for d in range(count))

    factors = matrices_of(problem, dims)
    step = factors.step
    registers = by_dim(1, row=tile[0] // ROWS, column=tile[1] // COLUMNS, along=step)
    threads = by_dim(1, row=ROWS * warps[0], column=COLUMNS * warps[1])
    parts = [1] * count
    for d in problem.kept:
        parts[d] = -(-problem.extent(d) // (registers[d] * threads[d]))
    others = tuple(d for d in problem.kept if d not in (row, column))
    kept = (*others, row, column)
    reduced = (*(d for d in problem.contracted if d != along), along)
    streams, both = range(len(problem.streams)), (factors.rows, factors.columns)
    paddings = {factors.rows: row, factors.columns: column}
    return Schedule(
        asm="gpu",
        parts=tuple(parts),
        tiles=tuple(depth if d == along else int(problem.reduced[d]) for d in range(count)),
        threads=threads,
        registers=registers,
        lane=-1,
        width=1,
        group_order=(*kept, *reduced),
        loop_order=kept,
        reduce_order=reduced,
        staged=tuple("local" if n in both else "" for n in streams),
        resident=True,
        chunks=by_dim(1, row=1, column=2, along=step),
        warp=by_dim(1, row=ROWS, column=COLUMNS),
        padding=tuple(
            padding_of(problem, factors, n, paddings[n]) if n in both else 0 for n in streams
        ),
        stages=stages,
        as_source=tuple(n in both for n in streams),
        tensor=dims,
        swath=_SWATH,
    )


def padding_of(problem: Problem, factors: Factors, number: int, own: int) -> int:
    """Padding of the rows of a factor's staged tile, in elements."""
    across = factors.memory == F32 and is_turned(problem, number, own)
    single = across or factors.memory == F64
    return (_PADDING_SINGLE if single else _PADDING) // factors.memory.itemsize
