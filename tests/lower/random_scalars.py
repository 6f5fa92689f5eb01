"""Random scalar functions whose values are known well enough to compare kernels exactly.

A `Term` is an expression and the range of its values. Floats stay integers that every type
represents, so that sums do not depend on their order and comparisons have one answer; where
functions such as `sin` make a term inexact, nothing compares it or counts with it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdtensor.translate.scalar import BOOL, I64, Expr, apply, cast, const, select

_EXACT = {2: 1 << 20, 4: 1 << 20, 8: 1 << 40}  # integers that a float of so many bytes adds exactly
_COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")
_BINARY = ("add", "add", "sub", "mul", "mul", "min", "max", *_COMPARED)
_WHOLE = ("and", "or", "xor", "mod", "floordiv", "lshift", "rshift")
_UNARY = ("neg", "abs", "sign", "cast", "cast", "not")
_COMPLEX = ("add", "sub", "mul", "neg", "real", "imag", "eq", "ne", "cast")
_MATHS = ("sin", "cos", "tanh", "atan", "exp", "sqrt", "div")
_TYPES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


@dataclass(frozen=True)
class Term:
    """An expression, its least and largest value (infinite where it wraps), and its exactness.

    The range of a complex term is that of its real and of its imaginary part.
    """

    expr: Expr
    low: float
    high: float
    exact: bool = True

    @property
    def dtype(self) -> np.dtype:
        return self.expr.dtype

    @property
    def kind(self) -> str:
        return self.expr.dtype.kind

    @property
    def size(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))


def random_term(
    rng: random.Random, leaves: Sequence[Term], depth: int, *, maths: bool = False
) -> Term:
    """A term of at most so many operations above each other; inexact ones only with `maths`."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(leaves)
    first = random_term(rng, leaves, depth - 1, maths=maths)
    if rng.random() < 0.15:
        return _selected(rng, leaves, depth, first, maths)
    if maths and rng.random() < 0.3:
        return _function(rng, first) or first
    operations = _COMPLEX if first.kind == "c" else (*_BINARY, *_UNARY)
    if first.kind in "iu":
        operations = (*operations, *_WHOLE)
    op = rng.choice(operations)
    if op in ("neg", "abs", "sign", "not", "real", "imag"):
        return _unary(op, first) or first
    if op == "cast":
        return _cast(first, np.dtype(rng.choice(_TYPES))) or first
    if op in ("mod", "floordiv", "lshift", "rshift"):
        number = const(rng.choice((2, 3, 7)), first.dtype)
        second = Term(number, float(number.value or 0), float(number.value or 0))
    elif rng.random() < 0.2 and first.kind != "b":
        value = rng.randint(0, 3)
        second = Term(const(value, first.dtype), value, value)
    else:
        second = random_term(rng, leaves, depth - 1, maths=maths)
    return binary(op, first, second) or first


def _selected(
    rng: random.Random, leaves: Sequence[Term], depth: int, first: Term, maths: bool
) -> Term:
    sides = [random_term(rng, leaves, depth - 1) for _ in range(2)]
    condition = binary(rng.choice(_COMPARED), *sides)
    second = random_term(rng, leaves, depth - 1, maths=maths)
    common = np.result_type(first.dtype, second.dtype)
    if condition is None or not _may_become(first, common) or not _may_become(second, common):
        return first
    expr = select(condition.expr, first.expr, second.expr)
    low, high = min(first.low, second.low), max(first.high, second.high)
    return Term(expr, low, high, first.exact and second.exact)


def _may_become(term: Term, dtype: np.dtype) -> bool:
    """Whether all values of a term are values of a type that holds more."""
    if dtype.kind in "fc" and term.kind in "iu":
        return term.size <= _EXACT[_part(dtype)]
    return True


def _part(dtype: np.dtype) -> int:
    return dtype.itemsize // (2 if dtype.kind == "c" else 1)


def binary(op: str, lhs: Term, rhs: Term) -> Term | None:
    """The term of an operation; None where it is not defined or might be inexact."""
    common = np.result_type(lhs.dtype, rhs.dtype)
    if not _may_become(lhs, common) or not _may_become(rhs, common):
        return None
    if common.kind == "c" and op not in _COMPLEX:
        return None
    if op in _COMPARED:
        if not (lhs.exact and rhs.exact):
            return None
        return Term(apply(op, lhs.expr, rhs.expr), 0, 1)
    if common == BOOL:
        return Term(apply(op, lhs.expr, rhs.expr), 0, 1) if op in ("add", "mul", "min") else None
    if op in ("and", "or", "xor", "lshift", "rshift"):
        whole = common.kind in "iu"
        return Term(apply(op, lhs.expr, rhs.expr), -math.inf, math.inf) if whole else None
    return _bounded(op, lhs, rhs, common)


