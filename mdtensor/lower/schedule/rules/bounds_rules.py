"""Rules of schedules for data-dependent ranges."""

from __future__ import annotations

from mdtensor.errors import LoweringError
from mdtensor.lower.problem.data_bounds import dims_around
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule


def validate_bounds(problem: Problem, schedule: Schedule) -> None:
    """Check that points of a register tile share one data-dependent range, untiled and unstaged."""
    bounds = problem.bounds
    if bounds is None:
        return
    around = dims_around(problem)
    if schedule.resident or schedule.threads[bounds.dim] > 1:
        raise LoweringError("ranges that arrays tell are gone through by one work-item")
    if schedule.tiles[bounds.dim]:
        raise LoweringError("ranges that arrays tell have no tiles, of which most were empty")
    if schedule.lane in around or any(schedule.registers[d] > 1 for d in around):
        raise LoweringError("points of a register tile have one range that arrays tell")
    along = [stream.uses(bounds.dim) for stream in problem.streams]
    if any(region and uses for region, uses in zip(schedule.staged, along, strict=True)):
        raise LoweringError("what lies along ranges that arrays tell is not staged")
