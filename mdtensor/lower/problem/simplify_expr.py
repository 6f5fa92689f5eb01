"""Simplification of scalar expressions: folds constants in comparisons, conditions, casts."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from mdtensor.translate.graphs import RECURSIVE
from mdtensor.translate.scalar import BOOL, Expr, cast, const
from mdtensor.translate.trees import all_rewritten, rewritten

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
# Operations on integers whose low bits depend on low bits only.
_MODULAR = frozenset(("add", "sub", "mul"))

TRUE, FALSE = const(True, BOOL), const(False, BOOL)


def simplified(expr: Expr) -> Expr:
    """A simplified expression with the same values.

    >>> from mdtensor.translate.scalar import equal, param, select
    >>> agree = equal(param(0, "i4"), param(1, "i4"))
    >>> simplified(equal(select(agree, const(14, "i4"), const(3, "i4")), const(14, "i4")))
    (p0 == p1)
    """
    return rewritten(expr, _rule)


def all_simplified(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
    """Simplify several expressions; subexpressions stay shared."""
    return all_rewritten(exprs, _rule)


def _rule(expr: Expr) -> Expr:
    if expr.op == "select":
        condition, then, otherwise = expr.args
        if expr.dtype == BOOL:
            return either(condition, then, otherwise)
        if condition.op == "const":
            return then if condition.value else otherwise
        return then if then == otherwise else expr
    if expr.dtype == BOOL and expr.op in _COMPARED:
        return _comparison(expr)
    if expr.dtype == BOOL and expr.op in ("and", "or", "not"):
        return {"and": both, "or": any_of, "not": negated}[expr.op](*expr.args)
    if expr.op == "add" and expr.dtype.kind in "iu":
        return _sum(*expr.args)
    if expr.op == "cast" and expr.dtype.kind in "iu":
        return _truncated(expr.args[0], expr.dtype)
    return expr


# ---- conditions -------------------------------------------------------------------------------


def both(lhs: Expr, rhs: Expr) -> Expr:
    """The simplified conjunction of two conditions."""
    if lhs == rhs or FALSE in (lhs, rhs):
        return FALSE if FALSE in (lhs, rhs) else lhs
    if TRUE in (lhs, rhs):
        return rhs if lhs == TRUE else lhs
    return Expr("and", (lhs, rhs), BOOL)


def any_of(lhs: Expr, rhs: Expr) -> Expr:
    """The simplified disjunction of two conditions."""
    if lhs == rhs or TRUE in (lhs, rhs):
        return TRUE if TRUE in (lhs, rhs) else lhs
    if FALSE in (lhs, rhs):
        return rhs if lhs == FALSE else lhs
    return Expr("or", (lhs, rhs), BOOL)


def negated(condition: Expr) -> Expr:
    """The simplified negation of a condition."""
    if condition.op == "const":
        return FALSE if condition.value else TRUE
    if condition.op == "not":
        return condition.args[0]
    return Expr("not", (condition,), BOOL)


def either(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """The simplified selection of `then` or `otherwise`, both conditions, by `condition`."""
    if condition.op == "const":
        return then if condition.value else otherwise
    if then == otherwise:
        return then
    if then.op == "const":
        rest = any_of if then.value else both
        return rest(condition if then.value else negated(condition), otherwise)
    if otherwise.op == "const":
        rest = any_of if otherwise.value else both
        return rest(negated(condition) if otherwise.value else condition, then)
    return Expr("select", (condition, then, otherwise), BOOL)


# ---- numbers ----------------------------------------------------------------------------------


def _comparison(expr: Expr) -> Expr:
    """A comparison folded by constants: moved into a select's branches, or decided by ranges."""
    lhs, rhs = expr.args
    if lhs.op == rhs.op == "const":
        one, other = (np.asarray(side.value, side.dtype) for side in (lhs, rhs))
        return const(bool(_COMPARED[expr.op](one, other)), BOOL)
    if expr.depth > RECURSIVE:
        return expr
    if rhs.op == "const" and lhs.op == "select" and _has_constant(lhs):
        condition, *choices = lhs.args
        parts = [_comparison(replace(expr, args=(choice, rhs))) for choice in choices]
        return either(condition, *parts)
    if lhs.op == "const" and rhs.op == "select" and _has_constant(rhs):
        condition, *choices = rhs.args
        parts = [_comparison(replace(expr, args=(lhs, choice))) for choice in choices]
        return either(condition, *parts)
    mine, its = span_of(lhs), span_of(rhs)
    if mine is None or its is None or (mine[1] >= its[0] and its[1] >= mine[0]):
        return expr
    return const(_COMPARED[expr.op](mine[0], its[0]), BOOL)


