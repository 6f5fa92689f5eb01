"""The CPU cost model: an estimate of a schedule's run time, from the target's facts alone.

It ranks schedules, so that an untuned call is good and a search starts near the best; it promises
no times. Per register tile it takes the slowest of arithmetic, loads and the latency of the
accumulators; per level of the memory hierarchy, the bytes that the loops around the largest
working set that fits must bring in.
"""

from __future__ import annotations

import math
from functools import lru_cache
from heapq import heapreplace

from mdtensor.lower.cpu.cost.cache_traffic import BYTES_PER_CYCLE, Shape, transfer_cycles
from mdtensor.lower.cpu.cost.cpu_facts import AccessPattern, Case, Facts, facts_of, reads_around
from mdtensor.lower.cpu.cost.register_tile_cost import (
    LATENCY,
    cycles_of_tiles,
    least_cycles_of_tiles,
)
from mdtensor.lower.cpu.cost.staging_cost import cycles_to_stage
from mdtensor.lower.problem.data_bounds import regular
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scatter_pattern import selected
from mdtensor.lower.schedule.machine_model import PAGE
from mdtensor.lower.schedule.rules.row_stores import unlike_rows
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

# Combining an element with what is in its place, apart from waiting for the one before.
SCATTER = 3.0
OF_PLACE = 2.0  # cycles to begin and to combine a place of a copy
TIMES_MOVED = 3.0  # that the bytes of partial results are written and read
# Of computing and of waiting for each cache, what does not hide behind the longest; less where what
# is read at several places is asked for ahead.
APART, APART_AHEAD = 0.3, 0.15
# What is left of the time of reading memory in one run that is asked for some pages ahead, where
# processors fetch by themselves a little at a time; and in several runs side by side, which need
# nobody to ask where a core gets to the next lines soon. Where it computes for longer, they cost.
RUN_AHEAD, RUNS, RUNS_COMPUTED = 0.75, 0.7, 1.25
MANY_RUNS = 4
# Cycles for the ends of each misaligned row, whose partial lines wait for memory.
ENDS = 60.0
# Bytes per cycle and core that go past caches which would hold them.
STREAMED = 5.0
# Launches by the calling thread, and by threads of the device, some of which are asleep.
INLINE_LAUNCH, WAKING = 1.5e-6, 1.6
# Reducing the parts of a scan, of the time that the scan itself takes: one core alone writes nearly
# as much as all of them.
TOTALS_OF_SCAN = 1.1
GROUP_OVERHEAD = 0.4e-6
# A bound stays one, in whichever order its factors are rounded.
ROUNDED = 1 - 1e-9


def estimate(
    problem: Problem, schedule: Schedule, target: Target, *, general: bool = False
) -> float:
    """Estimated seconds of a problem with fixed extents.

    `general` is for a kernel with run-time extents, which computes what is left of a dim in tiles
    of powers of two.
    """
    problem = regular(problem)
    facts = facts_of(problem)
    shape = _shape(facts, schedule)
    case = Case(problem, schedule, target, facts, shape)
    hertz = target.clock
    cycles, work = _work(case, general=general)
    groups = math.prod(shape.parts)
    if schedule.inline or groups == 1:
        launch = INLINE_LAUNCH if schedule.inline else WAKING * target.launch_seconds
        return work / hertz + launch
    share = busiest_share(shape.extents, shape.registers, schedule.parts, target.cores)
    seconds = work / hertz * share + WAKING * target.launch_seconds
    seconds += groups * GROUP_OVERHEAD / target.cores
    if not any(shape.parts[d] > 1 for d in facts.contracted):
        return seconds
    # The totals of groups are one more kernel; groups that scan read all elements once more, from
    # caches where they take turns.
    again = TOTALS_OF_SCAN * (cycles if schedule.in_turn else work) if problem.scanned >= 0 else 0.0
    seconds += again / hertz * share
    if schedule.in_turn:
        return seconds
    combining = _combining(problem, shape, target) / hertz / target.cores
    return seconds + combining + target.launch_seconds


def least_seconds(
    problem: Problem, schedule: Schedule, target: Target, *, general: bool = False
) -> float:
    """A lower bound of `estimate` for a schedule, on one core or divided among all cores.

    It counts arithmetic, loads and the launch, without memory, latency, and idle cores. It takes a
    third of an estimate's time, and is 0 for scans and scatters.
    """
    if schedule.scatter or problem.scanned >= 0:
        return 0.0
    problem = regular(problem)
    facts = facts_of(problem)
    case = Case(problem, schedule, target, facts, _shape(facts, schedule))
    seconds = least_cycles_of_tiles(case, general=general) / target.clock
    shared = seconds / target.cores + WAKING * target.launch_seconds
    return ROUNDED * min(seconds + INLINE_LAUNCH, shared)


