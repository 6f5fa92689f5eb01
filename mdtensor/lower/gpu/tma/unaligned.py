"""Fallback schedules for unaligned arrays, where a schedule needs multiples of 16 bytes."""

from __future__ import annotations

from dataclasses import replace

from mdtensor.errors import LoweringError
from mdtensor.lower.gpu.base.block_shapes import blocked
from mdtensor.lower.gpu.tensor_cores.tensor_core_candidates import padding_of
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import (
    Factors,
    factors_of,
    validate_tensor,
)
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule

_STAGES = 3
# Points of a work-item and work-items of a group along rows and columns, and how deep tiles are.
_POINTS, _ITEMS, _DEPTH = (8, 8), (8, 16), 16


def for_any_alignment(problem: Problem, schedule: Schedule) -> Schedule:
    """The fallback schedule for unaligned arrays of one with TMA copies.

    The same tiles, copied by work-items and multiplied by warps; where tiles would be partial,
    plain register blocking, which has no requirements.
    """
    factors = factors_of(problem, *schedule.tensor)
    if factors is None:  # guards that bulk copies do without
        return blocked(problem, _POINTS, _ITEMS, _DEPTH)
    copied = _copied_by_items(problem, schedule, factors)
    try:
        validate_tensor(problem, copied)
    except LoweringError:
        return blocked(problem, _POINTS, _ITEMS, _DEPTH)
    return copied


def _copied_by_items(problem: Problem, schedule: Schedule, factors: Factors) -> Schedule:
    row, column, _ = schedule.tensor
    owners = {factors.rows: row, factors.columns: column}
    padding = tuple(
        padding_of(problem, factors, n, owners[n]) if n in owners else 0
        for n in range(len(problem.streams))
    )
    chunks = tuple(1 if d == row else n for d, n in enumerate(schedule.chunks))
    stages = min(schedule.stages, _STAGES)
    return replace(schedule, bulk=False, results="", chunks=chunks, padding=padding, stages=stages)
