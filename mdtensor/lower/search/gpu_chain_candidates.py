"""Candidate schedules of chains on GPUs: a group computes all steps on its block of rows.

Each step reads its rows once more, from the caches of a core, and what lies between the steps is in
local memory; so memory sees what the chain reads and writes, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress

from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.wide_accesses import lanes_of
from mdtensor.lower.gpu.base.block_shapes import kept_order, reduced_order
from mdtensor.lower.gpu.base.gpu_arithmetic import cycles_along
from mdtensor.lower.gpu.base.gpu_resources import REGISTERS, held_by
from mdtensor.lower.gpu.streaming.pointwise_candidates import L2, MEMORY
from mdtensor.lower.problem.problem import Problem, points
from mdtensor.lower.schedule.chain_schedule import ChainSchedule
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.machine_model import GPU_LINE, WARP
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.chain_candidates import OnBlocks, RowChain
from mdtensor.specs import Target

# By 13 softmaxes and norms on an H200 (docs/adr/0056): work-items of a group, points of a row that
# each has at most, and those that it computes at once.
_ITEMS, _MOST_ITEMS = (128, 256), 1024
_POINTS, _UNROLLED = 32, (8, 4)
_SMALL = 1 << 15  # points of a step that one group computes alone
_READ_AGAIN = 4  # points for each element, from which steps are products with kernels of their own
# Seconds of a launch, of a step that waits for the work-items of its group, and of each time that
# these wait for memory.
_LAUNCH, _STEP, _WAIT = 2.5e-6, 0.6e-6, 0.12e-6
_APART = 0.1  # of the shorter ones of these times, what does not hide behind the longest
_LOCAL_BYTES = 40 << 10


def may_be_on_rows(problem: Problem) -> bool:
    """Whether a group's work-items can share a row, and a row's elements are read a few times."""
    if problem.is_general or problem.scanned >= 0 or problem.keeps_order or problem.bounds:
        return False
    elements = sum(
        math.prod(problem.extent(d) for d in used) for used in (*problem.used, problem.kept)
    )
    return points(problem) <= _READ_AGAIN * elements


def is_small(problem: Problem) -> bool:
    """Whether a step takes a group no longer than a launch would."""
    return points(problem) <= _SMALL


def best_on_gpu_rows(
    chain: RowChain, target: Target
) -> tuple[float, OnBlocks, ChainSchedule] | None:
    """The best schedule: its estimated seconds, the chain on blocks, the schedule.

    None where intermediate arrays exceed the local memory.
    """
    found = [
        (_seconds(made, schedule, target), made, schedule)
        for made, schedule in _ways(chain, target)
    ]
    return min(found, key=lambda each: each[0], default=None)


def least_apart(problem: Problem, target: Target) -> float:
    """A lower bound of the seconds that a step takes as a kernel of its own."""
    moved = sum(nbytes for nbytes, _ in _moved(problem))
    return _LAUNCH + moved / (MEMORY * target.bandwidth)


def _ways(chain: RowChain, target: Target) -> Iterator[tuple[OnBlocks, ChainSchedule]]:
    for shared, form in enumerate((chain, chain.with_shared_terms())):
        if form is None:
            continue
        for items, sharing in _work_items(form, target):
            every = math.prod(row.extent for row in form.rows)
            lengths = _lengths(form, min(items // sharing, every))
            made = form.on_blocks(lengths, target)
            if sum(made.between.values()) > _LOCAL_BYTES:
                continue
            with suppress(LoweringError):
                steps, rest = (
                    tuple([_of_one_group(problem, items, sharing) for problem, _ in parts])
                    for parts in (made.steps, made.rest)
                )
                groups = math.prod(made.blocks.counts)
                yield (
                    made,
                    ChainSchedule(lengths, groups, steps, rest, terms_shared=bool(shared)),
                )


def _work_items(chain: RowChain, target: Target) -> Iterator[tuple[int, int]]:
    """Candidate pairs: work-items of a group, and of these those that share a row."""
    whole = chain.on_blocks((1,) * len(chain.rows), target)
    longest = max(
        [problem.extent(_near(problem)) for problem, _ in whole.steps if problem.contracted],
        default=1,
    )
    most = min(_MOST_ITEMS, target.max_threads)
    least = min(most, _power_above(-(-longest // _POINTS)))
    if not chain.rows:
        whole_group = max(least, min(most, WARP))
        yield whole_group, whole_group
    for sharing in (least, 2 * least, 4 * least, 8 * least):
        if sharing <= most:
            yield from dict.fromkeys((max(min(n, most), sharing), sharing) for n in _ITEMS)


def _lengths(chain: RowChain, count: int) -> tuple[int, ...]:
    """Rows of a block along each dim, `count` in all, the last dims first."""
    lengths: list[int] = []
    for row in reversed(chain.rows):
        lengths.insert(0, min(row.extent, count))
        count = max(1, count // row.extent)
    return tuple(lengths)


def _near(problem: Problem) -> int:
    """The dim that work-items of a row share: the nearest reduced one, if any, else kept one."""
    order = reduced_order(problem) if problem.contracted else kept_order(problem)
    return order[-1]


def _of_one_group(problem: Problem, items: int, sharing: int) -> Schedule:
    """A single-group schedule: `sharing` work-items along the nearest dim, the others along rows.

    Raises LoweringError where it takes more registers than there are, or breaks a rule.
    """
    if not problem.extents:
        return plain(problem, "gpu")
    kept, reduced = kept_order(problem), reduced_order(problem) if problem.contracted else ()
    near = _near(problem)
    count = len(problem.extents)
    threads, registers, chunks = [1] * count, [1] * count, [1] * count
    threads[near] = sharing
    lanes = max(lanes_of(memory) for memory in (*problem.inputs, *problem.outputs))
    at_once = (n for n in _UNROLLED if problem.extent(near) >= n * sharing)
    registers[near] = next(at_once, min(_UNROLLED) if problem.extent(near) >= min(_UNROLLED) else 1)
    chunks[near] = math.gcd(registers[near], lanes)
    left = items // sharing
    for d in reversed(kept):
        if d != near:
            threads[d] = min(left, _power_above(problem.extent(d)))
            left //= threads[d]
    others = [d for d in kept if d != near]
    if others or not reduced:
        threads[others[-1] if others else near] *= left
    elif left > 1:
        raise LoweringError("no rows for all work-items of a group")
    for d in others if reduced else ():
        registers[d] = -(-problem.extent(d) // threads[d])
    along = any(stream.strides[near].constant == 1 for stream in problem.streams)
    schedule = Schedule(
        asm="gpu",
        parts=(1,) * count,
        tiles=(0,) * count,
        threads=tuple(threads),
        registers=tuple(registers),
        lane=-1,
        width=1,
        group_order=(*kept, *reduced) if along else (*reduced, *kept),
        loop_order=kept,
        reduce_order=reduced,
        staged=("",) * len(problem.streams),
        tail="split" if reduced else "overlap",
        resident=True,
        chunks=tuple(chunks),
    )
    validate(problem, schedule)
    if held_by(problem, schedule)[0] > REGISTERS:
        raise LoweringError("more registers than a work-item has")
    return schedule


def _seconds(made: OnBlocks, schedule: ChainSchedule, target: Target) -> float:
    """Estimated seconds of a launch: the maximum of memory, caches, cores and waits."""
    blocks = math.prod(made.blocks.counts)
    items = max(math.prod(how.threads) for how in schedule.steps)
    local = sum(made.between.values()) + target.core.reserved_bytes
    on_core = max(1, min(target.core.threads // items, target.l1_bytes // local))
    outer: dict[int, float] = {}
    nearby, waits, cycles = 0, 0.0, 0.0
    for (problem, piece), how in zip(made.steps, schedule.steps, strict=True):
        if problem.extents:
            cycles += points(problem) * cycles_along(problem, _near(problem))
        blocks_of_step = [-(-problem.extent(d) // how.block(d)) for d in problem.dims]
        waits += _STEP + _WAIT * math.prod(blocks_of_step)
        for slot, strides, (nbytes, lines) in zip(
            piece.slots, piece.strides, _moved(problem), strict=True
        ):
            nearby += nbytes
            is_shared = len(strides) > 0 and not any(strides)  # by all blocks
            if slot not in made.between and not is_shared:
                outer[slot] = max(outer.get(slot, 0), lines)
    first = sum(outer.values())
    clock = target.sustained_clock * target.cores
    behind = L2 * target.bandwidth
    inside = on_core * first <= target.l1_bytes
    busy = max(blocks, target.cores)  # cores that have no block help nobody
    terms = (
        blocks * first / (MEMORY * target.bandwidth),
        busy * first / behind + busy * nearby / (clock * GPU_LINE if inside else behind),
        busy * cycles / (WARP * target.core.schedulers * clock),
        -(-blocks // (target.cores * on_core)) * waits,
    )
    return _LAUNCH + max(terms) + _APART * (sum(terms) - max(terms))


def _moved(problem: Problem) -> list[tuple[int, float]]:
    """Per input and output, the bytes accessed, and the bytes of their cache lines."""
    found = [(0, 0.0)] * (len(problem.inputs) + len(problem.outputs))
    arrays = [(s.buffer, problem.inputs[s.buffer], s.strides) for s in problem.streams]
    arrays += [
        (len(problem.inputs) + w.buffer, problem.outputs[w.buffer], w.strides)
        for w in problem.writes
    ]
    for number, memory, strides in arrays:
        lengths = [problem.extent(d) for d, stride in enumerate(strides) if stride.terms]
        run = max([problem.extent(d) for d, s in enumerate(strides) if s.constant == 1], default=1)
        nbytes = math.prod(lengths) * memory.itemsize
        lines = nbytes * max(1.0, GPU_LINE / (run * memory.itemsize))
        found[number] = max(found[number], (nbytes, lines))
    return found


def _power_above(least: int) -> int:
    """The smallest power of two that is at least `least`."""
    return 1 << (least - 1).bit_length()