def _work(case: Case, *, general: bool) -> tuple[float, float]:
    """Cycles of one core: of arithmetic alone, and with memory traffic and staging."""
    problem, schedule, target = case.problem, case.schedule, case.target
    facts, shape = case.facts, case.shape
    if schedule.scatter:
        cycles = _scattering(problem, shape)
        transfers = (facts.moved / BYTES_PER_CYCLE[-1],)
    else:
        cycles = cycles_of_tiles(case, general=general)
        transfers = transfer_cycles(
            problem,
            schedule,
            target,
            shape,
            facts.footprints,
            facts.copied,
            facts.working_sets,
        )
        if schedule.streaming and facts.moved <= target.l3_bytes:
            transfers = (*transfers, facts.written / STREAMED)
    packing = 0.0
    if any(schedule.staged):
        packing = cycles_to_stage(problem, schedule, shape, target, general=general)
    far = schedule.ahead and facts.moved > target.l2_bytes
    apart = APART_AHEAD if far and reads_around(problem) else APART
    in_memory = transfers and facts.moved > target.l3_bytes
    if in_memory and runs_along_lanes(schedule):
        transfers = (*transfers[:-1], transfers[-1] * _of_runs(facts, schedule))
    times = (cycles, *transfers)
    work = max(times) + apart * (sum(times) - max(times)) + packing
    if schedule.peel and unlike_rows(problem, schedule):
        work += ENDS * math.prod([shape.extents[d] for d in facts.kept if d != schedule.lane])
    return cycles, work


def _of_runs(facts: Facts, schedule: Schedule) -> float:
    """The factor on memory time for reads along the lanes in one run or several."""
    along = [walk for walk in facts.walks if walk.strides[schedule.lane]]
    runs = max((_runs(facts, walk, schedule) for walk in along), default=1)
    asked = RUN_AHEAD if schedule.ahead else 1.0
    if facts.per_point > 1.0:
        return asked * (RUNS_COMPUTED if runs > 1 else 1.0)
    return RUNS if runs >= MANY_RUNS else asked


def _runs(facts: Facts, walk: AccessPattern, schedule: Schedule) -> int:
    """The number of rows of a register tile that lie in different pages."""
    apart = [d for d in facts.kept if abs(walk.strides[d]) * walk.itemsize >= PAGE]
    return math.prod([schedule.registers[d] for d in apart if d != schedule.lane])


def runs_along_lanes(schedule: Schedule) -> bool:
    """Whether the innermost loop runs along the lanes, so walks memory vector by vector."""
    order = schedule.reduce_order
    return bool(order) and order[-1] == schedule.lane


def _combining(problem: Problem, shape: Shape, target: Target) -> float:
    """Cycles for writing and rereading the partial results of groups that share a reduction."""
    groups = math.prod(shape.parts[d] for d in problem.contracted)
    elements = math.prod(shape.extents[d] for d in problem.kept)
    nbytes = groups * elements * sum(t.itemsize for t in problem.scalar.result_dtypes)
    level = sum(nbytes > size for size in (target.l2_bytes, target.l3_bytes / 2))
    return TIMES_MOVED * nbytes / BYTES_PER_CYCLE[level]


def _scattering(problem: Problem, shape: Shape) -> float:
    """Cycles for scattering every element, and for combining all copies."""
    selection = selected(problem)
    elements = math.prod(n for d, n in enumerate(shape.extents) if d != selection.dim)
    copies = math.prod(shape.registers[d] * shape.parts[d] for d in problem.contracted)
    places = math.prod(shape.extents[d] for d in problem.kept) * copies
    waiting = LATENCY / math.prod(shape.registers[d] for d in problem.contracted)
    return elements * (SCATTER + waiting) + places * OF_PLACE


def _shape(facts: Facts, schedule: Schedule) -> Shape:
    parts: list[int] = []
    tiles: list[int] = []
    for d, extent in enumerate(facts.extents):
        block = schedule.block(d)
        count = -(-extent // block)
        part = -(-count // max(1, schedule.parts[d])) * block
        parts.append(-(-extent // part))
        tile = -(-schedule.tiles[d] // block) * block
        tiles.append(min(part, extent) if not tile or tile >= part else tile)
    return Shape(facts.extents, schedule.registers, tuple(tiles), tuple(parts))


@lru_cache(4096)
def busiest_share(
    extents: tuple[int, ...], registers: tuple[int, ...], parts: tuple[int, ...], cores: int
) -> float:
    """The busiest core's share of the work under dynamic scheduling.

    The last part along a dim is smaller than the others, which are whole register tiles.

    >>> busiest_share((1000,), (64,), (8,), 2), busiest_share((513,), (64,), (8,), 2)
    (0.512, 0.5009746588693957)
    """
    sizes = [1]
    for extent, register, count in zip(extents, registers, parts, strict=True):
        part = math.ceil(math.ceil(extent / register) / max(1, count)) * register
        own = [min(part, extent - start) for start in range(0, extent, part)]
        sizes = [size * length for size in sizes for length in own]
    loads = [0] * cores
    for size in sizes:
        heapreplace(loads, loads[0] + size)
    return max(loads) / sum(sizes)