def _has_constant(selection: Expr) -> bool:
    return any(choice.op == "const" for choice in selection.args[1:])


def _sum(lhs: Expr, rhs: Expr) -> Expr:
    """A normalised sum of integers: its constants are merged, and come last."""
    (first, before), (second, behind) = _split(lhs), _split(rhs)
    constant = _wrapped(before + behind, lhs.dtype)
    terms = [term for term in (first, second) if term is not None]
    if not terms:
        return constant
    total = terms[0] if len(terms) == 1 else Expr("add", tuple(terms), lhs.dtype)
    return total if constant.value == 0 else Expr("add", (total, constant), lhs.dtype)


def _split(expr: Expr) -> tuple[Expr | None, int]:
    """A summand without its constant part, and that constant."""
    if expr.op == "const":
        assert isinstance(expr.value, int)
        return None, expr.value
    if expr.op == "add" and expr.args[1].op == "const":
        assert isinstance(expr.args[1].value, int)
        return expr.args[0], expr.args[1].value
    if expr.op == "select" and all(choice.op == "const" for choice in expr.args[1:]):
        condition, then, otherwise = expr.args
        assert isinstance(then.value, int)
        assert isinstance(otherwise.value, int)
        choices = _wrapped(then.value - otherwise.value, expr.dtype), const(0, expr.dtype)
        return Expr("select", (condition, *choices), expr.dtype), otherwise.value
    return expr, 0


def _wrapped(value: int, dtype: np.dtype) -> Expr:
    """An integer constant, wrapped to the range of its type."""
    bits = 8 * dtype.itemsize
    low = value % (1 << bits)
    is_negative = dtype.kind == "i" and low >> (bits - 1)
    return const(low - (1 << bits) if is_negative else low, dtype)


@lru_cache(4096)  # what is shared is looked at once
def span_of(expr: Expr) -> tuple[int, int] | None:
    """The value range of an integer expression, from its constants; None where it is unknown.

    >>> from mdtensor.translate.scalar import equal, param, select
    >>> one = select(equal(param(0, "i4"), param(1, "i4")), const(1, "i8"), const(0, "i8"))
    >>> span_of(one + one), span_of(param(0, "i4"))
    ((0, 2), None)
    """
    if expr.dtype.kind not in "iu" or expr.depth > RECURSIVE:
        return None
    found: tuple[int, int] | None = None
    if expr.op == "const":
        assert isinstance(expr.value, int)
        found = expr.value, expr.value
    elif expr.op == "cast":
        found = (0, 1) if expr.args[0].dtype == BOOL else span_of(expr.args[0])
    elif expr.op in ("select", "add", "sub"):
        lhs, rhs = (span_of(arg) for arg in expr.args[-2:])
        if lhs is None or rhs is None:
            return None
        if expr.op == "select":
            found = min(lhs[0], rhs[0]), max(lhs[1], rhs[1])
        elif expr.op == "add":
            found = lhs[0] + rhs[0], lhs[1] + rhs[1]
        else:
            found = lhs[0] - rhs[1], lhs[1] - rhs[0]
    if found is None:
        return None
    limits = np.iinfo(expr.dtype)
    return found if limits.min <= found[0] and found[1] <= limits.max else None


@lru_cache(4096)  # what is shared is converted once
def _truncated(expr: Expr, dtype: np.dtype) -> Expr:
    """An integer expression truncated to a type that is no wider, recursively."""
    is_wider = dtype.itemsize > expr.dtype.itemsize
    if is_wider or expr.dtype.kind not in "iu" or expr.depth > RECURSIVE:
        return cast(expr, dtype)
    if expr.op == "const":
        assert isinstance(expr.value, int)
        return const(int(np.array(expr.value, expr.dtype).astype(dtype)), dtype)
    if expr.op in _MODULAR:
        return Expr(expr.op, tuple(_truncated(arg, dtype) for arg in expr.args), dtype)
    if expr.op == "select":
        condition, *choices = expr.args
        return Expr("select", (condition, *(_truncated(c, dtype) for c in choices)), dtype)
    if expr.op == "cast" and expr.args[0].dtype.kind in "iu":
        inner = expr.args[0]
        if dtype.itemsize <= inner.dtype.itemsize:
            return _truncated(inner, dtype)
    return cast(expr, dtype)
