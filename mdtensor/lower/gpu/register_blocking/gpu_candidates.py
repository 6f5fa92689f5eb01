"""Candidate schedules for reductions on GPUs, ranked by the cost model.

No shape of computation has a candidate of its own: sides, chunks and staging follow from the
strides of the accesses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from mdtensor.lower.gpu.base.block_shapes import (
    BlockShape,
    BlockShapes,
    blocked,
    kept_order,
)
from mdtensor.lower.gpu.base.device_limits import (
    MOST_PARTIALS,
    broken_limit,
    can_stream,
    shared_dim,
)
from mdtensor.lower.gpu.base.gpu_arithmetic import MUCH, cycles_of_point
from mdtensor.lower.gpu.base.gpu_cost import gpu_estimate
from mdtensor.lower.gpu.register_blocking.lower_bound import LeastOfBlocks
from mdtensor.lower.gpu.register_blocking.source_layout_candidates import by_steps_of_source
from mdtensor.lower.gpu.tensor_cores.tensor_core_candidates import matrix_candidates
from mdtensor.lower.gpu.tensor_cores.tensor_core_cost import matrix_estimate
from mdtensor.lower.gpu.tma.tma_candidates import bulk_candidates
from mdtensor.lower.gpu.tma.tma_cost import bulk_estimate
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.specs import Target

LOCAL_BYTES = 47 << 10
_LOCAL_OF_RUNS = 100 << 10  # where tiles lie as their source, two groups of a core
# Points of rows and columns per work-item, work-items along each, elements of a reduction tile.
_ROWS_COLUMNS = ((16, 8), (8, 8), (8, 4), (4, 4), (2, 4), (1, 4), (4, 8), (16, 4), (1, 1))
# Points of rows and columns per work-item where columns follow the source.
_BY_SOURCE = ((16, 4), (12, 4), (8, 4))
_BESIDE = (0, 16, 32)  # results of a group beside each other where its columns do so; 0: all
_ITEMS = (
    *((8, 16), (16, 8), (8, 8), (4, 8), (1, 32), (2, 32), (1, 64), (1, 128), (4, 32), (8, 32)),
    *((1, 1), (2, 1), (1, 2), (1, 4), (4, 1), (1, 8), (8, 1), (1, 16)),
)
_MOST_ITEMS = 512
MOST_STEPS = 64  # of reduced dims in it
_DEPTHS = (8, 16, 32)
_WORTH_STAGES = 8  # turns of a group from which several staged tiles can pay
_FEW_BLOCKS = 8  # of 8 x 8 results for each core, up to which warps share tiles of a reduction
_SHARING = (1, 4, 8, 32, 128, 256)
# Of groups whose warps share staged tiles along the reduction: points, work-items, warps that share
# it and what each takes of a tile at once.
_OF_SHARED_TILES = (((8, 2), (4, 4), (8, 4)), ((2, 16), (2, 32), (4, 8)), ((4, 16), (4, 4), (8, 4)))
# Of teams: points, work-items, elements of a reduction that each takes of a tile, and their number.
_OF_TEAMS = (
    ((8, 8), (16, 4)),
    ((8, 16), (4, 16), (16, 8), (8, 8), (4, 32), (4, 8)),
    (8, 16),
    (2, 4),
)
_FEW_WARPS = 2  # for each scheduler, without teams, up to which they are of use
_SPLITS = (1, 2, 4, 8, 16, 32, 64)
_ROUNDS = (1, 2, 3, 4, 6, 8)  # groups of each core


def can_be_resident(problem: Problem) -> bool:
    """Whether accumulators can stay in registers: there is a reduction, and no scan."""
    return bool(problem.contracted) and problem.scanned < 0


def gpu_candidates(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Valid schedules whose accumulators stay in registers; none without a reduction."""
    if not can_be_resident(problem):
        return
    yield from _by_matrices(problem, target)
    blocks = BlockShapes(zero_filled(problem))
    for block in all_blocks(blocks):
        yield from of_block(blocks, block, target)
    yield from _of_shared_tiles(blocks, target)
    yield from _as_sources_lie(blocks, target)


def _by_matrices(problem: Problem, target: Target) -> Iterator[Schedule]:
    yield from bulk_candidates(problem, target)
    yield from matrix_candidates(problem, target)


def _estimate(problem: Problem, schedule: Schedule, target: Target) -> float:
    """Estimated seconds of a candidate, by the cost model of its kind."""
    if schedule.bulk:
        return bulk_estimate(problem, schedule, target)
    cost = matrix_estimate if schedule.tensor else gpu_estimate
    return cost(problem, schedule, target)


