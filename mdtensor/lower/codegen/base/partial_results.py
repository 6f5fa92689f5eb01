"""Partial results of groups that share a reduction, and the problem that combines them.

Groups leave their results in scratch memory. Combining them is a reduction over the groups, which
is one more problem: a kernel of its own computes it, or the last of the groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.ir.index import ZERO, Index, as_index, name, product
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.ir.statements import Pointer, Statement
from mdtensor.lower.problem.problem import Finish, Problem, Read, Stream
from mdtensor.lower.problem.scratch_memory import CELL
from mdtensor.lower.problem.simd_lanes import most_lanes
from mdtensor.lower.schedule.machine_model import asm_of
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import DimTiling
from mdtensor.translate.scalar_function import identity_function

_FEW, _MANY, _ITEMS = 64, 1 << 20, 128
_COLUMNS, _ITEMS_TOGETHER = 32, 256
# Results from which groups have no fewer work-items: there are more warps than cores hold.
_MANY_RESULTS = 1 << 17
_AT_ONCE = 4  # results of groups that a work-item combines in one step


@dataclass(frozen=True, slots=True)
class Partials:
    """Partial results of groups that share a reduction: [group][kept dims], an array per element.

    The dims are in `order`, those last whose neighbours lie nearest in the results. They lie in
    scratch memory, or in the `local` memory of a group that has one block of them, whose first
    point lies `before` the first element of a group's part of an array.
    """

    count: Index
    strides: tuple[Index, ...]
    size: Index
    order: tuple[int, ...]
    local: bool = False
    before: Index = ZERO

    @property
    def nbytes(self) -> Index:
        """Bytes of scratch memory for one element of the result tuple; 0 in local memory."""
        return ZERO if self.local else self.count * self.size * CELL

    def pointers(self, types: Iterable[np.dtype], *, const: bool = False) -> list[Pointer]:
        """Declare R0, R1, …, pointers to the arrays of partial results, of the given types."""
        return [self._pointer(k, register_dtype(t), const=const) for k, t in enumerate(types)]

    def _pointer(self, position: int, memory: np.dtype, *, const: bool) -> Pointer:
        if self.local:
            held = local_name(position)
            return Pointer(f"R{position}", held, memory, "local", self.before, const)
        offset = self.count * self.size * (position * CELL)
        return Pointer(f"R{position}", "scratch", memory, "global", offset, const)


def local_name(position: int) -> str:
    """The name of the local-memory array of one element of the result tuple."""
    return f"P{position}"


def partials_of(
    problem: Problem, schedule: Schedule, tilings: Sequence[DimTiling]
) -> Partials | None:
    """The partial results of a reduction split among groups; None if it is not split."""
    split = [d for d in problem.contracted if tilings[d].is_split]
    if not split:
        return None
    count = product(tilings[d].parts for d in split)
    plain = schedule.lane >= 0 or problem.scanned >= 0 or problem.is_general
    order = problem.kept if plain else _as_results(problem)
    return Partials(count, *dense(problem, order), order)


def number_among(tilings: Sequence[DimTiling], dims: Iterable[int]) -> Index:
    """The linear number of the group's part among the parts of some dims."""
    number = ZERO
    for d in dims:
        if tilings[d].is_split:
            number = number * tilings[d].parts + name(tilings[d].var("z"))
    return number


def _as_results(problem: Problem) -> tuple[int, ...]:
    """The kept dims by descending stride in the outputs, the nearest last."""

    def distance(d: int) -> int:
        strides = (write.strides[d].constant for write in problem.writes)
        return min((abs(s) for s in strides if s is not None), default=0)

    return tuple(sorted(problem.kept, key=distance, reverse=True))


def dense(problem: Problem, order: Sequence[int]) -> tuple[tuple[Index, ...], Index]:
    """Row-major strides of an array on the kept dims in the given order, and its size."""
    strides = [as_index(0)] * len(problem.extents)
    size = as_index(1)
    for d in reversed(order):
        strides[d] = size
        size = size * problem.extents[d]
    return tuple(strides), size


def combination(problem: Problem, partials: Partials) -> Problem:
    """The problem that reduces partial results: dim 0 counts groups, the kept dims follow.

    Its inputs are the arrays of those results, and then those of the problem.
    """
    dtypes = tuple(register_dtype(dtype) for dtype in problem.scalar.result_dtypes)
    kept, own = partials.order, len(dtypes)

    def after_groups(first: Index, strides: tuple[Index, ...]) -> tuple[Index, ...]:
        return (first, *(strides[d] for d in kept))

    streams = [Stream(n, after_groups(partials.size, partials.strides)) for n in range(own)]
    finish, inputs = problem.finish, dtypes
    if finish is not None:
        start = problem.finish_streams
        streams += [
            Stream(own + stream.buffer, after_groups(as_index(0), stream.strides))
            for stream in problem.streams[start:]
        ]
        moved = tuple(replace(read, stream=read.stream - start + own) for read in finish.reads)
        finish, inputs = Finish(finish.function, moved), (*dtypes, *problem.inputs)
    held = identity_function(problem.scalar.result_dtypes)
    return Problem(
        ("groups", *(problem.labels[d] for d in kept)),
        (partials.count, *(problem.extents[d] for d in kept)),
        (True, *(False for _ in kept)),
        replace(held, params=dtypes),
        problem.operator,
        inputs,
        problem.outputs,
        tuple(streams),
        tuple(Read(n, 0) for n in range(own)),
        tuple(
            replace(write, strides=after_groups(as_index(0), write.strides))
            for write in problem.writes
        ),
        problem.sizes,
        finish=finish,
    )


