"""Data-dependent bounds: a reduced dim over a range that arrays give for each result.

The rows of a compressed sparse array are such ranges: `ptr[i] <= e` and `e < ptr[i + 1]`. To ask of
every element whether it is in the range is one way to compute that; a loop from the first to the
last is another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial, reduce

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.problem.problem import Bounds, Problem, Read, Stream
from mdtensor.lower.problem.scatter_pattern import chosen
from mdtensor.translate.scalar import I64, Expr, apply, const, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import all_substituted, dims_in, params_in, substitute


def with_bounds(problem: Problem) -> Problem:
    """Rewrite conditions on a reduced dim as the bounds of its loop; unchanged without such.

    Every result of the scalar function must be `select(begin <= index & index < end, value,
    identity)` with one and the same condition; arrays tell a bound, and none depends on reduced
    dims. Other conditions beside these remain. The problem itself where that is not so.
    """
    found = chosen(problem)
    if found is None:
        return problem
    condition, values = found
    for dim in problem.contracted:
        begins: list[Expr] = []
        ends: list[Expr] = []
        others: list[Expr] = []
        for term in _terms(condition):
            bound = _bound(problem, dim, term)
            listed = others if bound is None else ends if bound.is_end else begins
            listed.append(term if bound is None else bound.expr)
        if begins and ends and any(map(params_in, (*begins, *ends))):
            bounds = Bounds(dim, _all(begins, "max"), _all(ends, "min"))
            results = _where(problem, others, values)
            return replace(problem, scalar=replace(problem.scalar, results=results), bounds=bounds)
    return problem


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bound of a range: its first index, or the index after its last."""

    expr: Expr
    is_end: bool


def _bound(problem: Problem, dim: int, term: Expr) -> _Bound | None:
    """The bound of a dim that a condition expresses; None for others, or if reduced dims matter."""
    op, args = term.op, term.args
    if op not in _MIRRORED:
        return None
    if not _is_index(args[0], problem.labels[dim]):
        op, args = _MIRRORED[op], args[::-1]
    index, other = args
    if not _is_index(index, problem.labels[dim]) or other.dtype != I64:
        return None
    if not dims_of(problem, other).isdisjoint(problem.contracted):
        return None
    return _Bound(other + 1 if op in ("le", "gt") else other, op in ("lt", "le"))


# Comparisons of indices, and what they are with sides changed.
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _where(
    problem: Problem, conditions: Sequence[Expr], values: Sequence[Expr]
) -> tuple[Expr, ...]:
    """Values selected where all conditions hold; the operator's identity elsewhere."""
    if not conditions:
        return tuple(values)
    assert problem.operator is not None and problem.operator.identity is not None
    condition = reduce(partial(apply, "and"), conditions)
    pairs = zip(values, problem.operator.identity, strict=True)
    return tuple([select(condition, value, const(none, value.dtype)) for value, none in pairs])


def _terms(condition: Expr) -> Iterator[Expr]:
    """The terms of a conjunction."""
    if condition.op != "and":
        yield condition
        return
    for arg in condition.args:
        yield from _terms(arg)


def _is_index(expr: Expr, label: str) -> bool:
    return expr.op == "index" and expr.value == label


def _all(bounds: Sequence[Expr], op: str) -> Expr:
    return reduce(partial(apply, op), bounds)


def dims_of(problem: Problem, *exprs: Expr) -> frozenset[int]:
    """The dims that expressions over reads depend on, directly or through the elements read."""
    reads = [problem.reads[n] for n in _numbers_of(problem, exprs)]
    exprs = (*exprs, *[part.expr for read in reads for part in read.computed])
    found = {problem.labels.index(label) for expr in exprs for label in dims_in(expr)}
    return frozenset(found.union(*[problem.used[read.stream] for read in reads]))


def dims_around(problem: Problem) -> frozenset[int]:
    """The dims on which the data-dependent bounds depend; empty without such."""
    bounds = problem.bounds
    return frozenset() if bounds is None else dims_of(problem, bounds.begin, bounds.end)


def _numbers_of(problem: Problem, exprs: Sequence[Expr]) -> list[int]:
    """The numbers of the reads that expressions use, also for computed addresses."""
    waiting, found = [*exprs], set[int]()
    while waiting:
        new = {*params_in(waiting.pop())} - found
        found |= new
        waiting += [part.expr for number in new for part in problem.reads[number].computed]
    return sorted(found)


def function_of(problem: Problem, bounds: Bounds) -> tuple[ScalarFunction, tuple[Read, ...]]:
    """The function that computes the bounds, and the reads that are its arguments."""
    numbers = _numbers_of(problem, (bounds.begin, bounds.end))
    types = [problem.scalar.params[n] for n in numbers]
    own = {n: param(k, dtype) for k, (n, dtype) in enumerate(zip(numbers, types, strict=True))}

    def moved(read: Read) -> Read:
        parts = [replace(part, expr=substitute(part.expr, own)) for part in read.computed]
        return replace(read, computed=tuple(parts))

    results = all_substituted((bounds.begin, bounds.end), own)
    reads = tuple([moved(problem.reads[n]) for n in numbers])
    return ScalarFunction(tuple(types), results, "bounds"), reads


@lru_cache(64)
def regular(problem: Problem) -> Problem:
    """The problem with all ranges of mean length, for estimates; unchanged without bounds.

    Ranges lie one behind the other, as those of the rows of a sparse array do.
    """
    bounds = problem.bounds
    if bounds is None:
        return problem
    around = sorted(dims_around(problem))
    ranges = math.prod([problem.extent(d) for d in around])
    mean = max(1, round(problem.extent(bounds.dim) / max(1, ranges)))
    extents = tuple(as_index(mean) if d == bounds.dim else n for d, n in enumerate(problem.extents))

    def stepping(stream: Stream) -> Stream:
        step = stream.strides[bounds.dim] * mean
        strides = [*stream.strides]
        for d in reversed(around if step.terms else ()):
            strides[d] = strides[d] + step
            step = step * problem.extent(d)
        return replace(stream, strides=tuple(strides))

    streams = tuple(map(stepping, problem.streams))
    return replace(problem, extents=extents, streams=streams, bounds=None)
