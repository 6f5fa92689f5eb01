"""The test for indices narrow enough to be computed in 32 bits.

A GPU takes two instructions or more, one after the other, for each that it takes in 32 bits: before
a work-item loads its first element, and for every element whose place is compared with an end.
Searches try both, since the assembler shares registers out differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import DimTiling, tilings_of

_MOST = 1 << 30  # half of what 32 bits hold: an index may be a sum of two such places


def have_narrow_indices(
    problem: Problem, schedule: Schedule, kernels: Iterable[LoopNest], further: int = 0
) -> bool:
    """Whether all indices of a problem's kernels, plus `further`, fit in 32 bits.

    False for symbolic extents, and for kernels with bulk copies, which address by tensor maps.
    """
    kernels = tuple(kernels)
    if problem.is_general or any(kernel.maps for kernel in kernels):
        return False
    launched = [n for k in kernels for n in (k.groups, k.scratch, k.counters)]
    computed = schedule.computed(problem)
    reach = [_reach(tiling) for tiling in tilings_of(computed, schedule)]
    reads = (*computed.reads, *(computed.finish.reads if computed.finish else ()))
    places = [
        *((computed.streams[read.stream].strides, read.offset) for read in reads),
        *((write.strides, write.offset) for write in computed.writes),
    ]
    spans = (_span(strides, as_index(offset), reach) for strides, offset in places)
    sizes = (*map(_number, launched), *reach, *[span + further for span in spans])
    return all(0 <= size < _MOST for size in sizes)


def _reach(tiling: DimTiling) -> int:
    """An upper bound of the indices along a dim, also of work-items beyond the last part."""
    return (_number(tiling.parts) + 1) * _number(tiling.part) + tiling.tile + tiling.block


def _span(strides: Sequence[Index], offset: Index, reach: Sequence[int]) -> int:
    """An upper bound of every partial sum of an element's address."""
    along = zip(strides, reach, strict=True)
    return abs(_number(offset)) + sum(abs(_number(stride)) * size for stride, size in along)


def _number(value: Index) -> int:
    return _MOST if value.constant is None else value.constant
