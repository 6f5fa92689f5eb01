"""Products of bfloat16 in pairs: a problem over words of two neighbours along a reduced dim.

Processors with AVX512-BF16 multiply both halves of two words and add both products to a float32
(`vdpbf16ps`), at the pace of one multiply-add. So a sum of products of bfloat16 becomes one of half
as many steps: factors whose elements are neighbours along the dim are read as words, others as two
elements each. Two operations are made here alone: `pack(low, high)`, the word of two halves, and
`dot2(x, y)`, the sum of the products of the halves of two words, in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.register_types import F32
from mdtensor.lower.problem.problem import Problem, Read
from mdtensor.translate.combine import named
from mdtensor.translate.scalar import Expr, param
from mdtensor.translate.scalar_function import ScalarFunction

_PAIRED = "bfloat16"
_WORD, _HALF = np.dtype(np.uint32), np.dtype(np.uint16)


def with_pairs(problem: Problem) -> Problem:
    """Rewrite a sum of products of bfloat16 to words, two steps of a reduced dim in one.

    Strides and offsets of words count words. Unchanged where nothing is such a sum, no reduced
    dim has an even extent, or an array would be read both in words and in halves.
    """
    if not _multiplies_shorts(problem):
        return problem
    even = [d for d in problem.contracted if (problem.extents[d].constant or 1) % 2 == 0]
    for d in sorted(even, key=lambda d: -len(_read_as_words(problem, d))):
        words = _read_as_words(problem, d)
        if (types := _types(problem, words)) is not None:
            return _paired(problem, d, words, types)
    return problem


def _multiplies_shorts(problem: Problem) -> bool:
    """Whether a problem adds up products in float32 of two affine reads of bfloat16."""
    operator, reads = problem.operator, problem.reads
    if operator is None or len(reads) != 2 or problem.scalar.result_dtypes != (F32,):
        return False
    [result] = problem.scalar.results
    factors = [each.args[0] for each in result.args if each.op == "cast"]
    numbers = sorted([each.number for each in factors if each.op == "param"])
    if result.op != "mul" or numbers != [0, 1] or {f.dtype.name for f in factors} != {_PAIRED}:
        return False
    is_affine = not any(read.computed or problem.streams[read.stream].axes for read in reads)
    is_one_range = problem.scanned < 0 and problem.bounds is None
    return is_affine and is_one_range and operator.results == named("add", (F32,)).results


def _read_as_words(problem: Problem, d: int) -> tuple[int, ...]:
    """The streams, by number, whose elements lie in aligned pairs along a dim."""
    found: list[int] = []
    for n in range(problem.finish_streams):
        strides = [stride.constant or 0 for stride in problem.streams[n].strides]
        others = strides[:d] + strides[d + 1 :]
        offsets = [as_index(r.offset).constant or 0 for r in problem.reads if r.stream == n]
        if strides[d] == 1 and all(number % 2 == 0 for number in (*others, *offsets)):
            found.append(n)
    return tuple(found)


def _types(problem: Problem, words: Sequence[int]) -> Mapping[int, np.dtype] | None:
    """The element type of each read buffer, by number; None where a buffer would have two."""
    found: dict[int, np.dtype] = {}
    for n, stream in enumerate(problem.streams):
        dtype = problem.inputs[stream.buffer]
        if n < problem.finish_streams:
            dtype = _WORD if n in words else _HALF
        if found.setdefault(stream.buffer, dtype) != dtype:
            return None
    return found


def _paired(
    problem: Problem, d: int, words: Sequence[int], types: Mapping[int, np.dtype]
) -> Problem:
    """The problem over half the extent of a dim, on words of two elements."""
    extents, streams = list(problem.extents), list(problem.streams)
    extents[d] = _scaled(extents[d], 1, 2)
    reads: list[Read] = []
    factors: list[Expr] = []
    for read in problem.reads:
        number, offset = len(reads), as_index(read.offset).constant or 0
        stream = problem.streams[read.stream]
        strides = list(stream.strides)
        if read.stream in words:
            strides = [_scaled(stride, 1, 2) for stride in strides]
            strides[d] = as_index(1)
            factors.append(param(number, _WORD))
            reads.append(replace(read, offset=offset // 2))
        else:
            strides[d] = _scaled(strides[d], 2, 1)
            factors.append(Expr("pack", (param(number, _HALF), param(number + 1, _HALF)), _WORD))
            next_one = offset + (stream.strides[d].constant or 0)
            reads += [replace(read, offset=offset), replace(read, offset=next_one)]
        streams[read.stream] = replace(stream, strides=tuple(strides))
    dtypes = [types[problem.streams[read.stream].buffer] for read in reads]
    product = Expr("dot2", tuple(factors), F32)
    return replace(
        problem,
        extents=tuple(extents),
        scalar=ScalarFunction(tuple(dtypes), (product,), problem.scalar.name),
        inputs=tuple([types.get(n, dtype) for n, dtype in enumerate(problem.inputs)]),
        streams=tuple(streams),
        reads=tuple(reads),
        reaches=tuple(
            [
                (first // 2, (last + 1) // 2 - 1) if types.get(n) == _WORD else (first, last)
                for n, (first, last) in enumerate(problem.reaches)
            ]
        ),
    )


def _scaled(index: Index, by: int, down: int) -> Index:
    return as_index((index.constant or 0) * by // down)
