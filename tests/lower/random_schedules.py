"""Random schedules: most of them valid, some broken on purpose."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scatter_pattern import selection_of
from mdtensor.lower.problem.simd_lanes import LONG, most_lanes
from mdtensor.lower.schedule.declaration import free_on
from mdtensor.lower.schedule.machine_model import asm_of
from mdtensor.lower.schedule.rules.row_stores import rows_across
from mdtensor.lower.schedule.rules.valid import is_valid
from mdtensor.lower.schedule.schedule import TAILS, Schedule

UNROLLED = 48  # computations in one register tile, which bounds what the compiler has to do
# The same where work-items combine their results: Intel's compiler crashes on kernels of some
# fifty barriers.
MEETINGS = 6
ITEMS = 64


def random_schedule(
    rng: random.Random,
    problem: Problem,
    family: str,
    unrolled: int = UNROLLED,
    lanes: Sequence[int] = (),
) -> Schedule:
    """A schedule of the family that fits the problem more often than not.

    Lanes run along one of `lanes`, if any are given.
    """
    asm = asm_of(family)
    count = len(problem.extents)
    lane, width = -1, 1
    if asm.vectors and count and (lanes or rng.random() < 0.75):
        lane, width = _lane(rng, problem, lanes)
    threads = _threads(rng, problem) if asm.cooperative else (1,) * count
    shared = any(threads[d] > 1 for d in problem.contracted)
    registers = _registers(rng, problem, lane, width, MEETINGS if shared else unrolled)
    staged = tuple(_region(rng, problem, n, asm.regions) for n in range(len(problem.streams)))
    tiles = [0] * count
    for d in problem.dims:
        if rng.random() < 0.35:
            tiles[d] = registers[d] * threads[d] * rng.choice((1, 1, 2, 3, 5))
            tiles[d] += rng.choice((0, 0, 0, 1))
    if {"local", "private"} & set(staged) and (problem.is_general or rng.random() < 0.5):
        blocks = [r * t for r, t in zip(registers, threads, strict=True)]
        tiles = [tile or 2 * block for tile, block in zip(tiles, blocks, strict=True)]
    peel = _may_peel(problem, lane) and rng.random() < 0.4
    streams = (peel or _may_stream(problem, lane, width)) and rng.random() < 0.6
    drawn = Schedule(
        asm=family,
        parts=_parts(rng, problem),
        tiles=tuple(tiles),
        threads=threads,
        registers=registers,
        lane=lane,
        width=width,
        group_order=_shuffled(rng, problem.dims),
        loop_order=_shuffled(rng, problem.kept),
        reduce_order=_shuffled(rng, problem.contracted),
        staged=staged,
        tail=rng.choice(TAILS),
        streaming=streams,
        inline=rng.random() < 0.3,
        peel=peel,
        ahead=rng.choice((0, 0, 1, 3, 16)) if asm.vectors else 0,
        in_turn=problem.scanned >= 0 and rng.random() < 0.5,
        **_free(rng, family),
    )
    fitting = _fitting(problem, drawn)
    selection = selection_of(problem)
    scatters = selection is not None and not problem.keeps_order and rng.random() < 0.6
    if selection and scatters:
        return _scattering(problem, fitting, selection.dim)
    return _transposed(rng, problem, replace(fitting, swath=rng.choice((0, 0, 2, 3))), unrolled)


def _free(rng: random.Random, family: str) -> dict[str, Any]:
    """Values of the parameters that are declared as free and are drawn nowhere else."""
    found = free_on(Schedule, family).items()
    return {n: rng.choice(each.tried) for n, each in found if n != "ahead" and not each.of_resident}


def _transposed(
    rng: random.Random, problem: Problem, schedule: Schedule, unrolled: int
) -> Schedule:
    """The schedule, most often with rows that are transposed where its lanes allow that."""
    lane = schedule.lane
    if lane < 0 or problem.reduced[lane] or problem.scanned >= 0 or schedule.peel:
        return schedule
    rows = rows_across(problem, lane)
    if not rows or rng.random() < 0.2:
        return schedule
    d, vectors = rng.choice(rows), schedule.registers[lane] // schedule.width
    others = math.prod(n for e, n in enumerate(schedule.registers) if e not in (d, lane)) * vectors
    longest = unrolled // len(problem.scalar.result_dtypes) // others
    counts = [n for n in (2, 3, 4, 6, 7, 8, 16) if n <= longest]
    if not counts:
        return schedule
    made = replace(
        schedule,
        registers=_with(schedule.registers, (d,), rng.choice(counts)),
        transposed=True,
        streaming=rng.random() < 0.5,
    )
    return made if is_valid(problem, made) else replace(made, streaming=False)


def _fitting(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule without what the rules of scans, of operators, of gathers and stores refuse."""
    schedule = replace(schedule, staged=_that_stage(problem, schedule.staged))
    if schedule.peel:
        schedule = _peeled(problem, schedule)
    if problem.scanned >= 0:
        schedule = _for_scan(problem, schedule)
    elif problem.keeps_order and problem.contracted:
        schedule = _in_order(problem, schedule)
    tiled = any(schedule.tiles[d] for d in problem.contracted)
    if tiled and not problem.accumulates_in_place and problem.scanned < 0:
        tiles = tuple(0 if problem.reduced[d] else t for d, t in enumerate(schedule.tiles))
        schedule = replace(schedule, tiles=tiles)
    streams = schedule.streaming and (schedule.peel or _can_stream(problem, schedule))
    return replace(schedule, streaming=streams)