def _bounded(op: str, lhs: Term, rhs: Term, common: np.dtype) -> Term | None:
    if op == "add":
        ends = [lhs.low + rhs.low, lhs.high + rhs.high]
    elif op == "sub":
        ends = [lhs.low - rhs.high, lhs.high - rhs.low]
    elif op == "mul":
        ends = [0 if 0 in (x, y) else x * y for x in _ends(lhs) for y in _ends(rhs)]
        if common.kind == "c":
            ends = [-2 * lhs.size * rhs.size, 2 * lhs.size * rhs.size]
    elif op == "mod":
        ends = [0, rhs.size]
    elif op == "floordiv":
        ends = [-lhs.size, lhs.size]
    else:
        pick = min if op == "min" else max
        ends = [pick(lhs.low, rhs.low), pick(lhs.high, rhs.high)]
    return _within(apply(op, lhs.expr, rhs.expr), ends, lhs.exact and rhs.exact)


def _ends(term: Term) -> tuple[float, float]:
    return term.low, term.high


def _within(expr: Expr, ends: Sequence[float], exact: bool) -> Term | None:
    """The term of an expression whose values lie between ends, or anywhere where it wraps."""
    low, high = min(ends), max(ends)
    dtype = expr.dtype
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if not (info.min <= low <= high <= info.max):
            low, high = -math.inf, math.inf
    elif dtype.kind in "fc" and not max(abs(low), abs(high)) <= _EXACT[_part(dtype)]:
        return None
    return Term(expr, low, high, exact)


def _unary(op: str, term: Term) -> Term | None:
    if op == "not":
        return Term(apply(op, term.expr), 0, 1) if term.exact and term.kind != "c" else None
    if op in ("real", "imag"):
        return Term(apply(op, term.expr), term.low, term.high, term.exact)
    if term.kind == "b" or (op in ("abs", "sign") and term.kind == "c"):
        return None
    if op == "sign":
        return Term(apply(op, term.expr), -1, 1) if term.exact else None
    ends = [-term.low, -term.high] if op == "neg" else [0, term.size]
    return _within(apply(op, term.expr), ends, term.exact)


def _cast(term: Term, dtype: np.dtype) -> Term | None:
    """The term converted, where the result is the same in every language."""
    if not term.exact and dtype.kind not in "fc":
        return None
    if term.kind in "fc" and dtype.kind in "iu":
        info = np.iinfo(dtype)
        if not info.min <= term.low <= term.high <= info.max:
            return None
    if not _may_become(term, dtype):
        return None
    if dtype == BOOL:
        return Term(cast(term.expr, dtype), 0, 1)
    return _within(cast(term.expr, dtype), _ends(term), term.exact)


def _function(rng: random.Random, term: Term) -> Term | None:
    """A function of an exact real number, of moderate size."""
    if not term.exact or term.kind == "c" or not _may_become(term, np.dtype("f4")):
        return None
    wide = term.expr if term.kind == "f" else cast(term.expr, "f4")
    op = rng.choice(_MATHS)
    match op:
        case "exp":
            return Term(apply(op, apply("neg", apply("abs", wide))), 0, 1, exact=False)
        case "sqrt":
            return Term(apply(op, apply("abs", wide)), 0, math.sqrt(term.size), exact=False)
        case "div":
            return Term(apply(op, wide, 3), -term.size, term.size, exact=False)
        case _:
            return Term(apply(op, wide), -2, 2, exact=False)


def fitted(term: Term, dtype: np.dtype, limit: float) -> Term | None:
    """The term as one of a type and of at most a magnitude; None where that cannot be had."""
    if term.kind == "c" and dtype.kind != "c":
        term = replace(term, expr=apply("real", term.expr))
    if not term.exact and dtype.kind not in "fc":
        return None
    if dtype.kind in "fc":
        if term.kind in "iu" and term.size > limit:
            seven = const(7, term.dtype)
            inside = apply("mod", term.expr, seven)
            term = Term(inside, 0, 6)
        term = replace(term, expr=cast(term.expr, dtype))
        if term.size > limit and dtype.kind == "f":
            top = int(limit)
            expr = apply("max", apply("min", term.expr, top), -top)
            term = replace(term, expr=expr, low=-top, high=top)
        return term if term.size <= limit else None
    if term.kind == "f":
        if term.size > 1 << 30:
            return None
        term = replace(term, expr=cast(term.expr, I64))
    return _cast(term, dtype)


def magnitude(expr: Expr) -> Expr:
    """An expression of the same type that bounds how far rounding errors can grow.

    Every operation on floats is replaced by one that takes no differences, so that the error of
    `expr` is at most its number of operations, in units of rounding, times this value. That of
    complex numbers is a real one, which bounds the errors of both parts.
    """
    if expr.dtype.kind not in "fc" or expr.op == "index":
        return expr
    match expr.op:
        case "add" | "sub":
            return apply("add", *map(magnitude, expr.args))
        case "mul":
            return apply("mul", *map(magnitude, expr.args))
        case "min" | "max":
            return apply("max", *map(magnitude, expr.args))
        case "neg":
            return magnitude(expr.args[0])
        case "cast" if expr.args[0].dtype.kind in "fc":
            return cast(magnitude(expr.args[0]), expr.dtype)
        case "real" | "imag":
            return apply("real", magnitude(expr.args[0]))
        case "select":
            condition, then, otherwise = expr.args
            return select(condition, magnitude(then), magnitude(otherwise))
        case "div":
            lhs, rhs = expr.args
            return apply("div", magnitude(lhs), cast(apply("abs", rhs), rhs.dtype))
        case _:
            return cast(apply("abs", expr), expr.dtype)
