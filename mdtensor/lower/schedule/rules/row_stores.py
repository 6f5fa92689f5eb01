"""Rules of storing rows of results: peeled, transposed, streaming."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from mdtensor.errors import LoweringError
from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import dims_in, params_in


def validate_peel(problem: Problem, schedule: Schedule) -> None:
    """Check loop peeling, which aligns the first row of a register tile."""
    if not schedule.peel:
        return
    lane, width = schedule.lane, schedule.width
    if lane < 0 or problem.reduced[lane] or problem.scanned >= 0:
        raise LoweringError("rows are peeled along lanes of a kept dim, and not in scans")
    if schedule.loop_order[-1] != lane or schedule.tail != "split":
        raise LoweringError("rows are peeled by the innermost loop, and their tails are split")
    if len(problem.writes) != 1 or problem.writes[0].strides[lane].constant != 1:
        raise LoweringError("rows are peeled where one result is written to neighbouring places")
    if schedule.splits(problem):
        raise LoweringError("rows of partial results are not peeled")
    known = all(stride.constant is not None for stride in problem.writes[0].strides)
    if unlike_rows(problem, schedule) and not (schedule.streaming and known):
        raise LoweringError(
            f"rows of a register tile lie a multiple of {width} apart, or are streamed and lie"
            " a known distance apart"
        )
    for stream, region in zip(problem.streams, schedule.staged, strict=True):
        if region and stream.uses(lane):
            raise LoweringError("tiles that are staged along the lanes have no peeled rows")


def unlike_rows(problem: Problem, schedule: Schedule) -> int:
    """The most rows of a register tile that may be aligned differently from the first."""
    lane, width, registers = schedule.lane, schedule.width, schedule.registers
    strides = problem.writes[0].strides
    if all(d == lane or registers[d] == 1 or is_multiple(strides[d], width) for d in problem.kept):
        return 0
    return math.prod(registers[d] for d in problem.kept if d != lane) - 1


def validate_transposed(problem: Problem, schedule: Schedule) -> None:
    """Check in-register transposes: rows are adjacent in memory, lanes are not."""
    if not schedule.transposed:
        return
    lane = schedule.lane
    if lane < 0 or problem.reduced[lane] or problem.scanned >= 0:
        raise LoweringError("tiles are transposed along lanes of a kept dim, and not in scans")
    if all(schedule.registers[d] == 1 for d in rows_across(problem, lane)):
        raise LoweringError("tiles are transposed whose rows are neighbours, but no lanes are")


def rows_across(problem: Problem, lane: int) -> tuple[int, ...]:
    """Kept dims along which results are contiguous, while they are strided along the lanes.

    None where a result is the same in all lanes, of which there is nothing to transpose: shuffles
    of elements that were loaded one by one crash LLVM 22 where it compiles in haste.
    """
    if not all(_vary_along(problem, lane)):
        return ()
    writes = [write for write in problem.writes if write.strides[lane].constant != 1]
    return tuple(
        d
        for d in problem.kept
        if d != lane and any(write.strides[d].constant == 1 for write in writes)
    )


@lru_cache(64)
def _vary_along(problem: Problem, dim: int) -> tuple[bool, ...]:
    """Whether each element of a written tuple may depend on a dim."""
    label = problem.labels[dim]

    def of(function: ScalarFunction, given: Sequence[bool]) -> list[bool]:
        return [
            label in dims_in(result) or any(given[n] for n in params_in(result))
            for result in function.results
        ]

    reads = [bool(read.computed) or dim in problem.used[read.stream] for read in problem.all_reads]
    first = len(problem.reads)
    varying = of(problem.scalar, reads[:first])
    if problem.operator is not None:
        varying = [any(varying)] * len(varying)
    finish = problem.finish
    return tuple(varying if finish is None else of(finish.function, [*varying, *reads[first:]]))


def validate_streaming(problem: Problem, schedule: Schedule) -> None:
    """Check streaming stores: whole vectors, each at an aligned address.

    With resident accumulators, only the wide stores bypass the caches.
    """
    if not schedule.streaming:
        return
    if schedule.resident:
        along = [all(w.strides[d].constant == 1 for w in problem.writes) for d in problem.kept]
        if not any(along):
            raise LoweringError("streaming stores need results next to each other along some dim")
        return
    lane, width = schedule.lane, schedule.width
    if lane < 0 or (problem.reduced[lane] and lane != problem.scanned):
        raise LoweringError("streaming stores need lanes along a dim of the result")
    for write in problem.writes:
        others = [stride for d, stride in enumerate(write.strides) if d != lane]
        if schedule.transposed and is_multiple(write.strides[lane], width):
            # Which columns are whole vectors that begin where they may, their store tells.
            others = []
        elif write.strides[lane].constant != 1:
            raise LoweringError("streaming stores need results next to each other along the lanes")
        steps = (as_index(write.offset), *others)
        if not schedule.peel and any(not is_multiple(step, width) for step in steps):
            raise LoweringError(
                f"streaming stores need strides and offsets of results in multiples of {width}"
            )
    extent = problem.extents[lane].constant
    if schedule.tail == "overlap" and extent is not None and extent % width:
        raise LoweringError("streaming stores cannot overlap their neighbours")


def is_multiple(stride: Index, of: int) -> bool:
    """Whether a distance is known to be a multiple of a number."""
    return stride.constant is not None and stride.constant % of == 0
