"""Places in fewer bits: elements of tuples that are indices are held in int32 where they fit.

Indices are int64, of which vectors hold half as many as of float32. Where an operator does nothing
with an element of its tuples but compare it with the other tuple's, and take one of the two, all
numbers in the same order do as well. `argmax` of rows is such a case, and every operator of a
user's that carries an index along is one. Only what is written has the width that was asked for.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mdtensor.lower.problem import Finish, Problem
from mdtensor.translate.combine import Operator
from mdtensor.translate.scalar import I64, Expr, Number, cast, const, equal, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import substitute

_I32 = np.dtype(np.int32)
_LEAST, _MOST = int(np.iinfo(_I32).min), int(np.iinfo(_I32).max)
_COMPARISONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))
_EITHER = frozenset(("select", "min", "max"))
_ON_ENDS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


def with_narrow_places(problem: Problem) -> Problem:
    """The same computation, whose tuples hold indices in int32; itself where none fit.

    Extents are numbers here: a structure is that of a problem which this was done to.
    """
    best = problem.operator
    if best is None or best.identity is None:
        return problem
    held = problem.scalar.results
    places = tuple(n for n in range(len(held)) if _is_narrow_place(problem, best, n))
    if not places:
        return problem
    results = tuple(_narrow(e) if n in places else e for n, e in enumerate(held))
    return replace(
        problem,
        scalar=replace(problem.scalar, results=results),
        operator=_narrow_operator(best, best.identity, places),
        finish=_widening(problem, best.identity, places),
    )


def _is_narrow_place(problem: Problem, best: Operator, n: int) -> bool:
    """Whether an element of the tuples is an index that fits, and is only compared and taken."""
    if problem.scalar.results[n].dtype != I64 or _span(problem.scalar.results[n], problem) is None:
        return False
    width = len(best.dtypes)
    pair = (n, n + width)
    for results in (best.results, best.in_order or best.results):
        uses = [_is_taken(result, pair) for result in results]
        if uses != [m == n for m in range(width)]:
            return False
    return True


def _span(expr: Expr, problem: Problem) -> tuple[int, int] | None:
    """The least and the greatest value of an index; None where they are unknown or do not fit.

    The ends of int32 are left to what is neutral.
    """
    if expr.op == "const" and isinstance(expr.value, int):
        low = high = int(expr.value)
    elif expr.op == "index":
        low, high = 0, problem.extent(problem.labels.index(str(expr.value))) - 1
    elif expr.op in ("add", "sub", "mul"):
        lhs, rhs = (_span(arg, problem) for arg in expr.args)
        if lhs is None or rhs is None:
            return None
        ends = [_ON_ENDS[expr.op](a, b) for a in lhs for b in rhs]
        low, high = min(ends), max(ends)
    else:
        return None
    return (low, high) if low > _LEAST and high < _MOST else None


def _is_taken(expr: Expr, pair: tuple[int, int]) -> bool | None:
    """Whether an expression is one of a pair of parameters, which are only compared otherwise.

    None where something else is done with them.
    """
    if expr.op == "param":
        return expr.number in pair
    uses = [_is_taken(arg, pair) for arg in expr.args]
    if None in uses:
        return None
    if expr.op == "select" and uses.pop(0):
        return None
    if all(uses) and uses:
        if expr.op in _COMPARISONS:
            return False
        return True if expr.op in _EITHER else None
    return None if any(uses) else False


def _narrow(expr: Expr) -> Expr:
    """An index in int32, whose parts fit too."""
    if expr.op == "const":
        assert isinstance(expr.value, int)
        return const(expr.value, _I32)
    if expr.op == "index":
        return cast(expr, _I32)
    return replace(expr, args=tuple(map(_narrow, expr.args)), dtype=_I32)


def _narrow_operator(
    best: Operator, identity: tuple[Number, ...], places: Sequence[int]
) -> Operator:
    types = tuple(_I32 if n in places else dtype for n, dtype in enumerate(best.dtypes))
    params = [param(n, dtype) for n, dtype in enumerate(types * 2)]

    def retyped(results: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(_retyped(result, params) for result in results)

    return replace(
        best,
        dtypes=types,
        results=retyped(best.results),
        identity=tuple(_neutral(v) if n in places else v for n, v in enumerate(identity)),
        in_order=None if best.in_order is None else retyped(best.in_order),
    )


def _retyped(expr: Expr, params: Sequence[Expr]) -> Expr:
    """The expression on parameters of other types; what takes one of several has their type."""
    if expr.op == "param":
        return params[expr.number]
    if not expr.args:
        return expr
    args = tuple(_retyped(arg, params) for arg in expr.args)
    return replace(expr, args=args, dtype=args[-1].dtype if expr.op in _EITHER else expr.dtype)


def _neutral(value: Number) -> int:
    """What stands for a neutral place: itself where it fits, or else an end of int32."""
    return min(max(int(value.real), _LEAST), _MOST)


def _widening(problem: Problem, identity: tuple[Number, ...], places: Sequence[int]) -> Finish:
    """The finish on tuples with narrow places."""
    held = problem.scalar.result_dtypes
    narrow = tuple(_I32 if n in places else dtype for n, dtype in enumerate(held))
    whole = [param(n, dtype) for n, dtype in enumerate(narrow)]
    for n in places:
        neutral = _neutral(identity[n])
        wide = cast(whole[n], I64)
        if neutral in (_LEAST, _MOST):
            wide = select(equal(whole[n], const(neutral, _I32)), const(identity[n], I64), wide)
        whole[n] = wide
    finish = problem.finish
    if finish is None:
        return Finish(ScalarFunction(narrow, tuple(whole), "value"))
    function = finish.function
    read = function.params[len(held) :]
    params = (*whole, *(param(len(held) + n, dtype) for n, dtype in enumerate(read)))
    return replace(
        finish,
        function=replace(
            function,
            params=(*narrow, *read),
            results=tuple(substitute(result, params) for result in function.results),
        ),
    )
