"""Scratch memory: its contents, its size, and the limit for a problem.

Staged tiles of processors lie there, one set for each group, and the results of groups that share a
reduction. Sizes are numbers for a problem with fixed extents, and expressions for a general one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import TypeVar

import numpy as np

from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.register_types import BOOL, U8, register_dtype
from mdtensor.lower.problem.problem import Problem, Read
from mdtensor.translate.graphs import in_order
from mdtensor.translate.scalar import Expr

CELL = 8  # bytes that one partial result takes, whatever its type
ALIGNMENT = 64  # bytes at whose multiples staged tiles begin
# The limit per problem: bytes in any case, and bytes per byte of operands and results.
ALLOWANCE, SHARE = 64 << 20, 2

Size = TypeVar("Size", int, Index)


def most_scratch(problem: Problem) -> int:
    """The limit of scratch memory, in bytes, for a problem with fixed extents.

    One cell for each result is always allowed: without it nothing can be scattered.
    """
    results = math.prod([problem.extent(d) for d in problem.result_dims])
    written = results * sum(problem.outputs[write.buffer].itemsize for write in problem.writes)
    cells = math.prod([problem.extent(d) for d in problem.kept]) * CELL
    held = cells * len(problem.scalar.result_dtypes)
    return ALLOWANCE + max(SHARE * (operand_bytes(problem) + written), held)


def operand_bytes(problem: Problem) -> int:
    """Bytes of all input elements that a problem with fixed extents reads."""
    found = [0] * len(problem.inputs)
    for number, stream in enumerate(problem.streams):
        elements = _elements_read(problem, number)
        nbytes = elements * problem.inputs[stream.buffer].itemsize
        found[stream.buffer] = max(found[stream.buffer], nbytes)
    return sum(found)


def _elements_read(problem: Problem, number: int) -> int:
    """An upper bound of the elements read of a stream, also by its address range."""
    strides = problem.streams[number].strides
    reads = [read for read in problem.all_reads if read.stream == number]
    offsets = [as_index(read.offset).constant or 0 for read in reads]
    spans = [(problem.extent(d), strides[d].constant or 0) for d in problem.used[number]]
    walked = [*spans, *max(map(_computed, reads), key=len)] if reads else spans
    apart = max(offsets, default=0) - min(offsets, default=0)
    reach = 1 + apart + sum((extent - 1) * abs(stride) for extent, stride in walked)
    return min(reach, math.prod([extent for extent, _ in walked]) * len(set(offsets)))


def _computed(read: Read) -> list[tuple[int, int]]:
    """Extents and strides of a read's axes with computed indices."""
    return [(part.extent.constant or 0, part.stride.constant or 0) for part in read.computed]


def whole_lines(size: Size) -> Size:
    """A size in bytes, rounded up to the alignment if it is a number."""
    if isinstance(size, int):
        return -(-size // ALIGNMENT) * ALIGNMENT
    return size if size.constant is None else as_index(whole_lines(size.constant))


def is_aligned(size: Index) -> bool:
    """Whether a size in bytes is a multiple of the alignment for all values of its names."""
    return not any(factor % ALIGNMENT for _, factor in size.terms)


def size_of_tile(problem: Problem, number: int, lengths: Sequence[Size], point: Size) -> Size:
    """Size of a CPU's staged tile of given lengths per dim, from the size of a point."""
    return reduce(lambda size, d: size * lengths[d], problem.used[number], point)


@lru_cache(256)
def staged_dtype(problem: Problem, number: int, *, whole: bool = False) -> np.dtype:
    """The element type of a staged tile: the one that the computation converts to.

    Where elements are used as they are, or converted to several types, or the tile is used as a
    whole, it is their own.
    """
    own = problem.inputs[problem.streams[number].buffer]
    if whole:
        return own
    positions = {position for position, read in enumerate(problem.reads) if read.stream == number}
    places = [part.expr for read in problem.reads for part in read.computed]
    used = _dtypes_of_uses([*problem.scalar.results, *places], positions)
    if len(used) == 1 and BOOL not in used:
        return register_dtype(used.pop())
    return U8 if own == BOOL else own  # bytes that are not 0 have become 1


def _dtypes_of_uses(exprs: Sequence[Expr], positions: set[int]) -> set[np.dtype]:
    """The types to which some parameters are converted where they are used."""

    def is_meant(expr: Expr) -> bool:
        return expr.op == "param" and expr.value in positions

    found = {expr.dtype for expr in exprs if is_meant(expr)}
    for node in in_order(exprs):
        found |= {
            node.dtype if node.op == "cast" else arg.dtype for arg in node.args if is_meant(arg)
        }
    return found