def sources(problem: Problem, partials: Partials) -> list[Statement]:
    """Declare the inputs of a combination; the problem's own ones are renamed `given_I0`, …."""
    own = len(problem.scalar.result_dtypes)
    totals = partials.pointers(problem.scalar.result_dtypes, const=True)
    found: list[Statement] = [replace(p, name=f"I{n}") for n, p in enumerate(totals)]
    if problem.finish is not None:
        found += [
            Pointer(f"I{own + n}", f"given_I{n}", dtype, "global", as_index(0))
            for n, dtype in enumerate(problem.inputs)
        ]
    return found


def by_a_kernel(combined: Problem, schedule: Schedule) -> Schedule:
    """A schedule of the combination with one work-item per group.

    A scatter computes without vectors, but its partial results are contiguous.
    """
    count = len(combined.extents)
    nearest = count - 1
    width = schedule.width
    if schedule.scatter and asm_of(schedule.asm).vectors:
        width = most_lanes(combined)
    vectors = width > 1 and nearest > 0
    ones = (1,) * count
    return Schedule(
        schedule.asm,
        parts=ones,
        tiles=(0,) * count,
        threads=ones,
        registers=tuple(width if vectors and n == nearest else 1 for n in range(len(ones))),
        lane=nearest if vectors else -1,
        width=width if vectors else 1,
        group_order=(*range(1, count), 0),
        loop_order=tuple(range(1, count)),
        reduce_order=(0,),
        staged=("",) * len(combined.streams),
    )


def shared_out(problem: Problem, plain: Schedule) -> Schedule:
    """The schedule of the combination for cooperative work-items; dim 0 counts the groups.

    Neighbouring results are those of neighbours; as many work-items share each of them as there
    are results of groups for. For names in place of extents, all that is known is that both are
    many.
    """
    extents = [extent.constant for extent in problem.extents]
    if any(extent is None for extent in extents):
        return _shared_out_unknown(problem, plain)
    threads, registers = [1] * len(extents), list(plain.registers)
    results = math.prod(extent or 1 for extent in extents[1:])
    columns = _COLUMNS if results < _MANY_RESULTS else _ITEMS_TOGETHER
    for d in reversed(range(1, len(extents))):
        threads[d] = min(columns, _power_of_two(extents[d] or 1))
        columns //= threads[d]
    columns = math.prod(threads)
    groups = extents[0] or 1
    if not problem.keeps_order:
        threads[0] = min(_ITEMS_TOGETHER // columns, _power_of_two(-(-groups // _AT_ONCE)))
    registers[0] = min(_AT_ONCE, _power_of_two(-(-groups // threads[0])))
    order = (0, *plain.loop_order) if columns > 1 else (*plain.loop_order, 0)
    kept = zip(extents[1:], threads[1:], strict=True)
    return replace(
        plain,
        parts=(1, *(-(-(extent or 1) // n) for extent, n in kept)),
        threads=tuple(threads),
        registers=tuple(registers),
        group_order=order,
        resident=True,
        chunks=(1,) * len(extents),
    )


def _power_of_two(least: int) -> int:
    """The smallest power of two that is at least `least`."""
    return 1 << max(0, least - 1).bit_length()


def _shared_out_unknown(problem: Problem, plain: Schedule) -> Schedule:
    """`shared_out` for unknown extents: work-items share few results, or divide many."""
    threads, parts = [1] * len(plain.parts), [1] * len(plain.parts)
    extents = [extent.constant for extent in problem.extents]
    results = math.prod(extent or _MANY for extent in extents[1:])
    if results <= _FEW and not problem.keeps_order:
        threads[0] = min(_ITEMS, 1 << ((extents[0] or _ITEMS) - 1).bit_length())
        parts[1:] = [extent or 1 for extent in extents[1:]]
        return replace(plain, threads=tuple(threads), parts=tuple(parts))
    left = _ITEMS
    for d in reversed(range(1, len(extents))):
        extent = extents[d]
        threads[d] = min(left, 1 << ((extent or _MANY) - 1).bit_length())
        left //= threads[d]
        parts[d] = 1 if extent is None else -(-extent // threads[d])
    return replace(plain, threads=tuple(threads), parts=tuple(parts))


def by_one_group(
    combined: Problem, schedule: Schedule, blocks: Sequence[int], items: int
) -> Schedule:
    """A schedule of the combination for one group of `items` work-items.

    Its blocks of the kept dims divide the `blocks` that the groups compute. Raises LoweringError
    where work-items are left over that would change the order of elements.
    """
    plain = by_a_kernel(combined, replace(schedule, lane=-1, width=1))
    registers, threads = list(plain.registers), list(plain.threads)
    left = items
    for d in reversed(range(1, len(threads))):
        if d == len(threads) - 1:
            registers[d] = math.gcd(_AT_ONCE, blocks[d - 1])
        threads[d] = math.gcd(blocks[d - 1] // registers[d], left)
        left //= threads[d]
    if left > 1 and combined.keeps_order:
        raise LoweringError("the last group's work-items would change the order of elements")
    threads[0], registers[0] = left, _AT_ONCE
    apart = any(count > 1 for count in threads[1:])
    order = (0, *plain.loop_order) if apart else (*plain.loop_order, 0)
    return replace(
        plain,
        registers=tuple(registers),
        threads=tuple(threads),
        group_order=order,
        resident=True,
        chunks=tuple(1 if d == 0 else n for d, n in enumerate(registers)),
    )
