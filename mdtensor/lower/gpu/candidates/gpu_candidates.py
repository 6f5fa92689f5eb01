"""Candidate schedules for reductions on GPUs, ranked by the cost model.

No shape of computation has a candidate of its own: sides, chunks and staging follow from the
strides of the accesses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.wide_accesses import lanes_of
from mdtensor.lower.codegen.memory.cooperative_copy import MOST_PIECES
from mdtensor.lower.gpu.candidates.block_shapes import (
    Block,
    Blocks,
    blocked,
    kept_order,
    reduced_order,
)
from mdtensor.lower.gpu.candidates.lower_bound import LeastOfBlocks
from mdtensor.lower.gpu.candidates.source_layout_candidates import by_steps_of_source
from mdtensor.lower.gpu.candidates.tensor_core_candidates import matrix_candidates
from mdtensor.lower.gpu.candidates.tma_candidates import bulk_candidates
from mdtensor.lower.gpu.cost.gpu_arithmetic import MUCH, cycles_of_point
from mdtensor.lower.gpu.cost.gpu_cost import gpu_estimate
from mdtensor.lower.gpu.cost.gpu_resources import REGISTERS, held_by, tile_elements
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import DimTiling, tilings_of
from mdtensor.specs import Target

LOCAL_BYTES = 47 << 10
_LOCAL_OF_RUNS = 100 << 10  # where tiles lie as their source, two groups of a core
# Points of rows and columns per work-item, work-items along each, elements of a reduction tile.
_ROWS_COLUMNS = ((16, 8), (8, 8), (8, 4), (4, 4), (2, 4), (1, 4), (4, 8), (16, 4), (1, 1))
# Those of a work-item whose columns follow what is read.
_BY_SOURCE = ((16, 4), (12, 4), (8, 4))
_BESIDE = (0, 16, 32)  # results of a group beside each other where its columns do so; 0: all
_ITEMS = (
    *((8, 16), (16, 8), (8, 8), (4, 8), (1, 32), (2, 32), (1, 64), (1, 128), (4, 32), (8, 32)),
    *((1, 1), (2, 1), (1, 2), (1, 4), (4, 1), (1, 8), (8, 1), (1, 16)),
)
_MOST_ITEMS = 512
MOST_COMPUTATIONS = 2048  # in an unrolled register tile
MOST_PARTIALS = 1 << 26  # results of all parts of a reduction
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
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_PARTS_OF_CORE = (1, 2, 4, 8, 16, 32)


def can_be_resident(problem: Problem) -> bool:
    """Whether accumulators can stay in registers: there is a reduction, and no scan."""
    return bool(problem.contracted) and problem.scanned < 0


def part_counts(target: Target) -> tuple[int, ...]:
    """Numbers of groups that may share a reduced dim: round ones, and so many of each core."""
    return tuple(sorted({*_PARTS, *(n * target.cores for n in _PARTS_OF_CORE)}))


def most_items(target: Target) -> int:
    """Work-items that a group can have."""
    return min(1024, target.max_threads)


def gpu_candidates(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Valid schedules whose accumulators stay in registers; none without a reduction."""
    if not can_be_resident(problem):
        return
    yield from _by_matrices(problem, target)
    blocks = Blocks(zero_filled(problem))
    for block in all_blocks(blocks):
        yield from of_block(blocks, block, target)
    yield from _of_shared_tiles(blocks, target)
    yield from _as_sources_lie(blocks, target)


def _by_matrices(problem: Problem, target: Target) -> Iterator[Schedule]:
    yield from bulk_candidates(problem, target)
    yield from matrix_candidates(problem, target)


def all_blocks(blocks: Blocks) -> list[Block]:
    """The blocks that are worth considering, each once."""
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


def of_block(blocks: Blocks, block: Block, target: Target) -> Iterator[Schedule]:
    """The schedules of a block: whole and split reductions, with and without pipelining."""
    streaming = _bypasses_caches(blocks.problem, target)
    yield from _spread(blocks.problem, blocks.schedule(block, streaming=streaming), target)


def _of_shared_tiles(blocks: Blocks, target: Target) -> Iterator[Schedule]:
    for schedule in _sharing_tiles(blocks.problem, target):
        yield from _spread(blocks.problem, schedule, target)
    yield from dict.fromkeys(_teams(blocks.problem, target))


def _as_sources_lie(blocks: Blocks, target: Target) -> Iterator[Schedule]:
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
            if fits(problem, candidate, limited):
                yield candidate


def _bypasses_caches(problem: Problem, target: Target) -> bool:
    return can_stream(problem) and _leaves_caches(problem, target)