def _may_peel(problem: Problem, lane: int) -> bool:
    writes = problem.writes
    kept = lane >= 0 and not problem.reduced[lane] and problem.scanned < 0
    return kept and len(writes) == 1 and writes[0].strides[lane].constant == 1


def _peeled(problem: Problem, schedule: Schedule) -> Schedule:
    """Rows of a register tile that begin differently are streamed, a known distance apart."""
    lane, width, registers = schedule.lane, schedule.width, list(schedule.registers)
    for d in problem.kept:
        stride = problem.writes[0].strides[d]
        joined = schedule.streaming and stride.constant is not None
        if d != lane and not joined and not _is_multiple(stride, width):
            registers[d] = 1
    return replace(
        schedule,
        registers=tuple(registers),
        parts=_with(schedule.parts, problem.contracted, 1),
        loop_order=(*(d for d in schedule.loop_order if d != lane), lane),
        staged=tuple(
            "" if stream.uses(lane) else region
            for stream, region in zip(problem.streams, schedule.staged, strict=True)
        ),
        tail="split",
    )


def _that_stage(problem: Problem, staged: tuple[str, ...]) -> tuple[str, ...]:
    computed = {read.stream for read in problem.all_reads if read.computed}
    return tuple(
        "" if n >= problem.finish_streams or n in computed else region
        for n, region in enumerate(staged)
    )


def _with(values: tuple[int, ...], dims: Collection[int], value: int) -> tuple[int, ...]:
    return tuple(value if d in dims else v for d, v in enumerate(values))


def _for_scan(problem: Problem, schedule: Schedule) -> Schedule:
    """Only groups and lanes share a scanned dim, and nothing is staged."""
    scanned = (problem.scanned,)
    parts = schedule.parts
    if schedule.lane == problem.scanned and problem.keeps_order:
        parts = _with(parts, scanned, 1)
    d = problem.scanned
    threads = _with(schedule.threads, scanned, 1)
    shared = not problem.is_general and parts[d] > 1 and problem.extent(d) > schedule.registers[d]
    return replace(
        schedule,
        parts=parts,
        tiles=_with(schedule.tiles, scanned, 0),
        threads=threads,
        staged=("",) * len(schedule.staged),
        in_turn=schedule.in_turn and shared and math.prod(threads) == 1,
    )


