"""Validity of schedules: the rules that every kernel needs.

These are the constraints of the formalism (002, appendix .5.1) that depend on no device.
"""

from __future__ import annotations

import math

from mdtensor.errors import LoweringError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.simd_lanes import most_lanes
from mdtensor.lower.schedule.declaration import changed
from mdtensor.lower.schedule.machine_model import asm_of
from mdtensor.lower.schedule.rules.bounds_rules import validate_bounds
from mdtensor.lower.schedule.rules.register_blocking_rules import validate_resident
from mdtensor.lower.schedule.rules.row_stores import (
    validate_peel,
    validate_streaming,
    validate_transposed,
)
from mdtensor.lower.schedule.rules.scan_rules import validate_in_turn, validate_scan
from mdtensor.lower.schedule.rules.scatter_rules import validate_scatter
from mdtensor.lower.schedule.rules.scratch_rules import validate_scratch
from mdtensor.lower.schedule.schedule import MOST_POINTS, MOST_VECTORS, Schedule


def validate(problem: Problem, schedule: Schedule) -> None:
    """Check a schedule by all rules; LoweringError names the broken one."""
    problem = schedule.computed(problem)
    for rule in RULES:
        rule(problem, schedule)


def is_valid(problem: Problem, schedule: Schedule) -> bool:
    """Whether `validate` accepts the schedule."""
    try:
        validate(problem, schedule)
    except LoweringError:
        return False
    return True


def validate_form(problem: Problem, schedule: Schedule) -> None:
    """Check that every field has the right number of entries and valid values."""
    asm_of(schedule.asm)
    count = len(problem.extents)
    for field in ("parts", "tiles", "threads", "registers"):
        if len(getattr(schedule, field)) != count:
            raise LoweringError(f"schedule.{field} needs one entry for each of {count} dims")
    if sorted(schedule.group_order) != list(problem.dims):
        raise LoweringError("schedule.group_order is no permutation of the dims")
    if sorted(schedule.loop_order) != list(problem.kept):
        raise LoweringError("schedule.loop_order is no permutation of the kept dims")
    if sorted(schedule.reduce_order) != list(problem.contracted):
        raise LoweringError("schedule.reduce_order is no permutation of the reduced dims")
    if len(schedule.staged) != len(problem.streams):
        raise LoweringError("schedule.staged needs one entry per stream")
    if any(v < 1 for v in (*schedule.registers, *schedule.threads, schedule.width)):
        raise LoweringError("registers, threads and width are at least 1")
    if asm_of(schedule.asm).vectors:
        if math.prod(schedule.registers) > MOST_VECTORS * schedule.width:
            raise LoweringError(f"a register tile has at most {MOST_VECTORS} vectors")
    elif math.prod(schedule.registers) > MOST_POINTS:
        raise LoweringError(f"a register tile has at most {MOST_POINTS} points")
    if any(v < 0 for v in (*schedule.parts, *schedule.tiles)):
        raise LoweringError("parts and tiles are at least 0")


def validate_declared(problem: Problem, schedule: Schedule) -> None:
    """Check declared parameters: values in range, and supported by device and schedule."""
    counts = {"dims": len(problem.extents), "streams": len(problem.streams)}
    for name, declared, value in changed(schedule):
        if fault := declared.fault(name, value, counts):
            raise LoweringError(fault)
        if declared.devices and schedule.asm not in declared.devices:
            raise LoweringError(f"{schedule.asm} has no schedule.{name}")
        if declared.of_resident and not schedule.resident and value:
            raise LoweringError(f"schedule.{name} goes with resident accumulators only")


def validate_lanes(problem: Problem, schedule: Schedule) -> None:
    """Check lanes: along a dim of a device with vectors, in whole vectors."""
    lane = schedule.lane
    if not -1 <= lane < len(problem.extents):
        raise LoweringError(f"schedule.lane is {lane}, which is no dim")
    if lane < 0:
        if schedule.width != 1:
            raise LoweringError("a width without a lane dim")
        return
    if not asm_of(schedule.asm).vectors:
        raise LoweringError(f"{schedule.asm} has no lanes")
    if schedule.width not in (2, 4, 8, 16, 32) or schedule.width > most_lanes(problem):
        raise LoweringError(f"no vectors of {schedule.width} lanes")
    if schedule.registers[lane] % schedule.width:
        raise LoweringError("the lane dim's register tile is no multiple of the width")


def validate_staging(problem: Problem, schedule: Schedule) -> None:
    """Check staging: in regions of the device, of streams that can be staged."""
    regions = asm_of(schedule.asm).regions
    for stream, region in enumerate(schedule.staged):
        if region and region not in regions:
            raise LoweringError(f"{schedule.asm} has no memory region {region!r} to stage in")
        if not region or schedule.march:
            continue
        if stream >= problem.finish_streams or not problem.places(stream):
            raise LoweringError("only streams whose places are not computed can be staged")
        by_places = asm_of(schedule.asm).vectors and not schedule.resident
        if not by_places and not problem.is_plain(stream):
            raise LoweringError("only streams that are read once a point can be staged")


def validate_work_items(problem: Problem, schedule: Schedule) -> None:
    """Check that groups have several work-items only on cooperative devices."""
    threaded = {d for d in problem.dims if schedule.threads[d] > 1}
    if threaded and not asm_of(schedule.asm).cooperative:
        raise LoweringError(f"groups of {schedule.asm} have one work-item")
    if schedule.resident:
        return
    if threaded & set(problem.kept) and threaded & set(problem.contracted):
        raise LoweringError("work-items share out either kept dims or reduced dims")


def validate_order(problem: Problem, schedule: Schedule) -> None:
    """Check that operators that keep order combine elements in the order of the dims."""
    dims = problem.contracted
    if problem.scanned >= 0 or not dims or not problem.keeps_order:
        return
    kept_in_order = (
        schedule.lane not in dims,
        all(schedule.threads[d] == 1 for d in dims),
        schedule.reduce_order == dims,
        all(schedule.registers[d] == 1 for d in dims[:-1]),
        all(schedule.tiles[d] == 0 and schedule.parts[d] == 1 for d in dims[1:]),
    )
    for what, holds in zip(
        ("lanes", "work-items", "reduce_order", "registers", "tiles"), kept_in_order, strict=True
    ):
        if not holds:
            raise LoweringError(
                f"{what} would change the order of an operator that does not commute"
            )


def validate_accumulation(problem: Problem, schedule: Schedule) -> None:
    """Check that tiled reductions accumulate in outputs of the results' types."""
    if schedule.resident:
        return
    tiled = any(schedule.tiles[d] for d in problem.contracted)
    if tiled and not problem.accumulates_in_place and not schedule.splits(problem):
        raise LoweringError(
            "tiles of a reduced dim accumulate in the outputs, which need the types of"
            f" {[str(dtype) for dtype in problem.scalar.result_dtypes]}"
        )


# Form comes first: what follows relies on it. Each lets pass what it does not concern.
OF_FORM = (validate_form, validate_declared, validate_lanes)
RULES = (
    *(*OF_FORM, validate_staging, validate_work_items, validate_bounds),
    *(validate_resident, validate_scatter, validate_in_turn, validate_scan, validate_order),
    *(validate_peel, validate_transposed, validate_streaming),
    *(validate_accumulation, validate_scratch),
)
