"""Entries for reductions that loops carry out."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from mdtensor.specs import computed_dtype
from mdtensor.translate.loop_nests.source_loop_nest import Loops, Nest, Read, Reduced
from mdtensor.translate.loop_nests.updates import operator
from mdtensor.translate.scalar import Expr, apply, cast


def reduction(nest: Nest, op: str, term: Expr, loops: Loops, outer: Loops) -> Expr:
    """All values of a term combined; nested loops of one operator are one.

    Constant factors of sums stay outside: `alpha` of a matrix product goes to the epilogue.
    """
    factor, term = _factored(nest, term) if op == "add" else (None, term)
    total = _reduction(nest, op, term, loops, outer)
    return total if factor is None else apply("mul", factor, total)


def _factored(nest: Nest, term: Expr) -> tuple[Expr | None, Expr]:
    """A product as what is the same in all iterations, if there is that, and what is not."""
    if term.dtype.kind not in "fc":
        return None, term
    factors = _factors(term)
    fixed = [factor for factor in factors if _is_fixed(nest, factor)]
    varying = [factor for factor in factors if not _is_fixed(nest, factor)]
    if not fixed or not varying:
        return None, term
    return _product(fixed), _product(varying)


def _product(factors: Sequence[Expr]) -> Expr:
    return functools.reduce(lambda lhs, rhs: apply("mul", lhs, rhs), factors)


def _factors(term: Expr) -> list[Expr]:
    return [f for arg in term.args for f in _factors(arg)] if term.op == "mul" else [term]


def _is_fixed(nest: Nest, factor: Expr) -> bool:
    """Whether a factor is a constant or an element of an array without axes."""
    if factor.op == "cast":
        return _is_fixed(nest, factor.args[0])
    if factor.op != "param":
        return factor.op == "const"
    entry = nest.entries[factor.number]
    return isinstance(entry, Read) and not entry.index


def _reduction(nest: Nest, op: str, term: Expr, loops: Loops, outer: Loops) -> Expr:
    inner = nest.entries[term.number] if term.op == "param" else None
    if isinstance(inner, Reduced) and inner.operator == operator(op, term):
        return nest.add(Reduced(inner.operator, (*loops, *inner.loops), outer, inner.term))
    term = cast(term, computed_dtype(term.dtype))
    return nest.add(Reduced(operator(op, term), loops, outer, term))