def _sharing_tiles(problem: Problem, target: Target) -> Iterator[Schedule]:
    """Schedules for few results and a long reduction: warps share it, and staged tiles of it.

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
        if math.prod(team.threads) <= _MOST_ITEMS and fits(problem, team, target):
            yield team


def _with(values: tuple[int, ...], d: int, value: int) -> tuple[int, ...]:
    return (*values[:d], value, *values[d + 1 :])


def _in_stages(problem: Problem, schedule: Schedule) -> Iterator[Schedule]:
    """The schedule with several staged tiles, its groups in swaths, where tiles are many."""
    tilings = tilings_of(problem, schedule)
    turns = math.prod(
        (tilings[d].part.constant or 1) // tilings[d].tile
        for d in problem.contracted
        if tilings[d].tile
    )
    if any(schedule.staged) and not schedule.stages and turns >= _WORTH_STAGES:
        swath = 8 if len(problem.kept) > 1 else 0
        yield replace(schedule, stages=3, swath=swath, prefetch=True)


def can_stream(problem: Problem) -> bool:
    """Whether results lie next to each other along some dim, so that they can bypass caches."""
    along = (all(w.strides[d].constant == 1 for w in problem.writes) for d in problem.kept)
    return any(along)


def _leaves_caches(problem: Problem, target: Target) -> bool:
    """Whether results are too many for the caches."""
    nbytes = sum(problem.outputs[write.buffer].itemsize for write in problem.writes)
    return nbytes * math.prod(map(problem.extent, problem.kept)) > target.l2_bytes


def shared_dim(problem: Problem) -> int:
    """The reduced dim that work-items of a group may share; -1 where they cannot."""
    if not problem.contracted or problem.keeps_order or problem.scanned >= 0:
        return -1
    return reduced_order(problem)[-1]


def _split(problem: Problem, schedule: Schedule, target: Target) -> Iterator[Schedule]:
    """The schedule, and with its longest reduced dim in parts where groups are few."""
    yield schedule
    groups = math.prod(schedule.parts[d] for d in problem.kept)
    longest = _divided_dim(problem)
    for count in _counts_of_parts(problem, groups, _block(schedule, longest), target):
        yield replace(
            schedule,
            parts=_with(schedule.parts, longest, count),
            last_group=target.counts_groups and not problem.keeps_order,
        )


def _divided_dim(problem: Problem) -> int:
    """The reduced dim that groups share."""
    return (
        problem.contracted[0]
        if problem.keeps_order
        else max(problem.contracted, key=problem.extent)
    )


def _counts_of_parts(problem: Problem, groups: int, block: int, target: Target) -> Iterator[int]:
    """Parts that the reduction of so many groups may have, in blocks of so many points."""
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


def most_parts(blocks: Blocks, block: Block, target: Target) -> int:
    """The most parts that the reduction of a block's groups has."""
    problem, longest = blocks.problem, _divided_dim(blocks.problem)
    lengths = [block.points[d] * block.items[d] for d in problem.dims]
    groups = math.prod(-(-problem.extent(d) // lengths[d]) for d in problem.kept)
    return max(_counts_of_parts(problem, groups, lengths[longest], target), default=1)


def fits(problem: Problem, schedule: Schedule, target: Target) -> bool:
    """Whether a device can run a schedule that keeps the rules."""
    return not misfit(problem, schedule, target)


def misfit(problem: Problem, schedule: Schedule, target: Target) -> str:
    """The device limit or rule that a schedule breaks; empty if it breaks none."""
    problem = schedule.computed(problem)
    items, computations = math.prod(schedule.threads), math.prod(schedule.registers)
    try:
        registers, local = held_by(problem, schedule)
    except LoweringError as error:
        return str(error)
    limits = (
        ("work_items", items, most_items(target)),
        ("registers", registers, REGISTERS),
        ("local_memory", local, target.local_bytes),
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
        if schedule.threads[d] > 1 and _block(schedule, d) >= 2 * problem.extent(d):
            return f"has_work: {_block(schedule, d)} points for {problem.extent(d)}"
    try:
        validate(problem, schedule)
    except LoweringError as error:
        return str(error)
    return ""


def _block(schedule: Schedule, d: int) -> int:
    return schedule.registers[d] * schedule.threads[d]


def _pieces(problem: Problem, schedule: Schedule) -> int:
    """Pieces of a staged tile that a work-item copies; elements where matrices are staged."""
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
    """Elements of a stream that one access copies: several where all begin at multiples of them."""
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
    """Elements of a staged tile that a work-item can copy; those of matrices go by eights."""
    return MOST_PIECES * (8 if schedule.tensor else 1)


def ranked_on_gpu(
    problem: Problem, target: Target, most: int | None = None
) -> list[tuple[float, Schedule]]:
    """All candidates with their estimates, the best first; or only the `most` best ones.

    For these, blocks are looked at in the order of the least time that any schedule of theirs
    takes, until that is longer than what was found.
    """
    if most is None or not can_be_resident(problem):
        pairs = [(gpu_estimate(problem, s, target), s) for s in gpu_candidates(problem, target)]
        return sorted(pairs, key=lambda pair: pair[0])
    blocks = Blocks(zero_filled(problem))
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
    """The best of what was considered; of equals the first, as all candidates are in order."""

    def __init__(self, problem: Problem, target: Target, most: int) -> None:
        self.problem, self.target, self.most = problem, target, most
        self.best: list[tuple[float, int, int, Schedule]] = []

    @property
    def worst(self) -> float:
        """Seconds from which on a schedule is of no interest."""
        return math.inf if len(self.best) < self.most else self.best[-1][0]

    def consider(self, schedules: Iterable[Schedule], place: int) -> None:
        """Looks at the schedules of one place among all."""
        for number, schedule in enumerate(schedules):
            seconds = gpu_estimate(self.problem, schedule, self.target)
            if seconds <= self.worst:
                self.best.append((seconds, place, number, schedule))
                self.best.sort(key=lambda row: row[:3])
                del self.best[self.most :]
