"""The division of a schedule's work among groups, and the choice of threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mdtensor.lower.cpu.cost.cpu_cost import estimate
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.work import bytes_moved
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

GROUPS_PER_CORE = 4
# Groups that are more than cores even out what else the machine does: fewer have to be better by
# this much.
CLEARLY = 0.93
# Seconds of work, as is expected, from which waking the device's other threads pays: of what was
# expected to take 20 to 28, one thread took 14 to 31, and two took 4 more (ADR 13).
WORTH_THREADS = 30e-6
# The cost of copying a byte to a staged tile, in bytes read in place.
COPIED = 16


def best_division(
    problem: Problem,
    schedule: Schedule,
    target: Target,
    split_reductions: bool,
    fits: Callable[[Schedule], bool],
    *,
    general: bool = False,
    serial: float | None = None,
) -> tuple[float, int, Schedule]:
    """The best number of groups for a schedule: estimated seconds, groups, the schedule.

    `serial` is the estimate in one part, where it is known. Several parts are those that `fits`
    lets pass: groups have memory of their own.
    """

    def among(groups: int) -> tuple[float, int, Schedule]:
        made = divided(problem, schedule, target, groups, split_reductions=split_reductions)
        return estimate(problem, made, target, general=general), groups, made

    whole = schedule
    if not schedule.inline or schedule.in_turn:
        whole = replace(schedule, inline=True, in_turn=False)
    seconds = estimate(problem, whole, target, general=general) if serial is None else serial
    if seconds < WORTH_THREADS or target.cores == 1:
        return seconds, 1, whole
    best = among(GROUPS_PER_CORE * target.cores)
    is_cut = schedule.lane >= 0 and best[2].parts[schedule.lane] > 1
    if best[0] < seconds and (is_cut or schedule.scatter):
        # Rows along the lanes are cut, or groups have copies: fewer and larger may be better.
        longer = among(target.cores)
        best = longer if longer[0] < CLEARLY * best[0] else best
    return best if best[0] < seconds and fits(best[2]) else (seconds, 1, whole)


def divided(
    problem: Problem, schedule: Schedule, target: Target, groups: int, *, split_reductions: bool
) -> Schedule:
    """The schedule divided among about `groups` groups."""
    extents = [problem.extent(d) for d in problem.dims]
    parts = parts_among(
        problem, schedule, target, groups, extents, split_reductions=split_reductions
    )
    shared = problem.scanned >= 0 and parts[problem.scanned] > 1
    in_turn = schedule.in_turn and shared
    return replace(schedule, parts=parts, inline=False, in_turn=in_turn)


def parts_among(
    problem: Problem,
    schedule: Schedule,
    target: Target,
    groups: int,
    extents: Sequence[int],
    *,
    split_reductions: bool,
) -> tuple[int, ...]:
    """Parts of the dims of a problem, or of a structure, for about `groups` groups.

    Parts go to kept dims first: where tiles are staged, to those whose parts read or copy least
    that others have, too; then to those with most blocks, the lane dim last; to reduced ones if
    that is allowed and cores are idle still.
    """
    blocks = {d: -(-extent // schedule.registers[d]) for d, extent in enumerate(extents)}
    parts = _parts(problem, schedule, extents, blocks, groups)
    if schedule.in_turn:
        groups = max(groups, -(-bytes_moved(problem) // target.l2_bytes))
    if split_reductions and math.prod(parts) < target.cores:
        longest = sorted(problem.contracted, key=lambda d: -blocks[d])
        for d in (problem.contracted if problem.keeps_order else longest)[:1]:
            parts[d] = max(1, min(groups, blocks[d]))
    return tuple(parts)


def _parts(
    problem: Problem,
    schedule: Schedule,
    extents: Sequence[int],
    blocks: Mapping[int, int],
    wanted: int,
) -> list[int]:
    """Parts of the kept dims, about `wanted` in all, as far as there are blocks."""
    parts = [1] * len(problem.extents)

    def preference(d: int) -> tuple[int, bool, int]:
        again = _read_again(problem, schedule, extents, d) if any(schedule.staged) else 0
        return again, d == schedule.lane, -blocks[d]

    kept = problem.kept
    if schedule.scatter:
        kept = tuple(d for d in kept if any(s.uses(d) for s in problem.streams))
    for d in sorted(kept, key=preference):
        missing = -(-wanted // math.prod(parts))
        if missing > 1:
            parts[d] = max(1, min(missing, blocks[d]))
    return parts


def _read_again(problem: Problem, schedule: Schedule, extents: Sequence[int], d: int) -> int:
    """Bytes that every part along a dim reads redundantly; staged ones cost a copy, too."""
    total = 0
    for stream, region in zip(problem.streams, schedule.staged, strict=True):
        if not stream.uses(d):
            elements = math.prod([n for e, n in enumerate(extents) if stream.uses(e)])
            itemsize = problem.inputs[stream.buffer].itemsize
            total += elements * itemsize * (COPIED if region else 1)
    return total
