"""Schedules worth considering on a GPU, and a rough estimate of their time.

Kept dims fall into two sides: the columns, which the stream that lies along the results walks
through, and the rows, whose points share its elements. No shape of computation has a candidate of
its own: sides, chunks and staging follow from the strides of the accesses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mdtensor.errors import LoweringError
from mdtensor.lower.nest import register_dtype
from mdtensor.lower.problem import Problem
from mdtensor.lower.schedule import Schedule, validate
from mdtensor.lower.tiling import tilings_of
from mdtensor.specs import Target

REGISTERS = 255  # that a work-item can have
REGISTER_FILE = 65536
THREADS_OF_CORE = 2048
_LOCAL_BYTES = 47 << 10
# Points of rows and columns per work-item, work-items along each, elements of a reduction tile.
_ROWS_COLUMNS = ((16, 8), (8, 8), (8, 4), (4, 4), (2, 4), (1, 4), (4, 8), (16, 4), (1, 1))
_ITEMS = (
    *((8, 16), (16, 8), (8, 8), (4, 8), (1, 32), (2, 32), (1, 64), (1, 128), (4, 32), (8, 32)),
    *((1, 1), (2, 1), (1, 2), (1, 4), (4, 1), (1, 8), (8, 1), (1, 16)),
)
_MOST_ITEMS = 512
_DEPTHS = (8, 16, 32)
_SHARING = (1, 4, 8, 32, 128, 256)
_SPLITS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Sides:
    """Dims of the columns and of the rows, those first whose neighbours lie nearest."""

    columns: tuple[int, ...]
    rows: tuple[int, ...]


def sides_of(problem: Problem) -> Sides:
    """The kept dims in two sides."""

    def distance(d: int) -> tuple[int, int]:
        strides = [write.strides[d].constant for write in problem.writes]
        return min(1 << 62 if s is None else abs(s) for s in strides), d

    kept = tuple(sorted(problem.kept, key=distance))
    if not kept:
        return Sides((), ())
    along = [s for s in problem.streams[: problem.finish_streams] if s.uses(kept[0])]
    columns = tuple(d for d in kept if all(s.uses(d) for s in along))
    shared = tuple(
        d
        for d in columns
        if d == kept[0] or not all(s.uses(d) for s in problem.streams[: problem.finish_streams])
    )
    return Sides(shared, tuple(d for d in kept if d not in columns))


def gpu_candidates(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Valid schedules whose accumulators stay in registers; none without a reduction."""
    if not problem.contracted or problem.scanned >= 0:
        return
    seen: set[Schedule] = set()
    choices = itertools.product(_ROWS_COLUMNS, _ITEMS, _DEPTHS, _SHARING)
    for (rows, columns), (row_items, column_items), depth, sharing in choices:
        if sharing > 1 and problem.keeps_order:
            continue
        schedule = blocked(problem, (rows, columns), (row_items, column_items), depth, sharing)
        if not 32 <= math.prod(schedule.threads) <= _MOST_ITEMS:
            continue
        for spread in _split(problem, schedule, target):
            if spread not in seen and fits(problem, spread, target):
                seen.add(spread)
                yield spread


