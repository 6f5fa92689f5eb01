"""The operations of kernels on Python's numbers, as text or as functions; floats have 64 bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from mdtensor.translate.operations import COMPARISONS, OPERATIONS
from tests.lower.checker.memory import POISON

_INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_WRAPPING = ("add", "sub", "mul", "neg", "abs")


def operation_text(op: str, args: list[str], given: np.dtype, dtype: np.dtype) -> str:
    """The text of an operation on scalars of a type, with a result of `dtype`."""
    if op in COMPARISONS:
        return f"({args[0]} {OPERATIONS[op].symbol} {args[1]})"
    if op == "select":
        return f"(POISON if (k := {args[0]}) is POISON else {args[1]} if k else {args[2]})"
    if op == "cast":
        return cast_text(args[0], given, dtype)
    if op == "tf32":
        return args[0]
    if op == "not":
        return f"({args[0]} ^ 1)"
    if op in _INFIX:
        text = f"({args[0]} {_INFIX[op]} {args[1]})"
    elif op in ("neg", "abs"):
        text = f"(-{args[0]})" if op == "neg" else f"abs({args[0]})"
    else:
        return f"operation({op!r}, {given.str[1:]!r})({', '.join(args)})"
    return wrapped(text, dtype) if op in _WRAPPING and dtype.kind in "iu" else text


def wrapped(text: str, dtype: np.dtype) -> str:
    """An integer modulo the range of its type."""
    whole = 1 << 8 * dtype.itemsize
    if dtype.kind == "u":
        return f"({text} & {whole - 1})"
    return f"(({text} + {whole // 2} & {whole - 1}) - {whole // 2})"


def cast_text(text: str, given: np.dtype, dtype: np.dtype) -> str:
    """A number in another type."""
    if given == dtype or dtype.kind == given.kind == "f":
        return text
    if dtype.kind not in "iub":
        return f"as_float({text})"
    if dtype.kind == "b":
        return f"operation('ne', {given.str[1:]!r})({text}, 0)"
    if given.kind not in "iub":
        return f"as_integer({text}, {dtype.str[1:]!r})"
    if given.kind in "ub" and (given.itemsize < dtype.itemsize or dtype.kind == "u"):
        return text if given.itemsize <= dtype.itemsize else wrapped(text, dtype)
    if given.kind == dtype.kind and given.itemsize <= dtype.itemsize:
        return text
    return wrapped(text, dtype)


def as_float(value: Any) -> Any:
    """An integer as a float."""
    return value if value is POISON else float(value)


def as_integer(value: Any, dtype: str) -> Any:
    """A float as an integer, towards zero."""
    if value is POISON:
        return value
    if math.isfinite(value):
        return int(np.array(int(value), object).astype(dtype)) if _fits(value, dtype) else POISON
    return POISON


def _fits(value: float, dtype: str) -> bool:
    info = np.iinfo(dtype)
    return info.min <= int(value) <= info.max


@cache
def operation(op: str, dtype: str) -> Callable[..., Any]:
    """A function for an operation on scalars of a type; integers are those of NumPy."""
    given = np.dtype(dtype)
    quick = _QUICK.get(op)
    if quick is not None:
        return quick
    kind = np.float64 if given.kind not in "iub" else given.type
    evaluate = OPERATIONS[op].evaluate

    def function(*args: Any) -> Any:
        for arg in args:
            if arg is POISON:
                return POISON
        with np.errstate(all="ignore"):
            result = evaluate(*map(kind, args))
        return np.asarray(result).item()

    return function


def _minimum(x: Any, y: Any) -> Any:
    if x is POISON or y is POISON:
        return POISON
    return x if x < y or x != x else y


def _maximum(x: Any, y: Any) -> Any:
    if x is POISON or y is POISON:
        return POISON
    return x if x > y or x != x else y


_QUICK: dict[str, Callable[..., Any]] = {"min": _minimum, "max": _maximum}
