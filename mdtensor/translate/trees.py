"""What is done with expressions as trees: their values, what they read, parts of them replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.translate.operations import OPERATIONS, Values
from mdtensor.translate.scalar import F64, Expr, index_of


def wide(dtype: np.dtype) -> np.dtype:
    """The type in which the reference computes: float64, complex128, and integers as they are.

    Integers keep their width, since their arithmetic is exact modulo it.
    """
    if dtype.kind == "f":
        return F64
    return np.dtype(np.complex128) if dtype.kind == "c" else dtype


def evaluate(
    expr: Expr, params: Sequence[Values], indices: Mapping[str, Values] | None = None
) -> Values:
    """The value of an expression on arrays, in the reference's precision (see `wide`)."""
    if expr.op == "param":
        return np.asarray(params[expr.number]).astype(wide(expr.dtype), copy=False)
    if expr.op == "const":
        return np.asarray(expr.value).astype(wide(expr.dtype))
    if expr.op == "index":
        assert indices is not None and isinstance(expr.value, str)
        return indices[expr.value]
    args = [evaluate(arg, params, indices) for arg in expr.args]
    if expr.op == "cast":
        return _converted(np.asarray(args[0]), wide(expr.dtype))
    with np.errstate(all="ignore"):
        result = OPERATIONS[expr.op].evaluate(*args)
    return np.asarray(result).astype(wide(expr.dtype), copy=False)


def _converted(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if values.dtype.kind == "c" and dtype.kind not in "bc":
        values = np.real(values)
    with np.errstate(all="ignore"):
        return values.astype(dtype, copy=False)


def substitute(expr: Expr, params: Sequence[Expr]) -> Expr:
    """The expression with its parameters replaced."""
    if expr.op == "param":
        return params[expr.number]
    if not expr.args:
        return expr
    return replace(expr, args=tuple(substitute(arg, params) for arg in expr.args))


def params_in(expr: Expr) -> tuple[int, ...]:
    """Positions of the parameters in an expression, in order of first occurrence.

    >>> from mdtensor.translate.scalar import param
    >>> params_in(param(2, "f4") * param(0, "f4") + param(2, "f4"))
    (2, 0)
    """
    return tuple(dict.fromkeys(_values_of("param", expr)))


def dims_in(expr: Expr) -> tuple[str, ...]:
    """Names of the dims whose indices an expression takes, in order of first occurrence."""
    return tuple(dict.fromkeys(_values_of("index", expr)))


def _values_of(op: str, expr: Expr) -> Iterator[Any]:
    if expr.op == op:
        yield expr.value
    for arg in expr.args:
        yield from _values_of(op, arg)


def with_dims(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The expression on dims of other names."""
    if expr.op == "index":
        assert isinstance(expr.value, str)
        return index_of(names[expr.value])
    if not expr.args:
        return expr
    return replace(expr, args=tuple(with_dims(arg, names) for arg in expr.args))
