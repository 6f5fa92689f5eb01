"""Cost of schedules with TMA and wgmma: bytes of local memory, and estimated seconds."""

from __future__ import annotations

import math

from mdtensor.lower.gpu.tensor_cores.tensor_core_cost import combining_seconds
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import is_held, matrices_of, rows_of
from mdtensor.lower.gpu.tma.tma_layout import ROW_BYTES, panel_of, steps_held
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.machine_model import GPU_SECTOR
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.specs import Target

RESERVED = 2048  # bytes of local memory for signals
PANELS_OF_RESULTS = 256  # bytes of a row's panels, through which results leave
# Fitted to half floats 1024^3 to 8192^3 and a batch of 512^3 on an H200. Bytes of the reduction
# that a core multiplies per cycle at the clock under load, for each row and column; columns whose
# pauses make up for a product, bytes that all cores copy per second, seconds until a tile is there
# and per byte of it.
_MULTIPLIED_BYTES, _LOAD, _PAUSE = 4096.0, 0.85, 16.0
_COPIED, _UNDER_WAY, _BYTE_UNDER_WAY = 13e12, 0.7e-6, 18e-12
# Seconds in any case and of a group, of 64 rows and 64 columns of results in boxes or one by one;
# and how much of what is hidden by something longer still shows.
_BASE, _GROUP, _BOXED, _STORED, _HIDDEN = 3e-6, 1.2e-6, 0.3e-6, 0.8e-6, 0.1
_RESULTS = 64 * 64
# Seconds from the wait for rows that go through registers to the end of their product, less the
# product itself.
_HELD = 129e-9
# Times as many bytes that rows count for which begin inside of sectors.
_INSIDE = 2.3


def tile_bytes(block: tuple[int, int]) -> int:
    """Bytes of a stage: rows and columns, each one panel's width deep."""
    return sum(block) * ROW_BYTES


def bulk_bytes(problem: Problem, schedule: Schedule) -> int:
    """Bytes of local memory of a group: stages, panels of results, mbarriers."""
    rows, columns = _sides(problem, schedule)
    panels = rows * PANELS_OF_RESULTS * bool(schedule.results)
    return tile_bytes((rows, columns)) * schedule.stages + panels + RESERVED


def _sides(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Rows and columns of a group's block."""
    column = schedule.tensor[1]
    tilings = tilings_of(problem, schedule)
    rows = math.prod(tilings[d].block for d in rows_of(problem, schedule))
    return rows, tilings[column].block


def bulk_estimate(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Estimated seconds of a schedule with TMA copies."""
    problem = zero_filled(problem)
    depth = schedule.tensor[2]
    tilings = tilings_of(problem, schedule)
    factors = matrices_of(problem, schedule.tensor)
    panel = panel_of(factors)
    rows, columns = _sides(problem, schedule)
    nbytes = tile_bytes((rows, columns))
    groups = math.prod(t.parts.constant or 1 for t in tilings)
    kept = (tilings[d] for d in problem.kept)
    blocks = math.prod(-(-(t.part.constant or 1) // t.block) for t in kept)
    steps = math.prod(
        -(-(tilings[d].part.constant or 1) // (panel if d == depth else 1))
        for d in problem.contracted
    )
    on_core = max(1, target.l1_bytes // bulk_bytes(problem, schedule))
    busy = min(on_core, -(-groups // target.cores))
    clock = target.clock * _LOAD
    multiplying = rows * columns * ROW_BYTES / _MULTIPLIED_BYTES * (1 + _PAUSE / columns) / clock
    slowly = _copied_bytes(problem, schedule, (rows, columns))
    copying = slowly * min(groups, target.cores) / _COPIED
    waiting = (_UNDER_WAY + nbytes * _BYTE_UNDER_WAY) / schedule.stages
    if is_held(problem, factors, schedule.tensor[0]):
        waits = panel // factors.step // steps_held(columns)
        waiting = max(waiting, (waits * _HELD + multiplying) / 2)
    step = max(busy * multiplying, busy * copying, waiting) + _HIDDEN * busy * multiplying
    result = rows * columns / _RESULTS * (_BOXED if schedule.results else _STORED)
    rounds = -(-groups // (target.cores * busy))
    computing = _BASE + rounds * (_GROUP + blocks * (steps * step + busy * result))
    parts = math.prod(tilings[d].parts.constant or 1 for d in problem.contracted)
    return computing + combining_seconds(problem, parts)


def _copied_bytes(problem: Problem, schedule: Schedule, block: tuple[int, int]) -> float:
    """Bytes copied per stage; more where rows start inside of memory sectors."""
    factors = matrices_of(problem, schedule.tensor)
    size = factors.memory.itemsize
    found = 0.0
    for number, length in zip((factors.rows, factors.columns), block, strict=True):
        strides = [stride.constant or 0 for stride in problem.streams[number].strides]
        inside = any(stride * size % GPU_SECTOR for stride in strides if stride != 1)
        found += length * ROW_BYTES * (_INSIDE if inside else 1.0)
    return found
