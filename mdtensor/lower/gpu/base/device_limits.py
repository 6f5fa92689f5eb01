"""Device limits of a GPU: work-items, registers, local memory, and groups that share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.wide_accesses import lanes_of
from mdtensor.lower.codegen.memory.cooperative_copy import MOST_PIECES
from mdtensor.lower.gpu.base.block_shapes import reduced_order
from mdtensor.lower.gpu.base.gpu_resources import (
    REGISTERS,
    LocalBytes,
    held_by,
    local_bytes,
    tile_elements,
)
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import DimTiling, tilings_of
from mdtensor.specs import Target

MOST_COMPUTATIONS = 2048  # in an unrolled register tile
MOST_PARTIALS = 1 << 26  # results of all parts of a reduction
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_PARTS_OF_CORE = (1, 2, 4, 8, 16, 32)


def part_counts(target: Target) -> tuple[int, ...]:
    """Candidate numbers of groups that share a reduced dim: round ones, multiples of the cores."""
    return tuple(sorted({*_PARTS, *(n * target.cores for n in _PARTS_OF_CORE)}))


def most_items(target: Target) -> int:
    """The most work-items of a group."""
    return min(1024, target.max_threads)


def can_stream(problem: Problem) -> bool:
    """Whether results are contiguous along some dim, so that stores can bypass caches."""
    along = (all(w.strides[d].constant == 1 for w in problem.writes) for d in problem.kept)
    return any(along)


def shared_dim(problem: Problem) -> int:
    """The reduced dim that work-items of a group may share; -1 where they cannot."""
    if not problem.contracted or problem.keeps_order or problem.scanned >= 0:
        return -1
    return reduced_order(problem)[-1]


def broken_limit(
    problem: Problem, schedule: Schedule, target: Target, local: LocalBytes = local_bytes
) -> str:
    """The device limit or rule that a schedule breaks; empty if it breaks none.

    `local` counts the bytes of local memory that schedules of its kind take.
    """
    problem = schedule.computed(problem)
    items, computations = math.prod(schedule.threads), math.prod(schedule.registers)
    try:
        registers, taken = held_by(problem, schedule, local)
    except LoweringError as error:
        return str(error)
    limits = (
        ("work_items", items, most_items(target)),
        ("registers", registers, REGISTERS),
        ("local_memory", taken, target.local_bytes),
        ("instructions", computations, MOST_COMPUTATIONS),
        ("copies_of_an_item", _pieces(problem, schedule), _most_pieces(schedule)),
    )
    for what, value, most in limits:
        if value > most:
            return f"fits_{what}: {value} of {most}"
    if schedule.results and not target.bulk_copies:
        return "sends_results: no bulk copies"
    if schedule.cluster and not target.clusters:
        return "has_clusters: no"
    for d in problem.dims:
        if schedule.threads[d] > 1 and schedule.block(d) >= 2 * problem.extent(d):
            return f"has_work: {schedule.block(d)} points for {problem.extent(d)}"
    try:
        validate(problem, schedule)
    except LoweringError as error:
        return str(error)
    return ""


def _pieces(problem: Problem, schedule: Schedule) -> int:
    """Accesses of a work-item to copy its share of a staged tile; elements, for matrices."""
    if schedule.bulk or schedule.march:
        return 0
    items = math.prod(schedule.threads)
    tilings = tilings_of(problem, schedule)
    most = 0
    for number, region in enumerate(schedule.staged):
        if region:
            elements = tile_elements(problem, schedule, tilings, number)
            lanes = 1 if schedule.tensor else _lanes_of_piece(problem, tilings, number)
            most = max(most, -(-elements // (items * lanes)))
    return most


def _lanes_of_piece(problem: Problem, tilings: Sequence[DimTiling], number: int) -> int:
    """Elements of a stream per copy access: several where all offsets are aligned to them."""
    stream = problem.streams[number]
    lanes = lanes_of(problem.inputs[stream.buffer])
    used = [d for d in problem.dims if stream.uses(d)]
    near = [d for d in used if stream.strides[d].constant == 1]
    if problem.is_general or stream.axes or len(near) != 1:
        return 1
    tiling = tilings[near[0]]
    inside = tiling.tile or tiling.part.constant if problem.reduced[near[0]] else tiling.block
    offsets = [as_index(read.offset).constant for read in problem.reads if read.stream == number]
    others = [stream.strides[d].constant for d in used if d != near[0]]
    multiples = (inside, tiling.block, tiling.extent.constant, *offsets, *others)
    return lanes if all(n is not None and n % lanes == 0 for n in multiples) else 1


def _most_pieces(schedule: Schedule) -> int:
    """The limit of `_pieces`; eightfold for matrices."""
    return MOST_PIECES * (8 if schedule.tensor else 1)
