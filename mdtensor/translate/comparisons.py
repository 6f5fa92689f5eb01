"""Exact comparisons of integers, as NumPy's: of mixed signs, and with numbers out of range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.translate.operations import MIRRORED

Applied = Callable[..., Any]


def exact_comparison(apply: Applied, op: str, lhs: Any, rhs: Any) -> Any:
    """Rewrite a comparison of integers without a common integer type; None if unneeded.

    >>> from mdtensor.translate.scalar import apply, param, weak
    >>> exact_comparison(apply, "lt", param(0, "u1"), weak(300))
    (p0 <= 255)
    >>> exact_comparison(apply, "lt", param(0, "u8"), param(1, "i1"))
    ((p1 >= 0) & (uint64(p1) > p0))
    >>> exact_comparison(apply, "lt", param(0, "u1").astype("i8"), weak(9))
    (p0 < 9)
    """
    before = _source(lhs), _source(rhs)
    is_converted = before[0] is not lhs or before[1] is not rhs
    if is_converted and (any(map(_is_number, before)) or before[0].dtype == before[1].dtype):
        return apply(op, *before)
    if lhs.weak or (lhs.dtype.kind == "u" and not rhs.weak):
        op, lhs, rhs = MIRRORED[op], rhs, lhs
    if lhs.weak or lhs.dtype.kind not in "iu":
        return None
    if rhs.weak and _is_number(rhs):
        return _with_number(apply, op, lhs, rhs.number)
    if rhs.weak:  # what is known only when it runs may be beyond the type, too
        is_wider = rhs.dtype.kind == "i" and rhs.dtype != lhs.dtype
        return apply(op, lhs, rhs.astype(rhs.dtype)) if is_wider else None
    if rhs.dtype.kind != "u" or np.result_type(lhs.dtype, rhs.dtype).kind != "f":
        return None
    # Their common type is float64, which would round them.
    as_unsigned = apply(op, lhs.astype(rhs.dtype), rhs)
    if op in ("lt", "le", "ne"):
        return apply("or", apply("lt", lhs, 0), as_unsigned)
    return apply("and", apply("ge", lhs, 0), as_unsigned)


def _source(operand: Any) -> Any:
    """The integer operand below a widening cast; others unchanged."""
    if operand.op != "cast" or operand.weak or operand.dtype.kind not in "iu":
        return operand
    (source,) = operand.args
    is_same = source.dtype.kind in "iu" and np.can_cast(source.dtype, operand.dtype)
    return source if is_same else operand


def _is_number(operand: Any) -> bool:
    return operand.weak and operand.op == "const" and isinstance(operand.value, int)


def _with_number(apply: Applied, op: str, lhs: Any, number: int) -> Any:
    """A comparison with an out-of-range number as one with the type's limit; None if in range."""
    limits = np.iinfo(lhs.dtype)
    if number > limits.max:
        return apply("le" if op in ("lt", "le", "ne") else "gt", lhs, int(limits.max))
    if number < limits.min:
        return apply("ge" if op in ("gt", "ge", "ne") else "lt", lhs, int(limits.min))
    return None
