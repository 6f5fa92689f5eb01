"""Software prefetching of the data that later iterations of the innermost loop read.

Processors fetch ahead by themselves, along few runs of neighbours at a time and not across pages.
Only what no other loop has brought in before is asked for: of the rows that a stencil reads, the
one that moves on to new ground.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.statements import Prefetch, Statement
from mdtensor.lower.ir.values import Load
from mdtensor.lower.problem.problem import Problem, Stream
from mdtensor.lower.schedule.schedule import Schedule

LINE = 64  # bytes that memory gives at once


def innermost(schedule: Schedule) -> int:
    """The dim of the innermost loop; -1 where there is no loop."""
    order = schedule.reduce_order or schedule.loop_order
    return order[-1] if order else -1


def asked_ahead(
    problem: Problem, schedule: Schedule, loads: Mapping[int, Sequence[Load]]
) -> list[Statement]:
    """Prefetches of the addresses that `loads` read `schedule.ahead` iterations later."""
    d = innermost(schedule)
    if not schedule.ahead or d < 0:
        return []
    statements: list[Statement] = []
    for number, read in loads.items():
        stream = problem.streams[number]
        near = [load for load in read if load.lanes == 1 or as_index(load.stride).constant == 1]
        computed = any(each.stream == number and each.computed for each in problem.all_reads)
        if near and stream.uses(d) and not computed:
            jump = stream.strides[d] * (schedule.registers[d] * schedule.ahead)
            line = max(1, LINE // near[0].memory.itemsize)
            places = _leading([load.index for load in near], _least_step(stream, schedule, d), line)
            statements += [Prefetch(near[0].buffer, place + jump) for place in places]
    return statements


def _least_step(stream: Stream, schedule: Schedule, d: int) -> int:
    """The smallest step of another loop in a stream, in elements; 0 if it is unknown."""
    steps = [
        stride.constant * schedule.registers[other] if stride.constant is not None else 0
        for other, stride in enumerate(stream.strides)
        if other != d and stride.terms
    ]
    return min(steps) if steps and min(steps) > 0 else 0


def _leading(places: Sequence[Index], step: int, line: int) -> list[Index]:
    """One address per cache line that no earlier iteration of another loop has touched."""
    found: list[Index] = []
    for named, constants in _by_names(places).items():
        last = before = max(constants)
        found.append(named + last)
        for constant in sorted(constants, reverse=True):
            if before - constant >= line and not (step and last - constant >= step):
                found.append(named + constant)
                before = constant
    return found


def _by_names(places: Sequence[Index]) -> dict[Index, set[int]]:
    """Constant offsets of addresses, grouped by symbolic part."""
    result: dict[Index, set[int]] = {}
    for place in places:
        named, constant = place.split()
        result.setdefault(named, set()).add(constant)
    return result
