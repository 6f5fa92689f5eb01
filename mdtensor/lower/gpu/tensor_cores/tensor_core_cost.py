"""Cost of schedules on tensor cores: bytes of local memory, and estimated seconds."""

from __future__ import annotations

import math

from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import COLUMNS, ROWS, matrices_of
from mdtensor.lower.ir.register_types import F64
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.specs import Target

# Multiply-adds of a core per cycle, each for every byte of a factor's element, and bytes of local
# memory; cycles that a group takes in any case, and that a tile takes until it is there.
_MULTIPLIED_BYTES, _LOCAL_BYTES, _GROUP, _TILE = 2400.0, 100.0, 3000.0, 100.0
# The same of float64, whose products take long: what fewer than eight warps of a core cannot hide.
# Fitted to a thousand schedules of 1024^3 on an H200.
_MULTIPLIED_BYTES_OF_DOUBLES = 1100.0
_HIDING, _NOT_HIDDEN = 8, 0.22
_BASE = 2.5e-6
_MORE_OF_SMALL_TILES = 1024  # bytes of local memory; 512 were seen
# Cycles of a warp alone for each point and step, of half floats; the part of the shorter of
# products and loads that the longer one does not hide; registers for factors and for addresses.
_ALONE, _APART, _FACTORS, _ADDRESSES = 35.0 / 32, 0.3, 32, 32
# Seconds until another kernel combines parts of a reduction, and bytes of these per second.
_COMBINING, _PARTIALS = 3.5e-6, 1.6e12
# The factor on all; seconds per result. Fitted to half floats 1024^3 to 8192^3 on an H200.
_ALL, _RESULT = 1.1, 5e-12


def _sides(problem: Problem, schedule: Schedule) -> tuple[int, int, int]:
    """Rows, columns and depth of a group's tile."""
    row, column, along = schedule.tensor
    tilings = tilings_of(problem, schedule)
    depth = tilings[along].tile or tilings[along].part.constant or schedule.registers[along]
    return tilings[row].block, tilings[column].block, depth


def matrix_bytes(problem: Problem, schedule: Schedule) -> int:
    """Bytes of local memory that a group's pipeline stages take."""
    rows, columns, depth = _sides(problem, schedule)
    factors, padding = matrices_of(problem, schedule.tensor), max(schedule.padding)
    elements = max(rows, depth) * (min(rows, depth) + padding)
    elements += max(columns, depth) * (min(columns, depth) + padding)
    return elements * factors.memory.itemsize * schedule.stages


def local_bytes_of_matrices(problem: Problem, schedule: Schedule) -> int:
    """`matrix_bytes`, plus a measured allowance for small tiles."""
    return matrix_bytes(problem, schedule) + _MORE_OF_SMALL_TILES


def matrix_estimate(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Estimated seconds of a schedule on tensor cores."""
    rows, columns, depth = _sides(problem, schedule)
    row, column, along = schedule.tensor
    warps = schedule.threads[row] // ROWS * (schedule.threads[column] // COLUMNS)
    factors = matrices_of(problem, schedule.tensor)
    points = schedule.registers[row] * schedule.registers[column]
    registers = (points + _FACTORS) * problem.scalar.result_dtypes[0].itemsize // 4 + _ADDRESSES
    on_core = min(
        target.core.registers // (registers * WARP * warps),
        target.l1_bytes // (matrix_bytes(problem, schedule) + target.core.reserved_bytes),
        target.core.threads // (WARP * warps),
    )
    split = math.prod(schedule.parts[d] for d in problem.contracted)
    groups = split * math.prod(schedule.parts[d] for d in problem.kept)
    busy = max(1, min(on_core, -(-groups // target.cores)))
    itemsize, deep = factors.memory.itemsize, schedule.registers[along]
    steps = math.prod(problem.extent(d) for d in problem.contracted) / (deep * split)
    own = schedule.registers[row] * ROWS + schedule.registers[column] * COLUMNS
    rate, alone = _MULTIPLIED_BYTES, _ALONE * points
    if factors.memory == F64:
        rate = _MULTIPLIED_BYTES_OF_DOUBLES
        alone = target.core.schedulers * WARP * points * deep * itemsize / rate
    multiplying = busy * rows * columns * deep * itemsize / rate
    loading = busy * warps * own * deep * itemsize / _LOCAL_BYTES
    step = max(multiplying, loading, alone)
    if factors.memory == F64:
        step *= 1 + _NOT_HIDDEN * max(0.0, _HIDING / (busy * warps) - 1)
    cycles = steps * (step + _APART * min(multiplying, loading)) + steps * deep / depth * _TILE
    rounds = -(-groups // (target.cores * busy))
    moved = sum(
        math.prod(problem.extent(d) for d in problem.dims if stream.uses(d)) * itemsize
        for stream in problem.streams
    )
    computing = _ALL * rounds * (cycles + _GROUP) / target.clock
    results = math.prod(problem.extent(d) for d in problem.kept)
    seconds = max(computing, moved / target.bandwidth) + results * _RESULT + _BASE
    return seconds + combining_seconds(problem, split)


def combining_seconds(problem: Problem, parts: int) -> float:
    """Seconds until so many parts of a reduction are combined by another kernel."""
    if parts == 1:
        return 0.0
    nbytes = 4 * (parts + 1) * math.prod(map(problem.extent, problem.kept))
    return _COMBINING + nbytes / _PARTIALS
