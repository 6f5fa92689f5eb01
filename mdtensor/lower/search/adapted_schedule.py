"""Adaptation of a schedule to other extents of the same structure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from mdtensor.errors import LoweringError
from mdtensor.lower.cpu.cost.cpu_cost import estimate
from mdtensor.lower.cpu.parallelism import CLEARLY, best_division
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import WINDOW
from mdtensor.lower.schedule.rules.scratch_rules import fits_scratch, within_scratch
from mdtensor.lower.schedule.rules.valid import OF_FORM, is_valid
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target


def adapted(
    problem: Problem, schedule: Schedule, extents: Sequence[int], target: Target
) -> Schedule | None:
    """A schedule for other `extents`, adapted to a problem; None where it cannot be.

    Register tiles, cache tiles and parts are no longer than the dims are, and windows that were
    written out as a whole still are. The groups are those of the schedule, unless the cost model
    expects clearly more of others. What rules forbid for these extents, such as stores past the
    caches, is left out. Only processors have such schedules.
    """
    if schedule.asm != target.kind or schedule.asm != "cpu" or len(extents) != len(problem.extents):
        return None
    try:
        fitted = clamped(problem, schedule, extents)
    except LoweringError:
        return None
    for each in _relaxed(fitted):
        if is_valid(problem, made := within_scratch(problem, each)):
            return _divided(problem, made, target)
    return None


def clamped(problem: Problem, schedule: Schedule, before: Sequence[int]) -> Schedule:
    """The schedule with tiles and parts clamped to the dims' extents.

    Raises LoweringError for a schedule that has another form.
    """
    for rule in OF_FORM:
        rule(problem, schedule)
    registers: list[int] = []
    tiles: list[int] = []
    parts: list[int] = []
    for d in problem.dims:
        extent, points = problem.extent(d), schedule.registers[d]
        if d == schedule.lane:
            points = min(points, -(-extent // schedule.width) * schedule.width)
        elif problem.reduced[d] and points == before[d] and extent <= WINDOW:
            points = extent
        else:
            points = min(points, extent)
        registers.append(points)
        tiles.append(schedule.tiles[d] if schedule.tiles[d] < extent else 0)
        parts.append(max(1, min(schedule.parts[d], -(-extent // points))))
    return replace(schedule, registers=tuple(registers), tiles=tuple(tiles), parts=tuple(parts))


def _relaxed(schedule: Schedule) -> Iterator[Schedule]:
    """The schedule, then with extent-dependent features removed one after the other."""
    yield schedule
    for field, neutral in (
        ("streaming", False),
        ("in_turn", False),
        ("tail", "split"),
        ("peel", False),
        ("transposed", False),
    ):
        if getattr(schedule, field) != neutral:
            schedule = replace(schedule, **{field: neutral})
            yield schedule


def _divided(problem: Problem, schedule: Schedule, target: Target) -> Schedule:
    """The schedule with its number of groups, or another if the cost model clearly prefers it."""
    splits = any(schedule.parts[d] > 1 for d in problem.contracted)
    seconds, _, other = best_division(
        problem, schedule, target, splits, partial(fits_scratch, problem)
    )
    better = seconds < CLEARLY * estimate(problem, schedule, target)
    return other if better and is_valid(problem, other) else schedule


def tiles_alike(one: Schedule, other: Schedule) -> bool:
    """Whether schedules differ only in the number of groups."""
    return replace(one, parts=other.parts, inline=other.inline) == other
