"""Resource use of a schedule on a GPU: registers per work-item, local memory per group."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mdtensor.lower.codegen.base.source_layout import places_as_source
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scratch_memory import staged_dtype
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import DimTiling, tilings_of

REGISTERS = 255  # that a work-item can have
ADDRESSES = 40  # registers of a work-item for addresses and counters
ADDRESSES_BY_STEPS = 32  # the same, and for two rows, where rows take several steps together
WIDE = 4  # steps, and elements of a wide access
OPERANDS = 64  # registers for the operands of one stream, at most
# Elements beside a staged tile, so that all are aligned; how many times as long its rows may be.
BESIDE_TILE, LONGER_ROWS = 64, (5, 4)


LocalBytes = Callable[[Problem, Schedule], int]
_latest: tuple[Problem, Schedule, LocalBytes, int, int] | None = None


def local_bytes(problem: Problem, schedule: Schedule) -> int:
    """Bytes of local memory that a group's staged tiles and partial results take."""
    size = 0
    tilings = tilings_of(problem, schedule)
    for number, region in enumerate(schedule.staged):
        if region:
            padding = schedule.padding[number] if schedule.padding else 0
            if lies_as_source(schedule, number):
                elements = places_as_source(problem, tilings, number, padding)[1].constant or 1
            else:  # rows may be longer
                more, than = LONGER_ROWS
                elements = tile_elements(problem, schedule, tilings, number) * more // than
            elements += BESIDE_TILE
            itemsize = staged_dtype(problem, number, whole=bool(schedule.tensor)).itemsize
            size += elements * itemsize * max(1, schedule.stages)
    if any(schedule.threads[d] > 1 for d in problem.contracted):
        points = math.prod(schedule.registers[d] for d in problem.kept)
        held = sum(register_dtype(t).itemsize for t in problem.scalar.result_dtypes)
        size += points * math.prod(schedule.threads) * held
    if schedule.cluster:
        held = sum(register_dtype(t).itemsize for t in problem.scalar.result_dtypes)
        groups = math.prod(schedule.parts[d] for d in problem.contracted)
        size += held * groups * math.prod(schedule.block(d) for d in problem.kept)
    return size


def held_by(
    problem: Problem, schedule: Schedule, local: LocalBytes = local_bytes
) -> tuple[int, int]:
    """Registers per work-item and bytes of local memory per group; the last result is memoised."""
    global _latest
    latest = _latest
    known = latest is not None and latest[0] is problem and latest[1] is schedule
    if latest is not None and known and latest[2] is local:
        return latest[3], latest[4]
    registers, taken = registers_of(problem, schedule), local(problem, schedule)
    _latest = problem, schedule, local, registers, taken
    return registers, taken


def lies_as_source(schedule: Schedule, number: int) -> bool:
    """Whether a staged tile has its source's layout."""
    return bool(schedule.as_source) and schedule.as_source[number] and not schedule.tensor


def read_by_steps(problem: Problem, schedule: Schedule) -> int:
    """The staged stream of which one access reads several steps; -1 for none.

    Rows of points take these steps together (see `lower.codegen.memory.traversal`).
    """
    if not schedule.reduce_order or schedule.registers[schedule.reduce_order[-1]] % WIDE:
        return -1
    nearest, found, most = schedule.reduce_order[-1], -1, 1
    for n, stream in enumerate(problem.streams[: problem.finish_streams]):
        if lies_as_source(schedule, n) and stream.strides[nearest].constant == 1:
            rows = math.prod(schedule.registers[d] for d in problem.kept if stream.uses(d))
            found, most = (n, rows) if rows > most else (found, most)
    return found


def tile_elements(
    problem: Problem, schedule: Schedule, tilings: Sequence[DimTiling], number: int
) -> int:
    """Elements of a stream's staged tile."""
    if lies_as_source(schedule, number):
        return places_as_source(problem, tilings, number)[1].constant or 1
    elements = 1
    for d in problem.used[number]:
        tiling = tilings[d]
        if problem.reduced[d]:
            elements *= tiling.tile or tiling.part.constant or 1
        else:
            elements *= tiling.block
    return elements


def registers_of(problem: Problem, schedule: Schedule) -> int:
    """Estimated registers per work-item: accumulators, operands, addresses, the next tile."""
    words = sum(-(-t.itemsize // 4) for t in problem.scalar.result_dtypes)
    points = math.prod(schedule.registers[d] for d in problem.kept)
    tilings = tilings_of(problem, schedule)
    ahead = schedule.prefetch and any(tilings[d].tile for d in problem.contracted)
    operands = 0
    by_steps = read_by_steps(problem, schedule)
    if by_steps >= 0:
        own = (schedule.registers[d] for d in problem.kept if problem.streams[by_steps].uses(d))
        return points * words + WIDE * points // math.prod(own) + ADDRESSES_BY_STEPS
    for n, stream in enumerate(problem.streams[: problem.finish_streams]):
        kept = [d for d in problem.kept if stream.uses(d)]
        own = math.prod(schedule.registers[d] for d in kept)
        if schedule.staged[n] and not kept:
            own = max(
                (min(WIDE, chunk_of(schedule, d)) for d in schedule.reduce_order[-1:]), default=1
            )
        if not schedule.staged[n]:
            own *= math.prod(schedule.registers[d] for d in problem.contracted if stream.uses(d))
        operands += min(own, OPERANDS)
        waits = schedule.stages > 1 and not (schedule.padding and schedule.padding[n])
        if schedule.staged[n] and ahead and not waits:
            own = tile_elements(problem, schedule, tilings, n)
            own *= problem.inputs[stream.buffer].itemsize
            operands += own // (4 * math.prod(schedule.threads))
    return points * words + operands + ADDRESSES


def chunk_of(schedule: Schedule, d: int) -> int:
    """Adjacent points of a work-item along a dim."""
    return schedule.chunks[d] if schedule.chunks else schedule.registers[d]
