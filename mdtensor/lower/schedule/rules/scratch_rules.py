"""The rule of scratch memory: a limit relative to operands and results.

A staged tile of an array with many short dims is rounded up along each of them, and every group has
tiles of its own; groups that share a reduction leave results each. Nothing else bounds either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import mul

from mdtensor.errors import LoweringError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scratch_memory import (
    ALIGNMENT,
    ALLOWANCE,
    CELL,
    most_scratch,
    size_of_tile,
    staged_dtype,
    whole_lines,
)
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import division, whole_blocks


def validate_scratch(problem: Problem, schedule: Schedule) -> None:
    """Check the limit of scratch memory; general kernels are checked at launch."""
    if problem.is_general or fits_scratch(problem, schedule):
        return
    raise LoweringError(
        f"{scratch_bytes(problem, schedule)} bytes of scratch memory for a problem that may have"
        f" {most_scratch(problem)}: fewer groups share a reduction, or fewer inputs are staged in"
        " smaller tiles"
    )


_latest: tuple[Problem, Schedule] | None = None


def fits_scratch(problem: Problem, schedule: Schedule, *, general: bool = False) -> bool:
    """Whether a schedule's scratch memory is within the problem's limit; extents are fixed.

    The last pair that fits is memoised: a space validates what it draws.
    """
    global _latest
    latest = _latest
    if latest is not None and latest[0] is problem and latest[1] is schedule and not general:
        return True
    taken = scratch_bytes(problem, schedule, general=general)
    fits = taken <= ALLOWANCE or taken <= most_scratch(problem)
    if fits and not general:
        _latest = problem, schedule
    return fits


def within_scratch(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule without staging, then without split reductions, until scratch memory fits."""
    if fits_scratch(problem, schedule):
        return schedule
    staged = tuple("" if region == "scratch" else region for region in schedule.staged)
    read = replace(schedule, staged=staged)
    if fits_scratch(problem, read):
        return read

    def alone(counts: Sequence[int]) -> tuple[int, ...]:
        return tuple(1 if problem.reduced[d] else n for d, n in enumerate(counts))

    registers = alone(read.registers) if read.scatter else read.registers
    made = replace(read, parts=alone(read.parts), registers=registers)
    return replace(made, in_turn=False, last_group=False)


def scratch_bytes(problem: Problem, schedule: Schedule, *, general: bool = False) -> int:
    """Bytes of scratch memory that a schedule's lowered kernels request.

    An upper bound where a `general` kernel has this schedule: its tiles are whole, however short
    the dims are, and begin at lines that are known at launches only.
    """
    stages = "scratch" in schedule.staged
    shares = schedule.scatter or any(schedule.parts[d] > 1 for d in problem.contracted)
    if not stages and not shares:
        return 0
    lengths, parts = _tiles_and_parts(problem, schedule, general=general)
    shared = _shared_bytes(problem, schedule, parts) if shares else 0
    if not stages:
        return shared
    staged = [n for n, region in enumerate(schedule.staged) if region == "scratch"]
    tiles = [
        whole_lines(size_of_tile(problem, n, lengths, _bytes_of_point(problem, n))) for n in staged
    ]
    ends = ALIGNMENT * (len(tiles) + 2) if general else 0
    return shared + (sum(tiles) + ends) * math.prod(parts)


def _tiles_and_parts(
    problem: Problem, schedule: Schedule, *, general: bool
) -> tuple[list[int], list[int]]:
    """Lengths of the staged tiles, and numbers of groups, along every dim."""
    lengths: list[int] = []
    parts: list[int] = []
    lead = schedule.lead or (0,) * len(schedule.parts)
    blocks = map(mul, schedule.registers, schedule.threads)
    by_dim = zip(_extents(problem), lead, blocks, schedule.tiles, schedule.parts, strict=True)
    for extent, before, block, wanted, groups in by_dim:
        part, count = division(extent + before, block, groups)
        tile = whole_blocks(wanted, block) if wanted else 0
        lengths.append(tile if tile and (general or tile < part) else part)
        parts.append(count)
    return lengths, parts


@lru_cache(64)
def _extents(problem: Problem) -> tuple[int, ...]:
    return tuple(map(problem.extent, problem.dims))


def _shared_bytes(problem: Problem, schedule: Schedule, parts: Sequence[int]) -> int:
    """Bytes of the partial results of a split reduction or scatter."""
    groups = math.prod([parts[d] for d in problem.contracted])
    results = math.prod([problem.extent(d) for d in problem.kept])
    cells = groups * results * CELL * len(problem.scalar.result_dtypes)
    if schedule.scatter:
        own = [schedule.registers[d] for d in problem.contracted]
        return cells * (1 if schedule.resident else math.prod(own))
    together = schedule.resident and problem.scanned >= 0
    return 0 if groups == 1 or schedule.cluster or together else whole_lines(cells)


@lru_cache(1024)
def _bytes_of_point(problem: Problem, stream: int) -> int:
    """Bytes per point of a staged tile: an element for each offset read."""
    return staged_dtype(problem, stream).itemsize * len(problem.places(stream))
