"""Cost of writing a register tile: whole vectors, transposed vectors, or single lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mdtensor.lower.cpu.cost.cache_traffic import Footprint, Shape, caches_of
from mdtensor.lower.problem.generic_problem import apart_along
from mdtensor.lower.problem.problem import Problem, Write
from mdtensor.lower.schedule.machine_model import CPU_LINE
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

# Writing a vector, and an element of one whose results lie far apart along the lanes; and what a
# row of a tile that is transposed takes for each doubling of its length.
STORE, APART, SHUFFLE = 1.0, 2.5, 1.0
# Cycles that a store waits for a line evicted from L1 by set conflicts before it was full.
WAITING = 6.0


def cycles_to_write(
    problem: Problem,
    schedule: Schedule,
    target: Target,
    shape: Shape,
    footprints: Sequence[Footprint],
    *,
    general: bool,
) -> float:
    """Cycles for storing a vector of results; `footprints` are those of the outputs.

    The maximum over all results, since each is written separately.
    """
    lane = schedule.lane
    cycles = STORE
    for write, footprint in zip(problem.writes, footprints, strict=True):
        if lane >= 0 and _is_whole(problem, write, lane, general=general):
            cycles = max(cycles, STORE + SHUFFLE)
        elif lane >= 0 and write.strides[lane].constant != 1:
            rows = _rows(write, schedule, shape, general) if schedule.transposed else 1
            held = rows * footprint.itemsize >= CPU_LINE or _is_held(
                problem, footprint, shape, target
            )
            cycles = max(cycles, _cycles_across(schedule.width, min(rows, schedule.width), held))
    return cycles


def _is_whole(problem: Problem, write: Write, lane: int, *, general: bool) -> bool:
    """Whether interleaved results fill whole vectors together."""
    strides = [stride.constant for stride in write.strides]
    alike = [w for w in problem.writes if (w.buffer, w.strides) == (write.buffer, write.strides)]
    return 1 < apart_along(strides, lane, general=general) == len(alike)


def _cycles_across(width: int, rows: int, held: bool) -> float:
    """Cycles for storing a vector, one of `rows` to transpose, with strided results."""
    store = (STORE if rows > 1 else APART) + (0.0 if held else WAITING)
    return math.log2(rows) * SHUFFLE + width / rows * store


def _is_held(problem: Problem, footprint: Footprint, shape: Shape, target: Target) -> bool:
    """Whether the lines of a register tile's results stay in L1 until they are full."""
    covered = tuple(1 if problem.reduced[d] else shape.registers[d] for d in problem.dims)
    return footprint.is_held(covered, caches_of(target)[0])


def _rows(write: Write, schedule: Schedule, shape: Shape, general: bool) -> int:
    """The number of adjacent results of a register tile, as a power of two, to transpose."""
    steps = [(s.constant, d) for d, s in enumerate(write.strides) if d != schedule.lane]
    rows = 1
    for step, d in sorted((step, d) for step, d in steps if step and (step == 1 or not general)):
        if step == rows:
            rows *= shape.registers[d]
    return 1 << (rows.bit_length() - 1)
