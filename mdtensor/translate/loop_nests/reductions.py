"""Construction of reduction entries in a nest."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from mdtensor.specs import computed_dtype, kind_of
from mdtensor.translate.loop_nests.affine_conditions import conjuncts
from mdtensor.translate.loop_nests.source_loop_nest import (
    Loops,
    Nest,
    Reduced,
    SourceLoop,
    SourceRead,
)
from mdtensor.translate.loop_nests.updates import operator
from mdtensor.translate.python.functions import conjunction
from mdtensor.translate.scalar import Expr, apply, cast


def reduction(nest: Nest, op: str, term: Expr, loops: Loops, outer: Loops) -> Expr:
    """The reduction of a term over loops; nested loops of one operator are merged.

    Constant factors of sums stay outside: `alpha` of a matrix product goes to the epilogue.
    """
    for loop in loops:
        counted = _counted(nest, op, term, loop)
        if counted is not None:
            term, loops = counted, tuple([other for other in loops if other != loop])
    if not loops:
        return term
    loops, term = _without_inner_range(nest, op, term, loops, outer)
    factor, term = _factored(nest, term) if op == "add" else (None, term)
    total = _reduction(nest, op, term, loops, outer)
    return total if factor is None else apply("mul", factor, total)


def _factored(nest: Nest, term: Expr) -> tuple[Expr | None, Expr]:
    """Split a product into its constant factors (None without any) and the rest."""
    if kind_of(term.dtype) not in "fc":
        return None, term
    factors = _factors(term)
    fixed = [factor for factor in factors if _is_fixed(nest, factor)]
    varying = [factor for factor in factors if not _is_fixed(nest, factor)]
    if not fixed or not varying:
        return None, term
    return _product(fixed), _product(varying)


def _counted(nest: Nest, op: str, term: Expr, loop: SourceLoop) -> Expr | None:
    """The reduction of a loop-invariant term over a data-dependent range; None for others.

    The bounds of such a loop are data, so its iterations can be counted.
    """
    if loop.range is None or term.op != "select" or op not in ("add", "min", "max", "and", "or"):
        return None
    condition, value, nothing = term.args
    inside = conjuncts(loop.range.test(loop.name))
    tests = [test for test in conjuncts(condition) if test not in inside]
    if loop.name in nest.dims_of(value, nothing, *tests):
        return None
    if op == "add":
        value = cast(value, computed_dtype(value.dtype))
        value = apply("mul", value, cast(loop.range.count, value.dtype))
    tests.append(apply("lt", loop.range.begin, loop.range.end))
    return apply("select", functools.reduce(conjunction, tests), value, nothing)


def _without_inner_range(
    nest: Nest, op: str, term: Expr, loops: Loops, outer: Loops
) -> tuple[Loops, Expr]:
    """Hoist an inner data-dependent range out of loops that decide its bounds.

    What that range gives is a reduction of its own, for each iteration of one loop: a range that
    depends on a dim which is reduced as well would be no loop from begin to end. It stays where it
    depends on further loops, of which there would be an array with all of their iterations.
    """
    for loop in reversed(loops):
        others = tuple([other for other in loops if other != loop])
        names = {other.name for other in others}
        if loop.range is None or term.op != "select":
            continue
        if names.isdisjoint(nest.dims_of(loop.range.begin, loop.range.end)):
            continue
        condition, value, nothing = term.args
        own, rest = list[Expr](), list[Expr]()
        mine = conjuncts(loop.range.test(loop.name))
        for test in conjuncts(condition):
            (own if test in mine or loop.name in nest.dims_of(test) else rest).append(test)
        inside = apply("select", functools.reduce(conjunction, own), value, nothing)
        around = nest.dims_of(inside) & {other.name for other in (*outer, *others)}
        if len(around) > 1 or not rest:
            continue
        found = reduction(nest, op, inside, (loop,), (*outer, *others))
        nothing = cast(nothing, found.dtype)
        term = apply("select", functools.reduce(conjunction, rest), found, nothing)
        return _without_inner_range(nest, op, term, others, outer)
    return loops, term


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
    return isinstance(entry, SourceRead) and not entry.index


def _reduction(nest: Nest, op: str, term: Expr, loops: Loops, outer: Loops) -> Expr:
    inner = nest.entries[term.number] if term.op == "param" else None
    if isinstance(inner, Reduced) and inner.operator == operator(op, term):
        return nest.add(Reduced(inner.operator, (*loops, *inner.loops), outer, inner.term))
    term = cast(term, computed_dtype(term.dtype))
    return nest.add(Reduced(operator(op, term), loops, outer, term))
