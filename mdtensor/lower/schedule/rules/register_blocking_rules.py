"""Rules of resident schedules, which keep accumulators or shared elements in registers."""

from __future__ import annotations

import math

from mdtensor.errors import LoweringError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.machine_model import asm_of
from mdtensor.lower.schedule.schedule import MOST_OF_CLUSTER, Schedule


def validate_resident(problem: Problem, schedule: Schedule) -> None:
    """Check the parameters of a resident schedule: chunks, warps, leads, streaming."""
    if not schedule.resident:
        return
    if not asm_of(schedule.asm).cooperative:
        raise LoweringError(f"{schedule.asm} keeps no accumulators over tiles")
    if any(r % c for r, c in zip(schedule.registers, schedule.chunks, strict=False)):
        raise LoweringError("a register tile is a whole number of chunks")
    if any(t % w for t, w in zip(schedule.threads, schedule.warp, strict=False)):
        raise LoweringError("the work-items of a dim are a whole number of warps")
    if schedule.warp and any(schedule.threads[d] > 1 for d in problem.contracted):
        raise LoweringError("work-items that share a reduction are numbered row by row")
    tiled = [d for d in problem.contracted if schedule.tiles[d]]
    if any(schedule.lead) and (problem.contracted or any(schedule.staged) or problem.is_general):
        raise LoweringError("lead needs fixed extents, no reduction, and stages nothing")
    if schedule.march:
        _validate_march(problem, schedule)
    if schedule.cluster:
        _validate_cluster(problem, schedule)
    if schedule.bulk and not schedule.tensor:
        raise LoweringError("bulk copies bring matrices, which schedule.tensor tells the dims of")
    if schedule.stages > 1 and not schedule.march:
        if not tiled or not any(schedule.staged):
            raise LoweringError("stages need staged inputs and tiles of a reduced dim")
        return
    if schedule.prefetch and (len(tiled) != 1 or not any(schedule.staged)):
        raise LoweringError("prefetch needs staged inputs and tiles of one reduced dim")


def _validate_cluster(problem: Problem, schedule: Schedule) -> None:
    """Check a cluster: few groups share a reduction, with one block of the kept dims each."""
    if problem.is_general or schedule.bulk or schedule.last_group or problem.scanned >= 0:
        raise LoweringError(
            "clusters need fixed extents, no scan, no bulk copies and no last group"
        )
    if math.prod(schedule.parts[d] for d in problem.contracted) > MOST_OF_CLUSTER:
        raise LoweringError(f"a cluster has {MOST_OF_CLUSTER} groups at most")
    if any(_blocks_of_part(problem, schedule, d) > 1 for d in problem.kept):
        raise LoweringError("a group of a cluster has one block of the kept dims")


def _validate_march(problem: Problem, schedule: Schedule) -> None:
    """Check a schedule that streams: through whole blocks, along a dim without reduction."""
    if problem.is_general or problem.contracted:
        raise LoweringError("groups march along fixed extents, without a reduction")
    walked = [d for d in schedule.group_order if _blocks_of_part(problem, schedule, d) > 1]
    if not walked:
        raise LoweringError("a group that marches has several blocks along a dim")
    d = walked[-1]
    if schedule.threads[d] > 1:
        raise LoweringError("a group marches along a dim by blocks of one work-item")
    if schedule.lead and schedule.lead[d]:
        raise LoweringError("a group begins to march where its dim begins")
    if any(schedule.staged):
        _validate_ahead(schedule, d)
    elif schedule.stages > 1:
        raise LoweringError("stages need staged inputs")


def _validate_ahead(schedule: Schedule, d: int) -> None:
    """Check prefetched planes: one at a time, of all streams."""
    if schedule.stages < 2 or schedule.registers[d] > 1:
        raise LoweringError("groups march through staged planes one by one, in stages")
    if not all(schedule.staged):
        raise LoweringError("groups march through staged planes of all streams, or of none")
    if schedule.padding or schedule.as_source or schedule.prefetch:
        raise LoweringError("staged planes lie as their sources do")
    if schedule.results and (math.prod(schedule.threads) == 1 or schedule.streaming):
        raise LoweringError("several work-items send results away, which bypass no caches")


def _blocks_of_part(problem: Problem, schedule: Schedule, d: int) -> int:
    """The number of blocks along a dim in a group's part."""
    lead = schedule.lead[d] if schedule.lead else 0
    blocks = -(-(problem.extent(d) + lead) // schedule.block(d))
    return -(-blocks // max(1, schedule.parts[d]))
