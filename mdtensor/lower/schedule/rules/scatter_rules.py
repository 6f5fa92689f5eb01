"""Rules of schedules that scatter."""

from __future__ import annotations

from mdtensor.errors import LoweringError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scatter_pattern import selected
from mdtensor.lower.schedule.schedule import Schedule


def validate_scatter(problem: Problem, schedule: Schedule) -> None:
    """Check a scatter: element by element, without lanes, tiles or staging."""
    if not schedule.scatter:
        return
    selection = selected(problem)
    if problem.keeps_order:
        raise LoweringError("scattering would change the order of an operator")
    if schedule.lane >= 0 or any(schedule.tiles) or any(schedule.staged) or schedule.ahead:
        raise LoweringError("scattering has no lanes, no tiles, stages and asks ahead for nothing")
    if schedule.resident:
        _validate_scatter_together(problem, schedule, selection.dim)
    elif any(threads > 1 for threads in schedule.threads):
        raise LoweringError("work-items that share what is scattered are resident")
    if schedule.parts[selection.dim] != 1 or any(schedule.registers[d] > 1 for d in problem.kept):
        raise LoweringError("kept dims have no register tiles where results are scattered")


def _validate_scatter_together(problem: Problem, schedule: Schedule, dim: int) -> None:
    """Check a cooperative scatter: work-items share a local copy by atomic operations."""
    if problem.is_general or schedule.last_group or schedule.warp or any(schedule.lead):
        raise LoweringError("what is scattered in local memory has fixed extents, no warps or lead")
    others = [d for d in problem.kept if d != dim]
    if any(schedule.threads[d] > 1 for d in problem.kept):
        raise LoweringError("work-items share out reduced dims where results are scattered")
    if any(schedule.parts[d] < problem.extent(d) for d in others):
        raise LoweringError("a group scatters along one dim, and has one point of the others")
