"""What staging costs: elements copied in vectors, one by one, or from rows that are far apart."""

from __future__ import annotations

import math

from mdtensor.lower.problem import Problem, Stream
from mdtensor.lower.schedule import Schedule
from mdtensor.lower.traffic import WAY_BYTES, Shape
from mdtensor.specs import Target

# Cycles per element: in vectors, one by one, and from rows so many bytes apart or more, whose lines
# stay in L1 until they were copied or do not.
VECTOR_COPY, SCALAR_COPY, HELD_COPY, FAR_COPY = 0.4, 1.5, 2.0, 8.0
FAR = 2048


def cycles_to_stage(problem: Problem, schedule: Schedule, shape: Shape, target: Target) -> float:
    """Cycles for copying tiles, as often as the loops around them ask for it."""
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
        total += elements * max(1, repeats) * _copy_cycles(stream, schedule.lane, itemsize, rows)
    return total


def _copy_cycles(stream: Stream, lane: int, itemsize: int, rows: float) -> float:
    """Cycles to copy one element: in vectors, one by one, or from rows that are far apart.

    So many `rows`, in terms of the ways of L1, may push each other's lines out of it before all
    their elements were copied.
    """
    stride = 1 if lane < 0 else abs(stream.strides[lane].constant or 1)
    if lane >= 0 and stream.uses(lane) and stride == 1:
        return VECTOR_COPY
    places = WAY_BYTES // math.gcd(stride * itemsize, WAY_BYTES)
    if stride * itemsize < FAR:
        return SCALAR_COPY
    return FAR_COPY if rows > places else HELD_COPY
