"""Fixed-point representation: exact multiples of a common step are held as integers.

Sums of weights that conditions select, as scores are, are such numbers: where every partial sum is
exact, the integers are added instead, and nothing is rounded either way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.translate.graphs import RECURSIVE, folded
from mdtensor.translate.scalar import BOOL, Expr, const

I32 = np.dtype(np.int32)
LEAST, MOST = int(np.iinfo(I32).min), int(np.iinfo(I32).max)


@dataclass(frozen=True, slots=True)
class Steps:
    """The range from `low` to `high` of multiples of `size`, a power of two."""

    size: Fraction
    low: Fraction
    high: Fraction

    def __or__(self, other: Steps) -> Steps:
        return Steps(
            min(self.size, other.size), min(self.low, other.low), max(self.high, other.high)
        )

    def plus(self, other: Steps, sign: int) -> Steps:
        """The range of a sum, or of a difference."""
        ends = sorted((sign * other.low, sign * other.high))
        return Steps(min(self.size, other.size), self.low + ends[0], self.high + ends[1])

    def is_exact(self, dtype: np.dtype) -> bool:
        """Whether a type represents all values of the range exactly."""
        most = max(abs(self.low), abs(self.high))
        if dtype.kind == "f":
            held = np.finfo(dtype)
            return most / self.size <= 2 ** (held.nmant + 1) and most <= Fraction(float(held.max))
        limits = np.iinfo(dtype)
        return limits.min <= self.low and self.high <= limits.max

    def fit(self) -> bool:
        """Whether the number of steps fits an int32, whose ends are reserved for identities."""
        return self.low / self.size > LEAST and self.high / self.size < MOST

    def number(self, value: float) -> int | None:
        """A value in steps, clamped to the ends of int32; None where it is fractional.

        No integer stands for -0.0.
        """
        if math.isnan(value) or (value == 0 and math.copysign(1, value) < 0):
            return None
        if math.isinf(value):
            return MOST if value > 0 else LEAST
        count = Fraction(value) / self.size
        if not LEAST < count < MOST:
            return MOST if count > 0 else LEAST
        return int(count) if count.denominator == 1 else None


def steps_of(expr: Expr, extents: Mapping[str, int]) -> Steps | None:
    """The fixed-point range of an expression; None if it is unknown, or a sum is rounded.

    >>> from mdtensor.translate.scalar import equal, param, select
    >>> agree = equal(param(0, "i4"), param(1, "i4"))
    >>> found = steps_of(select(agree, const(2.5, "f8"), const(-1, "f8")), {})
    >>> float(found.size), float(found.low), float(found.high)
    (0.5, -1.0, 2.5)
    """
    if expr.depth > RECURSIVE:
        return None

    def step(node: Expr, args: list[Steps | None]) -> Steps | None:
        if node.dtype.kind not in "if" or node.dtype.name not in _KNOWN:
            return None
        found = _steps_of(node, args, extents)
        return found if found is not None and found.is_exact(node.dtype) else None

    return folded([expr], step)[0]


_KNOWN = ("int8", "int16", "int32", "int64", "float32", "float64")


def _steps_of(expr: Expr, args: list[Steps | None], extents: Mapping[str, int]) -> Steps | None:
    match expr.op:
        case "const":
            return _of_constant(expr)
        case "index":
            return Steps(Fraction(1), Fraction(0), Fraction(extents[str(expr.value)] - 1))
        case "cast" if expr.args[0].dtype == BOOL:
            return Steps(Fraction(1), Fraction(0), Fraction(1))
        case "cast":
            is_cut = expr.dtype.kind == "i" and expr.args[0].dtype.kind == "f"
            return None if is_cut else args[0]
        case "select" | "add" | "sub" | "mul":
            lhs, rhs = args[-2:]
            if lhs is None or rhs is None:
                return None
        case _:
            return None
    if expr.op == "select":
        return lhs | rhs
    if expr.op != "mul":
        return lhs.plus(rhs, 1 if expr.op == "add" else -1)
    if expr.dtype.kind == "f":
        return None
    ends = [a * b for a in (lhs.low, lhs.high) for b in (rhs.low, rhs.high)]
    return Steps(Fraction(1), min(ends), max(ends))


def _of_constant(expr: Expr) -> Steps | None:
    value = expr.value
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    if value == 0 and math.copysign(1, value) < 0:
        return None  # an integer has one zero only
    exact = Fraction(float(np.asarray(value, expr.dtype)) if expr.dtype.kind == "f" else value)
    step = Fraction(1)
    if expr.dtype.kind == "f" and exact:
        numerator = abs(exact.numerator)
        step = Fraction(numerator & -numerator, exact.denominator)
    return Steps(step, exact, exact)


@lru_cache(1024)  # what is shared is looked at once
def counted(expr: Expr, size: Fraction) -> Expr:
    """The expression in fixed point: an int32 number of steps."""
    match expr.op:
        case "const":
            assert isinstance(expr.value, int | float)
            exact = float(np.asarray(expr.value, expr.dtype))
            value = Fraction(exact if expr.dtype.kind == "f" else int(expr.value))
            return const(int(value / size), I32)
        case "cast" if expr.args[0].dtype.kind in "if":
            return counted(expr.args[0], size)
        case "select":
            condition, *choices = expr.args
            return Expr("select", (condition, *(counted(c, size) for c in choices)), I32)
        case "add" | "sub":
            return Expr(expr.op, tuple(counted(arg, size) for arg in expr.args), I32)
        case "mul":
            whole = Expr("mul", tuple(counted(arg, Fraction(1)) for arg in expr.args), I32)
        case _:
            whole = Expr("cast", (expr,), I32)
    return whole if size == 1 else Expr("mul", (whole, const(int(1 / size), I32)), I32)
