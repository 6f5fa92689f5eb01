"""Narrowing of tuples: indices and exact scores are held in int32 where they fit.

Indices are int64, of which vectors hold half as many as of float32. Where an operator does nothing
with an element of its tuples but compare it with the other tuple's, and take one of the two, all
numbers in the same order do as well. `argmax` of rows is such a case, and every operator of a
user's that carries an index along is one. So are scores in float64 that are sums of constants,
which conditions select: they are so many steps of one size (`lower.problem.fixed_point`), and need
neither float64 nor rounding to be compared. So are sums of such steps, as counts are, where all
that there are to add up fit. Only what is written has the type that was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from mdtensor.lower.problem.fixed_point import I32, LEAST, MOST, Steps, counted, steps_of
from mdtensor.lower.problem.problem import Finish, Problem
from mdtensor.lower.problem.simplify_expr import simplified
from mdtensor.translate.combine import Operator
from mdtensor.translate.graphs import folded
from mdtensor.translate.operations import COMPARISONS
from mdtensor.translate.scalar import F64, I64, Expr, Number, cast, const, equal, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import all_rewritten

_EITHER = frozenset(("select", "min", "max"))
# The steps of narrow places, by their numbers.
Places = Mapping[int, Steps]


def with_narrow_places(problem: Problem) -> Problem:
    """Rewrite a problem's tuples to narrow types; unchanged where none fits.

    It needs fixed extents, so that a structure is generalised afterwards.
    """
    best = problem.operator
    if best is None or best.identity is None:
        return problem
    held = problem.scalar.results
    found = {n: _narrow_place(problem, best, n, best.identity[n]) for n in range(len(held))}
    places = {n: steps for n, steps in found.items() if steps is not None}
    if not places:
        return problem
    results = tuple(
        simplified(counted(e, places[n].size)) if n in places else e for n, e in enumerate(held)
    )
    return replace(
        problem,
        scalar=replace(problem.scalar, results=results),
        operator=_narrow_operator(best, best.identity, places),
        finish=_widening(problem, best.identity, places),
    )


def _narrow_place(problem: Problem, best: Operator, n: int, identity: Number) -> Steps | None:
    """The fixed-point range of a tuple element that can be narrowed; None if it cannot."""
    expr = problem.scalar.results[n]
    if expr.dtype not in (I64, F64) or isinstance(identity, complex):
        return None
    extents = {label: problem.extent(d) for d, label in enumerate(problem.labels)}
    steps = steps_of(expr, extents)
    if steps is None or not steps.fit() or steps.number(identity) is None:
        return None
    width = len(best.dtypes)
    pair = (n, n + width)
    if best.results[n].op == "add":
        return _sums(problem, best, n, steps)
    for results in (best.results, best.in_order or best.results):
        uses = [_is_taken(result, pair) for result in results]
        if uses != [m == n for m in range(width)]:
            return None
    return steps


def _sums(problem: Problem, best: Operator, n: int, steps: Steps) -> Steps | None:
    """The fixed-point range of a whole sum; None if it does not fit, or other results use it."""
    width = len(best.dtypes)
    added = [arg.number for arg in best.results[n].args if arg.op == "param"]
    others = [_is_taken(best.results[m], (n, n + width)) for m in range(width) if m != n]
    if sorted(added) != [n, n + width] or any(use is not False for use in others):
        return None
    if best.in_order is not None or problem.scanned >= 0:
        return None
    if best.identity is None or best.identity[n] != 0:
        return None
    count = math.prod(problem.extent(d) for d in problem.contracted)
    whole = Steps(
        steps.size, min(steps.low * count, steps.low), max(steps.high * count, steps.high)
    )
    return whole if whole.fit() and whole.is_exact(best.dtypes[n]) else None


def _is_taken(expr: Expr, pair: tuple[int, int]) -> bool | None:
    """Whether an expression selects one of a pair of parameters; False if it compares at most.

    None where it uses them otherwise.
    """
    return folded([expr], lambda node, uses: _takes(node, uses, pair))[0]


def _takes(expr: Expr, uses: list[bool | None], pair: tuple[int, int]) -> bool | None:
    """The step of `_is_taken` for one node, given the results for its arguments."""
    if expr.op == "param":
        return expr.number in pair
    if None in uses:
        return None
    if expr.op == "select" and uses[0]:
        return None
    uses = uses[1:] if expr.op == "select" else uses
    if all(uses) and uses:
        if expr.op in COMPARISONS:
            return False
        return True if expr.op in _EITHER else None
    return None if any(uses) else False


def _narrow_operator(best: Operator, identity: tuple[Number, ...], places: Places) -> Operator:
    neutral = tuple(_neutral(v, places[n]) if n in places else v for n, v in enumerate(identity))
    types = tuple(I32 if n in places else dtype for n, dtype in enumerate(best.dtypes))
    params = [param(n, dtype) for n, dtype in enumerate(types * 2)]

    def retyped(results: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return all_rewritten(results, retype)

    def retype(node: Expr) -> Expr:
        """Gives selections and sums the type of their arguments."""
        if node.op == "param":
            return params[node.number]
        is_either = node.op in _EITHER or node.op == "add"
        return replace(node, dtype=node.args[-1].dtype) if is_either else node

    return replace(
        best,
        dtypes=types,
        results=retyped(best.results),
        identity=neutral,
        in_order=None if best.in_order is None else retyped(best.in_order),
    )


def _neutral(value: Number, steps: Steps) -> int:
    """The identity in steps, clamped to an end of int32 where it does not fit."""
    assert not isinstance(value, complex)
    number = steps.number(value)
    assert number is not None
    return number


def _widening(problem: Problem, identity: tuple[Number, ...], places: Places) -> Finish:
    """The epilogue that converts narrow elements back to their original types."""
    held = problem.scalar.result_dtypes
    narrow = tuple(I32 if n in places else dtype for n, dtype in enumerate(held))
    whole = [param(n, dtype) for n, dtype in enumerate(narrow)]
    for n, steps in places.items():
        neutral = _neutral(identity[n], steps)
        wide = cast(whole[n], held[n])
        if steps.size != 1:
            wide = wide * const(float(steps.size), held[n])
        if neutral in (LEAST, MOST):
            wide = select(equal(whole[n], const(neutral, I32)), const(identity[n], held[n]), wide)
        whole[n] = wide
    finish = problem.finish
    if finish is None:
        return Finish(ScalarFunction(narrow, tuple(whole), "value"))
    return replace(finish, function=finish.function.after(narrow, whole))