def _in_order(problem: Problem, schedule: Schedule) -> Schedule:
    """Elements that must be combined in order are taken one after the other."""
    dims = problem.contracted
    lane, width, registers = schedule.lane, schedule.width, schedule.registers
    if lane in dims:
        registers = _with(registers, (lane,), max(1, registers[lane] // width))
        lane, width = -1, 1
    return replace(
        schedule,
        parts=_with(schedule.parts, dims[1:], 1),
        tiles=_with(schedule.tiles, dims[1:], 0),
        threads=_with(schedule.threads, dims, 1),
        registers=_with(registers, dims[:-1], 1),
        lane=lane,
        width=width,
        reduce_order=dims,
    )


def _scattering(problem: Problem, schedule: Schedule, dim: int) -> Schedule:
    """What goes to computed places goes there one by one."""
    ones = (1,) * len(schedule.parts)
    return replace(
        schedule,
        parts=_with(schedule.parts, (dim,), 1),
        tiles=(0,) * len(ones),
        threads=ones,
        registers=_with(schedule.registers, problem.kept, 1),
        lane=-1,
        width=1,
        staged=("",) * len(schedule.staged),
        streaming=False,
        peel=False,
        ahead=0,
        scatter=True,
    )


def _can_stream(problem: Problem, schedule: Schedule) -> bool:
    lane, width = schedule.lane, schedule.width
    if lane < 0:
        return False
    extent = problem.extents[lane].constant
    ends_whole = schedule.tail != "overlap" or extent is None or extent % width == 0
    return ends_whole and all(
        write.strides[lane].constant == 1 and _is_multiple(write.offset, width)
        for write in problem.writes
    )


def _is_multiple(offset: Index | int, of: int) -> bool:
    constant = as_index(offset).constant
    return constant is not None and constant % of == 0


def _region(rng: random.Random, problem: Problem, stream: int, regions: tuple[str, ...]) -> str:
    offsets = {read.offset for read in problem.reads if read.stream == stream}
    likely = 0.35 if len(offsets) == 1 else 0.03
    return rng.choice(regions) if rng.random() < likely else ""


def _shuffled(rng: random.Random, dims: range | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(rng.sample(dims, len(dims)))


def _lane(rng: random.Random, problem: Problem, lanes: Sequence[int]) -> tuple[int, int]:
    nearest = [
        d
        for d in problem.dims
        if any(access.strides[d].constant == 1 for access in (*problem.streams, *problem.writes))
    ]
    lane = rng.choice(lanes or (nearest if nearest and rng.random() < 0.7 else problem.dims))
    return lane, rng.choice((2, 4, 8, 16, *((32, 32) if most_lanes(problem) == LONG else ())))


def _registers(
    rng: random.Random, problem: Problem, lane: int, width: int, unrolled: int
) -> tuple[int, ...]:
    registers = [1] * len(problem.extents)
    left = unrolled // len(problem.scalar.result_dtypes)
    if lane >= 0:
        vectors = rng.choice((1, 1, 2, 3))
        registers[lane] = vectors * width
        left //= vectors
    for d in _shuffled(rng, problem.dims):
        if d != lane:
            registers[d] = rng.choice([n for n in (1, 1, 2, 3, 4, 5, 6) if n <= max(1, left)])
            left //= registers[d]
    return tuple(registers)


def _threads(rng: random.Random, problem: Problem) -> tuple[int, ...]:
    threads = [1] * len(problem.extents)
    dims = rng.choice((problem.kept, problem.contracted))
    for d in dims:
        left = ITEMS // math.prod(threads)
        threads[d] = rng.choice([n for n in (1, 2, 3, 4, 5, 8, 16) if n <= left])
    return tuple(threads)


def _parts(rng: random.Random, problem: Problem) -> tuple[int, ...]:
    if problem.is_general:
        return tuple(rng.choice((0, 1)) for _ in problem.dims)
    return tuple(rng.choice((1, 1, 1, 2, 3, 4, 7, 1000)) for _ in problem.dims)


def _may_stream(problem: Problem, lane: int, width: int) -> bool:
    if lane < 0 or (problem.reduced[lane] and lane != problem.scanned):
        return False
    strides = [
        write.strides[d].constant
        for write in problem.writes
        for d in problem.result_dims
        if d != lane
    ]
    return all(stride is not None and stride % width == 0 for stride in strides)


def broken(rng: random.Random, schedule: Schedule) -> Schedule:
    """The schedule with one value that no kernel can have, or that few can."""
    longer = (*schedule.tiles, 1)
    wrong = rng.choice(
        (
            {"asm": "abacus"},
            {"parts": longer},
            {"tiles": longer},
            {"tiles": tuple(-1 for _ in schedule.tiles) or (-1,)},
            {"parts": tuple(-2 for _ in schedule.parts) or (-2,)},
            {"threads": longer},
            {"threads": tuple(2 for _ in schedule.threads) or (2,)},
            {"registers": longer},
            {"registers": tuple(0 for _ in schedule.registers) or (0,)},
            {"lane": len(schedule.parts)},
            {"lane": -2},
            {"lane": 0, "width": 3},
            {"lane": -1, "width": 4},
            {"lane": 0, "width": 1},
            {"group_order": (*schedule.group_order, 0)},
            {"loop_order": (*schedule.loop_order, 0)},
            {"reduce_order": (*schedule.reduce_order, 0)},
            {"staged": (*schedule.staged, "")},
            {"staged": tuple("attic" for _ in schedule.staged)},
            {"staged": tuple("private" for _ in schedule.staged)},
            {"staged": tuple("local" for _ in schedule.staged)},
            {"tail": "none"},
            {"streaming": True, "tail": "overlap"},
            {"peel": True, "tail": "overlap"},
            {"peel": True, "lane": -1, "width": 1},
            {"ahead": 65},
            {"ahead": -1},
        )
    )
    return replace(schedule, **wrong)
