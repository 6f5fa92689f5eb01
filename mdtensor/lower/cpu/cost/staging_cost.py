"""Cost of staging: elements are copied in vectors, one by one, or from distant rows."""

from __future__ import annotations

import math

from mdtensor.lower.cpu.cost.cache_traffic import Shape
from mdtensor.lower.problem.generic_problem import apart_along
from mdtensor.lower.problem.problem import Problem, Stream
from mdtensor.lower.schedule.machine_model import WAY_BYTES
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

# Cycles per element: in vectors, and of a few elements apart with shuffles, one by one, and from
# rows so many bytes apart or more, whose lines stay in L1 until they were copied or do not.
VECTOR_COPY, APART_COPY, SCALAR_COPY, HELD_COPY, FAR_COPY = 0.4, 0.5, 1.5, 2.0, 8.0
FAR = 2048


def cycles_to_stage(
    problem: Problem, schedule: Schedule, shape: Shape, target: Target, *, general: bool
) -> float:
    """Cycles for copying staged tiles, as often as the enclosing loops repeat it."""
    total, ways = 0.0, target.l1_bytes // WAY_BYTES
    tiled = [
        d for d in schedule.group_order if shape.tiles[d] < -(-shape.extents[d] // shape.parts[d])
    ]
    for number, region in enumerate(schedule.staged):
        if not region:
            continue
        stream = problem.streams[number]
        elements = math.prod(shape.extents[d] for d in problem.dims if stream.uses(d))
        elements *= len(problem.places(number))
        inside = [n for n, d in enumerate(tiled) if stream.uses(d)]
        outer = tiled[: max(inside, default=-1) + 1]
        repeats = math.prod(
            -(-shape.extents[d] // shape.parts[d] // shape.tiles[d])
            for d in outer
            if not stream.uses(d)
        )
        repeats *= math.prod(shape.parts[d] for d in problem.dims if not stream.uses(d))
        itemsize = problem.inputs[stream.buffer].itemsize
        rows = shape.registers[schedule.lane] / ways if schedule.lane >= 0 else 0.0
        cycles = _copy_cycles(stream, schedule.lane, itemsize, rows, general=general)
        total += elements * max(1, repeats) * cycles
    return total


def _copy_cycles(stream: Stream, lane: int, itemsize: int, rows: float, *, general: bool) -> float:
    """Cycles to copy one element: in vectors, one by one, or from distant rows.

    So many `rows`, in terms of the ways of L1, may push each other's lines out of it before all
    their elements were copied.
    """
    strides = [step.constant for step in stream.strides]
    if lane >= 0 and (apart := apart_along(strides, lane, general=general)):
        return VECTOR_COPY if apart == 1 else APART_COPY
    stride = 1 if lane < 0 else abs(strides[lane] or 1)
    places = WAY_BYTES // math.gcd(stride * itemsize, WAY_BYTES)
    if stride * itemsize < FAR:
        return SCALAR_COPY
    return FAR_COPY if rows > places else HELD_COPY