def blocked(
    problem: Problem,
    points: tuple[int, int],
    items: tuple[int, int],
    depth: int,
    sharing: int = 1,
) -> Schedule:
    """A schedule from points per work-item and work-items, both by rows and columns.

    `depth` is the extent of a tile of the reduced dim that lies nearest, or what each of `sharing`
    work-items takes of it at once.
    """
    count = len(problem.extents)
    sides = sides_of(problem)
    registers, chunks, threads, warp = [1] * count, [1] * count, [1] * count, [1] * count
    for dims, number, among in zip((sides.rows, sides.columns), points, items, strict=True):
        _share_out(problem, dims, number, among, registers, threads)
    nearest = _nearest_reduced(problem)
    for d in problem.dims:
        chunks[d] = next(n for n in (4, 2, 1) if registers[d] % n == 0)
    tiles = [0] * count
    threads[nearest] = sharing
    if sharing > 1:
        registers[nearest] = depth
        chunks[nearest] = min(4, depth)
    else:
        registers[nearest] = 8
        chunks[nearest] = 8
        tiles[nearest] = depth
        for d in problem.contracted:
            tiles[d] = tiles[d] or 1
    staged = tuple(
        "local" if sharing == 1 and _is_shared(problem, n, threads) else ""
        for n in range(len(problem.streams))
    )
    if not any(staged):
        tiles = [0] * count
    reduce_order = _reduce_order(problem, nearest)
    kept = (*reversed(sides.rows), *reversed(sides.columns))
    kept = (*(d for d in problem.kept if d not in kept), *kept)
    along = any(s.strides[nearest].constant == 1 for s in problem.streams)
    order = (*kept, *reduce_order) if along or sharing == 1 else (*reduce_order, *kept)
    if sharing == 1:
        warp = _warp(threads, kept)
    parts = [1] * count
    for d in problem.kept:
        parts[d] = -(-problem.extent(d) // (registers[d] * threads[d]))
    tiled = [d for d in problem.contracted if tiles[d]]
    return Schedule(
        asm="gpu",
        parts=tuple(parts),
        tiles=tuple(tiles),
        threads=tuple(threads),
        registers=tuple(registers),
        lane=-1,
        width=1,
        group_order=order,
        loop_order=kept,
        reduce_order=reduce_order,
        staged=staged,
        resident=True,
        chunks=tuple(chunks),
        warp=tuple(warp) if sharing == 1 else (),
        padding=tuple(4 if _turns(problem, n, chunks) else 0 for n in range(len(staged))),
        prefetch=len(tiled) == 1 and any(staged),
    )


def _share_out(
    problem: Problem,
    dims: Sequence[int],
    number: int,
    among: int,
    registers: list[int],
    threads: list[int],
) -> None:
    """Gives the dims of a side their points and work-items, the nearest first."""
    for d in dims:
        extent = problem.extent(d)
        registers[d] = min(number, 1 << (extent.bit_length() - 1))
        number = max(1, number // registers[d])
        blocks = -(-extent // registers[d])
        threads[d] = min(among, blocks)
        whole = [n for n in range(threads[d], 0, -1) if extent % (registers[d] * n) == 0]
        if whole and 4 * whole[0] >= 3 * threads[d]:
            threads[d] = whole[0]
        among = max(1, among // threads[d])


def _nearest_reduced(problem: Problem) -> int:
    """The reduced dim whose elements lie nearest; the last where the order counts."""
    if problem.keeps_order:
        return problem.contracted[-1]

    def distance(d: int) -> tuple[int, int]:
        strides = [s.strides[d].constant for s in problem.streams if s.uses(d)]
        return min((1 << 62 if s is None else abs(s) for s in strides), default=0), -(
            problem.extent(d)
        )

    return min(problem.contracted, key=distance)


def _reduce_order(problem: Problem, nearest: int) -> tuple[int, ...]:
    if problem.keeps_order:
        return problem.contracted
    return (*(d for d in problem.contracted if d != nearest), nearest)


def _is_shared(problem: Problem, number: int, threads: Sequence[int]) -> bool:
    """Whether work-items of a group read the same elements of a stream that can be staged."""
    if number >= problem.finish_streams or not problem.is_plain(number):
        return False
    stream = problem.streams[number]
    return any(threads[d] > 1 and not stream.uses(d) for d in problem.kept)


def _turns(problem: Problem, number: int, chunks: Sequence[int]) -> bool:
    """Whether the elements that lie nearest in a stream are not those read together."""
    stream = problem.streams[number]
    used = [d for d in problem.dims if stream.uses(d)]
    nearest = min(used, key=lambda d: abs(stream.strides[d].constant or 1 << 62), default=-1)
    return nearest >= 0 and problem.reduced[nearest]


def _warp(threads: Sequence[int], kept: Sequence[int]) -> list[int]:
    """The work-items of a warp along each dim, as near to a square as can be."""
    warp = [1] * len(threads)
    while math.prod(warp) < 32:
        grown = [d for d in kept if threads[d] % (2 * warp[d]) == 0]
        if not grown:
            return list(threads)
        warp[min(reversed(grown), key=lambda d: warp[d])] *= 2
    return warp


def _split(problem: Problem, schedule: Schedule, target: Target) -> Iterator[Schedule]:
    """The schedule, and with its longest reduced dim in parts where groups are few."""
    yield schedule
    groups = math.prod(schedule.parts[d] for d in problem.kept)
    longest = max(problem.contracted, key=problem.extent)
    if problem.keeps_order:
        longest = problem.contracted[0]
    block = schedule.registers[longest] * schedule.threads[longest]
    for count in (*_SPLITS[1:], 8 * target.cores):
        if groups * count <= 16 * target.cores and problem.extent(longest) >= 2 * count * block:
            yield replace(
                schedule,
                parts=tuple(count if d == longest else p for d, p in enumerate(schedule.parts)),
            )


def local_bytes(problem: Problem, schedule: Schedule) -> int:
    """Bytes of local memory that a group's staged tiles and partial results take."""
    size = 0
    tilings = tilings_of(problem, schedule)
    for number, region in enumerate(schedule.staged):
        if region:
            stream = problem.streams[number]
            elements = 1
            for d in problem.dims:
                if stream.uses(d):
                    length = tilings[d].tile or tilings[d].part.constant or 1
                    elements *= length if problem.reduced[d] else tilings[d].block
            size += (elements * 5 // 4 + 64) * problem.inputs[stream.buffer].itemsize
    if any(schedule.threads[d] > 1 for d in problem.contracted):
        points = math.prod(schedule.registers[d] for d in problem.kept)
        held = sum(register_dtype(t).itemsize for t in problem.scalar.result_dtypes)
        size += points * math.prod(schedule.threads) * held
    return size


def registers_of(problem: Problem, schedule: Schedule) -> int:
    """Registers that a work-item needs, about: accumulators, operands, addresses."""
    words = sum(-(-t.itemsize // 4) for t in problem.scalar.result_dtypes)
    points = math.prod(schedule.registers[d] for d in problem.kept)
    operands = 0
    for n, stream in enumerate(problem.streams[: problem.finish_streams]):
        own = math.prod(schedule.registers[d] for d in problem.kept if stream.uses(d))
        if not schedule.staged[n]:
            own *= math.prod(schedule.registers[d] for d in problem.contracted if stream.uses(d))
        operands += min(own, 64)
    return points * words + operands + 32


def fits(problem: Problem, schedule: Schedule, target: Target) -> bool:
    """Whether a device can run a schedule: registers, local memory, work-items; and the rules."""
    items = math.prod(schedule.threads)
    if items > min(1024, target.max_threads) or registers_of(problem, schedule) > REGISTERS:
        return False
    if local_bytes(problem, schedule) > min(_LOCAL_BYTES, target.local_bytes):
        return False
    body = math.prod(schedule.registers)
    if body > 2048:
        return False
    try:
        validate(problem, schedule)
    except LoweringError:
        return False
    return True


def gpu_estimate(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Seconds that a schedule with resident accumulators takes, roughly."""
    tilings = tilings_of(problem, schedule)
    items = math.prod(schedule.threads)
    warps = -(-items // 32)
    groups = math.prod(t.parts.constant or 1 for t in tilings)
    per_core = max(
        1,
        min(
            REGISTER_FILE // max(1, registers_of(problem, schedule) * warps * 32),
            THREADS_OF_CORE // (warps * 32),
            target.l1_bytes // max(1, local_bytes(problem, schedule) + 1024),
            32,
        ),
    )
    busy = min(per_core, -(-groups // target.cores))
    points = math.prod(schedule.registers[d] for d in problem.kept)
    steps = math.prod(t.part.constant or 1 for d, t in enumerate(tilings) if problem.reduced[d])
    steps /= math.prod(schedule.threads[d] for d in problem.contracted)
    arithmetic = points * warps / 4
    reads, lines = _reads(problem, schedule, items)
    step = max(arithmetic, reads * warps)
    # Few warps wait for their loads: so many steps are under way at a time.
    hidden = min(1.0, busy * warps * max(1, points) / (4 * 32))
    cycles = steps * step / max(0.05, hidden)
    hertz = target.rate / 128
    rounds = -(-groups // (target.cores * busy))
    seconds = rounds * busy * cycles / hertz
    ahead = busy * min(target.cores, groups) * items * min(64, 8 * lines)
    bandwidth = min(target.bandwidth, ahead * 16 / 1e-6)
    seconds = max(seconds, _moved(problem, schedule, groups) / bandwidth)
    split = any(schedule.parts[d] > 1 for d in problem.contracted)
    return seconds + target.launch_seconds * (2 if split else 1) + groups * 2e-9


def _reads(problem: Problem, schedule: Schedule, items: int) -> tuple[float, float]:
    """Cycles of a warp's reads of all operands in one step, and wide loads under way per item."""
    cycles = direct = 0.0
    for n, stream in enumerate(problem.streams[: problem.finish_streams]):
        own = math.prod(schedule.registers[d] for d in problem.kept if stream.uses(d))
        if schedule.staged[n]:
            wide = any(stream.uses(d) and schedule.chunks[d] >= 4 for d in problem.kept)
            cycles += own / (4 if wide else 1) * 1.5
            continue
        wide = any(
            stream.strides[d].constant == 1 and schedule.chunks[d] >= 4 for d in problem.dims
        )
        unrolled = math.prod(schedule.registers[d] for d in problem.contracted if stream.uses(d))
        direct += own * unrolled / (4 if wide else 1)
        scattered = any(
            schedule.threads[d] > 1 and abs(stream.strides[d].constant or 0) > 1
            for d in schedule.group_order[-1:]
        )
        cycles += own / (4 if wide else 1) * (16 if scattered else 4)
    return cycles, max(1.0, direct)


def _moved(problem: Problem, schedule: Schedule, groups: int) -> float:
    """Bytes from memory: each element once, what groups share again counts an eighth."""
    total = 0.0
    for stream in problem.streams:
        own = math.prod(problem.extent(d) for d in problem.dims if stream.uses(d))
        again = math.prod(schedule.parts[d] for d in problem.kept if not stream.uses(d))
        total += own * problem.inputs[stream.buffer].itemsize * (1 + (again - 1) / 8)
    results = math.prod(problem.extent(d) for d in problem.kept)
    written = sum(problem.outputs[write.buffer].itemsize for write in problem.writes)
    partial = math.prod(schedule.parts[d] for d in problem.contracted)
    return total + results * written * (1 if partial == 1 else 2 * partial)


def ranked_on_gpu(problem: Problem, target: Target) -> list[tuple[float, Schedule]]:
    """All candidates with their estimates, the best first."""
    pairs = [(gpu_estimate(problem, s, target), s) for s in gpu_candidates(problem, target)]
    return sorted(pairs, key=lambda pair: pair[0])
