"""Random schedules whose accumulators stay in registers."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from mdtensor.lower.gpu.streaming.planes import plane_dim
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule

UNROLLED = 32
ITEMS = 64


def random_resident_schedule(rng: random.Random, problem: Problem) -> Schedule:
    """A schedule with resident accumulators, valid more often than not."""
    dims = problem.dims
    registers = [1] * len(dims)
    chunks = [1] * len(dims)
    threads = [1] * len(dims)
    left, items = UNROLLED, ITEMS
    shared = rng.random() < 0.3 and not problem.keeps_order
    for d in rng.sample(dims, len(dims)):
        registers[d] = rng.choice([n for n in (1, 2, 4, 4, 8, 3) if n <= max(1, left)])
        left //= registers[d]
        chunks[d] = rng.choice([n for n in (1, 2, 4, 8, 3) if registers[d] % n == 0])
        if not problem.reduced[d] or shared:
            threads[d] = rng.choice([n for n in (1, 2, 4, 8, 3, 16) if n <= items])
            items //= threads[d]
    tiles = [0] * len(dims)
    for d in problem.contracted:
        if rng.random() < 0.8:
            tiles[d] = registers[d] * threads[d] * rng.choice((1, 1, 2, 4, 3))
    staged = tuple(
        "local" if n < problem.finish_streams and problem.is_plain(n) and rng.random() < 0.7 else ""
        for n in range(len(problem.streams))
    )
    split = any(threads[d] > 1 for d in problem.contracted)
    tiled = [d for d in problem.contracted if tiles[d]]
    drawn = Schedule(
        asm="gpu",
        parts=tuple(rng.choice((0, 1) if problem.is_general else (1, 1, 2, 3, 100)) for _ in dims),
        tiles=tuple(tiles),
        threads=tuple(threads),
        registers=tuple(registers),
        lane=-1,
        width=1,
        group_order=tuple(rng.sample(dims, len(dims))),
        loop_order=tuple(rng.sample(problem.kept, len(problem.kept))),
        reduce_order=tuple(rng.sample(problem.contracted, len(problem.contracted))),
        staged=staged,
        resident=True,
        chunks=tuple(chunks) if rng.random() < 0.8 else (),
        warp=() if split or rng.random() < 0.5 else _warp(rng, threads),
        padding=tuple(rng.choice((0, 0, 4, 1)) for _ in problem.streams),
        prefetch=len(tiled) == 1 and any(staged) and rng.random() < 0.6,
        swath=rng.choice((0, 1, 2, 3)),
        streaming=_may_stream(problem) and rng.random() < 0.5,
        stages=rng.choice((0, 1, 2, 2, 3, 4)) if tiled and any(staged) else 0,
        as_source=tuple(rng.random() < 0.5 for _ in problem.streams),
    )
    ordered = problem.keeps_order and problem.contracted
    return _in_order(problem, drawn) if ordered else drawn


def _may_stream(problem: Problem) -> bool:
    """Whether results lie next to each other along some dim."""
    return any(all(w.strides[d].constant == 1 for w in problem.writes) for d in problem.kept)


def _warp(rng: random.Random, threads: list[int]) -> tuple[int, ...]:
    return tuple(rng.choice([n for n in range(1, t + 1) if t % n == 0]) for t in threads)


def _in_order(problem: Problem, schedule: Schedule) -> Schedule:
    first, *others = problem.contracted

    def kept(values: tuple[int, ...], dims: list[int], value: int) -> tuple[int, ...]:
        return tuple(value if d in dims else v for d, v in enumerate(values))

    last = problem.contracted[-1]
    before = [d for d in (first, *others) if d != last]
    tiles = kept(schedule.tiles, others, 0)
    changed = replace(
        schedule,
        reduce_order=problem.contracted,
        parts=kept(schedule.parts, others, 1),
        tiles=tiles,
        registers=kept(schedule.registers, before, 1),
        chunks=kept(schedule.chunks, before, 1) if schedule.chunks else (),
    )
    tiled = math.prod(tiles[d] for d in problem.contracted if tiles[d] or d == first)
    stages = schedule.stages if tiled else 0
    return replace(changed, prefetch=schedule.prefetch and bool(tiled), stages=stages)


def random_pointwise_schedule(rng: random.Random, problem: Problem) -> Schedule:
    """A schedule for points without a reduction that share what they read."""
    drawn = random_resident_schedule(rng, problem)
    if problem.is_general or any(drawn.staged) or rng.random() < 0.3:
        return drawn
    drawn = replace(drawn, tail=rng.choice(("split", "overlap")))
    near = drawn.chunks or drawn.registers
    led = replace(drawn, lead=tuple(rng.randrange(n) for n in near))
    if not problem.kept or rng.random() < 0.5:
        return led
    return _marching(rng, problem, rng.choice((drawn, led)))


def _marching(rng: random.Random, problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule, marching along one of its dims as far as the rules allow."""
    d = rng.choice(problem.kept)

    def along(values: tuple[int, ...], value: int) -> tuple[int, ...]:
        return tuple(value if e == d else v for e, v in enumerate(values))

    points, ahead = rng.choice((1, 1, 2, 3, 4)), rng.choice((0, 0, 2, 3, 4))
    if ahead and d == plane_dim(problem):
        staged = ("local",) * len(problem.streams)
        schedule = replace(schedule, staged=staged, stages=ahead, lead=(), padding=(), as_source=())
        if rng.random() < 0.3 and not schedule.streaming:
            schedule = replace(schedule, results="local", tail="overlap")
        points = 1
    return replace(
        schedule,
        march=True,
        registers=along(schedule.registers, points),
        chunks=along(schedule.chunks, points) if schedule.chunks else (),
        threads=along(schedule.threads, 1),
        warp=(),
        parts=along(schedule.parts, rng.choice((1, 2))),
        lead=along(schedule.lead, 0) if schedule.lead else (),
        group_order=(*(e for e in schedule.group_order if e != d), d),
    )


def random_scan_schedule(rng: random.Random, problem: Problem) -> Schedule:
    """A schedule of a scan by work-items together; groups share it in half of those that can."""
    drawn = random_resident_schedule(rng, problem)
    d, count = problem.scanned, len(problem.extents)
    order = (*(e for e in problem.dims if e != d), d)
    threads = tuple(min(4, t) if e != d else t for e, t in enumerate(drawn.threads))
    alone = replace(
        drawn,
        tiles=(0,) * count,
        threads=threads,
        parts=tuple(1 if e == d else p for e, p in enumerate(drawn.parts)),
        group_order=order if rng.random() < 0.6 else drawn.group_order,
        staged=("",) * len(drawn.staged),
        warp=(),
        prefetch=False,
        swath=0,
    )
    if problem.is_general or rng.random() < 0.5:
        return alone
    ones = (1,) * count
    return replace(
        alone,
        threads=tuple(32 if e == d else 1 for e in problem.dims),
        registers=tuple(r if e == d else 1 for e, r in enumerate(drawn.registers)),
        chunks=(drawn.chunks and tuple(c if e == d else 1 for e, c in enumerate(drawn.chunks))),
        parts=tuple(1000 for _ in ones),
        group_order=order,
    )


def random_gpu_schedule(rng: random.Random, problem: Problem) -> Schedule:
    """A schedule whose work-items keep what they can in registers, for any problem."""
    if problem.scanned >= 0:
        return random_scan_schedule(rng, problem)
    if not problem.contracted:
        return random_pointwise_schedule(rng, problem)
    drawn = replace(random_resident_schedule(rng, problem), last_group=rng.random() < 0.5)
    return replace(drawn, tail=rng.choice(("split", "overlap")))