def all_blocks(blocks: BlockShapes) -> list[BlockShape]:
    """The distinct blocks worth considering."""
    rows = (False, True) if len(blocks.sides.rows) > 1 else (False,)
    plain = itertools.product(_ROWS_COLUMNS, _ITEMS, _DEPTHS, _SHARING, rows, (0,))
    beside = _BESIDE[1:] if len(blocks.sides.columns) > 1 else ()
    turned = itertools.product(_BY_SOURCE, _ITEMS, _DEPTHS, (1,), rows, beside)
    every = dict.fromkeys(
        blocks.block(points, items, depth, sharing, by_source=by_source, beside=beside)
        for points, items, depth, sharing, by_source, beside in (*plain, *turned)
        if sharing == 1 or not blocks.problem.keeps_order
    )
    return [block for block in every if 32 <= math.prod(block.items) <= _MOST_ITEMS]


def of_block(blocks: BlockShapes, block: BlockShape, target: Target) -> Iterator[Schedule]:
    """The schedules of a block: whole and split reductions, with and without pipelining."""
    streaming = _bypasses_caches(blocks.problem, target)
    yield from _spread(blocks.problem, blocks.schedule(block, streaming=streaming), target)


def _of_shared_tiles(blocks: BlockShapes, target: Target) -> Iterator[Schedule]:
    for schedule in _sharing_tiles(blocks.problem, target):
        yield from _spread(blocks.problem, schedule, target)
    yield from dict.fromkeys(_teams(blocks.problem, target))


def _as_sources_lie(blocks: BlockShapes, target: Target) -> Iterator[Schedule]:
    streaming = _bypasses_caches(blocks.problem, target)
    for schedule in by_steps_of_source(blocks):
        bypassing = replace(schedule, streaming=streaming)
        yield from _spread(blocks.problem, bypassing, target, _LOCAL_OF_RUNS)


def _spread(
    problem: Problem, schedule: Schedule, target: Target, most: int = LOCAL_BYTES
) -> Iterator[Schedule]:
    limited = replace(target, local_bytes=min(target.local_bytes, most))
    for spread in _split(problem, schedule, target):
        for candidate in (spread, *_in_stages(problem, spread)):
            if not broken_limit(problem, candidate, limited):
                yield candidate


def _bypasses_caches(problem: Problem, target: Target) -> bool:
    return can_stream(problem) and _leaves_caches(problem, target)


