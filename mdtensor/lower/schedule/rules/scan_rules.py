"""Rules of prefix sums: the sharing of a scanned dim among work-items and groups."""

from __future__ import annotations

from mdtensor.errors import LoweringError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.schedule import Schedule


def validate_scan(problem: Problem, schedule: Schedule) -> None:
    """Check a scan: one work-item along the scanned dim, or resident ones that exchange totals."""
    if problem.scanned < 0:
        return
    d = problem.scanned
    if any(schedule.staged):
        raise LoweringError("a scan reads its inputs as they come and stages none")
    if schedule.resident:
        _validate_scan_together(problem, schedule)
        return
    if schedule.tiles[d] or schedule.threads[d] > 1:
        raise LoweringError("a scanned dim has no tiles, and work-items do not share it")
    if schedule.lane == d and problem.keeps_order and schedule.splits(problem):
        raise LoweringError("lanes would change the order in the totals of groups")


def validate_in_turn(problem: Problem, schedule: Schedule) -> None:
    """Check a chained scan: its groups are of one work-item, and their number is known."""
    if not schedule.in_turn:
        return
    if problem.scanned < 0 or problem.is_general or not schedule.splits(problem):
        raise LoweringError("groups take turns where they share a scanned dim of a known extent")
    if schedule.resident or any(threads > 1 for threads in schedule.threads):
        raise LoweringError("groups that take turns have one work-item")


def _validate_scan_together(problem: Problem, schedule: Schedule) -> None:
    """Check a cooperative scan: groups that share it have one block and one kept point each."""
    d = problem.scanned
    if any(schedule.lead) or schedule.warp or schedule.swath > 1 or schedule.last_group:
        raise LoweringError("a scan has no lead, no warps of its own shape and no swaths")
    if not schedule.splits(problem):
        return
    if problem.is_general or problem.extent(d) > schedule.parts[d] * schedule.block(d):
        raise LoweringError("groups that share a scanned dim have a block of a known extent each")
    if any(schedule.block(e) > 1 or schedule.parts[e] < problem.extent(e) for e in problem.kept):
        raise LoweringError("groups that share a scanned dim have one point of the others each")
    if schedule.threads[d] % WARP or schedule.group_order[-1] != d:
        raise LoweringError("groups that share a scanned dim have whole warps along it")
