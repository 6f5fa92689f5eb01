"""Registry entry of products by TMA copies and wgmma.

Candidates are ranked with those of reductions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.kernel_sequence import LoopNests, kernels_of
from mdtensor.lower.gpu.base.gpu_kind import BULK, GpuKind
from mdtensor.lower.gpu.base.open_choices import NO, NONE, ONE, Choices, Counts, by_dim, only
from mdtensor.lower.gpu.tensor_cores.tensor_core_kind import matrix_choices
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import (
    COLUMNS,
    is_held,
    matrices_of,
    rows_of,
    validate_tensor,
)
from mdtensor.lower.gpu.tma.tma_candidates import blocks_of, bulk_candidates
from mdtensor.lower.gpu.tma.tma_cost import bulk_bytes, bulk_estimate
from mdtensor.lower.gpu.tma.tma_layout import panel_of, validate_bulk
from mdtensor.lower.gpu.tma.wgmma_loop import WGMMA
from mdtensor.lower.gpu.tma.wgmma_store import validate_results
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.rules.register_blocking_rules import validate_resident
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

MOST_BLOCKS = 64  # of a group along a dim of matrices by bulk copies
_OF_BULK = (2, 3, 4, 5, 6, 7, 8)


def bulk_choices(
    problem: Problem, matrices: Choices, dims: tuple[int, int, int], results: tuple[str, ...]
) -> Choices:
    """The choices of products with TMA copies and wgmma; `results` are the ways to store."""
    row, column, along = dims
    factors = matrices_of(problem, dims)
    panel, step = panel_of(factors), factors.step
    apart = 2 if is_held(problem, factors, row) else 1
    sides = zip(*blocks_of(problem, dims), strict=True)
    rows, columns = (tuple(sorted(set(side))) for side in sides)

    def of_groups(d: int) -> Counts:
        if problem.reduced[d]:
            return ONE
        return tuple(range(1, min(MOST_BLOCKS, -(-problem.extent(d) // least.get(d, 1))) + 1))

    least = {row: rows[0], column: columns[0]}
    points = {row: (2,), column: tuple(n // COLUMNS for n in columns), along: (step,)}
    return replace(
        matrices,
        points=only(problem, points, ONE),
        items=only(problem, {row: tuple(n // 2 for n in rows), column: (COLUMNS,)}, ONE),
        chunks=only(problem, {row: (apart,), column: (2,), along: (step,)}, ONE),
        tiles=only(problem, {d: (panel if d == along else 1,) for d in problem.contracted}, NONE),
        blocks=by_dim(problem, of_groups),
        padding=NONE,
        stages=_OF_BULK,
        streaming=NO,
        last_group=NO,
        clusters=NO,
        bulk=True,
        results=results,
    )


def spread(problem: Problem, one: Choices, schedule: Schedule, rows: tuple[int, ...]) -> Choices:
    """The choices with the rows of a given schedule, spread over several dims."""
    column = schedule.tensor[1]

    def as_there(choices: tuple[Counts, ...], there: tuple[int, ...]) -> tuple[Counts, ...]:
        return tuple(
            choices[d] if d == column or problem.reduced[d] else (there[d],) for d in problem.dims
        )

    length = {d: schedule.registers[d] * schedule.threads[d] for d in rows}
    blocks = {
        d: tuple(range(1, min(MOST_BLOCKS, -(-problem.extent(d) // n)) + 1))
        for d, n in length.items()
    }
    return replace(
        one,
        points=as_there(one.points, schedule.registers),
        items=as_there(one.items, schedule.threads),
        blocks=tuple(blocks.get(d, one.blocks[d]) for d in problem.dims),
        warp=schedule.warp,
        before=(*rows, column),
    )


def name_of_bulk(problem: Problem, schedule: Schedule) -> str:
    """The kind's name in configurations, with the spread of rows over dims, if several.

    Such as "bulk 8x0 4x2": 8 along dim 0, 4 along dim 2.
    """
    rows = rows_of(problem, schedule)
    counts = (f"{schedule.registers[d] * schedule.threads[d]}x{d}" for d in rows)
    return BULK if len(rows) < 2 else " ".join((BULK, *counts))


def _bulk_kernels(frame: Frame) -> LoopNests:
    if not frame.aligned:
        raise LoweringError("bulk copies need arrays that begin at multiples of 16 bytes")
    return kernels_of(frame, WGMMA)


def _of_bulk(problem: Problem, target: Target) -> Mapping[str, Choices]:
    """The choices of products with bulk copies, for each way to spread rows over dims."""
    problem = zero_filled(problem)
    bulk = list(bulk_candidates(problem, target))
    if not bulk:
        return {}
    dims = bulk[0].tensor[0], bulk[0].tensor[1], bulk[0].tensor[2]
    results = tuple({schedule.results: None for schedule in bulk} | {"": None})
    matrices = matrix_choices(problem, target, dims)
    one = bulk_choices(problem, matrices, dims, results)
    found = {BULK: one}
    for schedule in bulk:
        name = name_of_bulk(problem, schedule)
        if name not in found:
            rows = rows_of(problem, schedule)
            found[name] = spread(problem, one, schedule, rows)
    return found


BULK_KIND = GpuKind(
    name=BULK,
    applies=lambda _, target: target.bulk_copies,
    owns=lambda _, s: bool(s.tensor) and s.bulk and not s.scatter,
    space=_of_bulk,
    rules=(validate_resident, validate_tensor, validate_results, validate_bulk),
    cost=bulk_estimate,
    local=bulk_bytes,
    emit=_bulk_kernels,
)