def _sharing_tiles(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Schedules for few results and a long reduction: warps share each staged tile of it.

    Tiles are on their way in stages, and lie as their sources do.
    """
    nearest = shared_dim(problem)
    blocks = math.prod(-(-problem.extent(d) // 8) for d in problem.kept)
    if nearest < 0 or len(problem.contracted) > 1 or blocks > _FEW_BLOCKS * target.cores:
        return
    for points, items, (sharing, steps) in itertools.product(*_OF_SHARED_TILES):
        depth = sharing * steps
        if problem.extent(nearest) < 2 * depth:
            continue
        schedule = blocked(problem, points, items, depth)
        if not all(schedule.staged[: problem.finish_streams]):
            continue
        yield replace(
            schedule,
            threads=_with(schedule.threads, nearest, sharing),
            registers=_with(schedule.registers, nearest, steps),
            chunks=_with(schedule.chunks, nearest, min(4, steps)),
            group_order=(*schedule.reduce_order, *kept_order(problem)),
            warp=(),
            prefetch=False,
            streaming=_bypasses_caches(problem, target),
            stages=3,
            as_source=tuple(pad > 0 for pad in schedule.padding),
        )


def _teams(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Schedules whose work-items share, in teams, the reduction of each staged tile.

    Register tiles that are worth their loads leave few warps where results are few: each scheduler
    waits for its one or two. More groups would each have less to do; teams have all of a tile that
    is as much deeper.
    """
    nearest = shared_dim(problem)
    if nearest < 0:
        return
    streaming = _bypasses_caches(problem, target)
    for points, items, depth, count in itertools.product(*_OF_TEAMS):
        schedule = blocked(problem, points, items, depth)
        warps = math.prod(schedule.parts) * -(-math.prod(schedule.threads) // WARP)
        tile = count * schedule.tiles[nearest]
        long = 0 < tile * _WORTH_STAGES <= problem.extent(nearest)
        if not long or warps > _FEW_WARPS * target.core.schedulers * target.cores:
            continue
        if not all(schedule.staged[: problem.finish_streams]):
            continue
        team = replace(
            schedule,
            threads=_with(schedule.threads, nearest, count),
            tiles=_with(schedule.tiles, nearest, tile),
            group_order=(*schedule.reduce_order, *kept_order(problem)),
            warp=(),
            stages=3,
            swath=8 if len(problem.kept) > 1 else 0,
            prefetch=True,
            streaming=streaming,
        )
        if math.prod(team.threads) <= _MOST_ITEMS and not broken_limit(problem, team, target):
            yield team


def _with(values: tuple[int, ...], d: int, value: int) -> tuple[int, ...]:
    return (*values[:d], value, *values[d + 1 :])


def _in_stages(problem: Problem, schedule: Schedule) -> Iterator[Schedule]:
    """A multi-stage variant of the schedule, its groups in swaths, where tiles are many."""
    tilings = tilings_of(problem, schedule)
    turns = math.prod(
        (tilings[d].part.constant or 1) // tilings[d].tile
        for d in problem.contracted
        if tilings[d].tile
    )
    if any(schedule.staged) and not schedule.stages and turns >= _WORTH_STAGES:
        swath = 8 if len(problem.kept) > 1 else 0
        yield replace(schedule, stages=3, swath=swath, prefetch=True)


def _leaves_caches(problem: Problem, target: Target) -> bool:
    """Whether the results exceed the caches."""
    nbytes = sum(problem.outputs[write.buffer].itemsize for write in problem.writes)
    return nbytes * math.prod(map(problem.extent, problem.kept)) > target.l2_bytes


def _split(problem: Problem, schedule: Schedule, target: Target) -> Iterator[Schedule]:
    """The schedule, then with its longest reduced dim split where groups are few."""
    yield schedule
    groups = math.prod(schedule.parts[d] for d in problem.kept)
    longest = _divided_dim(problem)
    for count in _counts_of_parts(problem, groups, schedule.block(longest), target):
        yield replace(
            schedule,
            parts=_with(schedule.parts, longest, count),
            last_group=target.counts_groups and not problem.keeps_order,
        )


def _divided_dim(problem: Problem) -> int:
    """The reduced dim to split among groups."""
    return (
        problem.contracted[0]
        if problem.keeps_order
        else max(problem.contracted, key=problem.extent)
    )


def _counts_of_parts(problem: Problem, groups: int, block: int, target: Target) -> Iterator[int]:
    """Candidate numbers of parts of a reduction, given `groups` and points of a `block`."""
    results, extent = (
        math.prod(map(problem.extent, problem.kept)),
        problem.extent(_divided_dim(problem)),
    )
    counts = {*_SPLITS[1:], 8 * target.cores}
    if cycles_of_point(problem) > MUCH:  # where cores compute, none should wait for the last group
        counts |= {n * target.cores // groups for n in _ROUNDS} - {0, 1}
    for count in sorted(counts):
        if count * results > MOST_PARTIALS:
            return
        if groups * count <= 16 * target.cores and extent >= 2 * count * block:
            yield count


def most_parts(blocks: BlockShapes, block: BlockShape, target: Target) -> int:
    """The most parts into which the reduction of a block's groups is split."""
    problem, longest = blocks.problem, _divided_dim(blocks.problem)
    lengths = [block.points[d] * block.items[d] for d in problem.dims]
    groups = math.prod(-(-problem.extent(d) // lengths[d]) for d in problem.kept)
    return max(_counts_of_parts(problem, groups, lengths[longest], target), default=1)


def ranked_on_gpu(
    problem: Problem, target: Target, most: int | None = None
) -> list[tuple[float, Schedule]]:
    """All candidates with their estimates, the best first; or only the `most` best ones.

    For these, blocks are looked at in the order of the least time that any schedule of theirs
    takes, until that is longer than what was found.
    """
    if most is None or not can_be_resident(problem):
        pairs = [(_estimate(problem, s, target), s) for s in gpu_candidates(problem, target)]
        return sorted(pairs, key=lambda pair: pair[0])
    blocks = BlockShapes(zero_filled(problem))
    found = _Best(problem, target, most)
    found.consider(_by_matrices(problem, target), 0)
    every = all_blocks(blocks)
    found.consider(_of_shared_tiles(blocks, target), len(every) + 1)
    found.consider(_as_sources_lie(blocks, target), len(every) + 2)
    bound = LeastOfBlocks(blocks, target, lambda block: most_parts(blocks, block, target))
    for least, number in sorted((bound.seconds(b), n) for n, b in enumerate(every)):
        if least > found.worst:
            break
        found.consider(of_block(blocks, every[number], target), number + 1)
    return [(seconds, schedule) for seconds, _, _, schedule in found.best]


class _Best:
    """A bounded list of the best schedules; ties go to the first in candidate order."""

    def __init__(self, problem: Problem, target: Target, most: int) -> None:
        self.problem, self.target, self.most = problem, target, most
        self.best: list[tuple[float, int, int, Schedule]] = []

    @property
    def worst(self) -> float:
        """The estimate in seconds above which a schedule is discarded."""
        return math.inf if len(self.best) < self.most else self.best[-1][0]

    def consider(self, schedules: Iterable[Schedule], place: int) -> None:
        """Add schedules to the best ones; `place` is their position among all candidates."""
        for number, schedule in enumerate(schedules):
            seconds = _estimate(self.problem, schedule, self.target)
            if seconds <= self.worst:
                self.best.append((seconds, place, number, schedule))
                self.best.sort(key=lambda row: row[:3])
                del self.best[self.most :]
