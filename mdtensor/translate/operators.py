"""Combine operators as users say them, by name or as functions, made for tuples of given types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.errors import TranslationError
from mdtensor.translate.combine import Operator, named
from mdtensor.translate.python_functions import is_sequence
from mdtensor.translate.python_source import traced
from mdtensor.translate.scalar import BOOL, Expr, Number, apply, as_expr, cast, equal, param, select

PLAIN = ("add", "mul", "min", "max", "and", "or", "xor")
"""Operators on single elements that need no more than their name."""
ARGUMENTS = ("argmin", "argmax")
"""Operators on (value, index …): the extreme value, and where it is found first."""
NAMES = (*PLAIN, "logaddexp", *ARGUMENTS)


def operator_of(
    said: object, dtypes: Sequence[np.dtype], identity: tuple[Number, ...] | None = None
) -> Operator:
    """The operator that a name or a function stands for, on tuples of the given types.

    A function takes two elements, or two tuples where there are several, and returns what they
    give. `identity` is that of a function; without it, a reduction begins with its first element.

    `min` and `max` give NaN where any element is NaN. `argmin` and `argmax` compare the first
    elements of tuples as NumPy does, NaN before all others; the smaller index wins a tie.

    Raises TranslationError for an unknown name, and for types that the operator does not take.

    >>> f4 = np.dtype("f4")
    >>> operator_of(lambda a, b: a * b, [f4]).results
    ((p0 * p1),)
    >>> operator_of("argmax", [f4, np.dtype("i8")]).identity
    (-inf, 9223372036854775807)
    """
    if isinstance(said, Operator):
        return said
    if isinstance(said, str):
        return _named(said, dtypes)
    if callable(said):
        return _from_function(said, dtypes, identity)
    raise TranslationError(
        f"{said!r} is no operator", hint=f"a function of two elements, or one of {', '.join(NAMES)}"
    )


def _named(name: str, dtypes: Sequence[np.dtype]) -> Operator:
    if name in PLAIN:
        return named(name, dtypes)
    if name == "logaddexp":
        return _logaddexp(dtypes)
    if name in ARGUMENTS:
        return _argument(name, dtypes)
    hint = f"one of {', '.join(NAMES)}, or a function of two elements"
    if name in ("mean", "avg", "average"):
        hint = "a mean is a sum with epilogue=lambda total: total / count"
    raise TranslationError(f"unknown operator {name!r}", hint=hint)


def _logaddexp(dtypes: Sequence[np.dtype]) -> Operator:
    if any(dtype.kind != "f" for dtype in dtypes):
        raise TranslationError(
            f"operator 'logaddexp' takes floats, not {', '.join(map(str, dtypes))}",
            hint="dtype='f8' converts the elements",
        )
    width = len(dtypes)
    results = (
        apply("logaddexp", param(n, dtype), param(n + width, dtype))
        for n, dtype in enumerate(dtypes)
    )
    return Operator(tuple(dtypes), tuple(results), (-np.inf,) * width, True, "logaddexp")


def _argument(name: str, dtypes: Sequence[np.dtype]) -> Operator:
    if len(dtypes) < 2 or dtypes[0].kind not in "biuf":
        raise TranslationError(
            f"operator {name!r} takes a value that has an order and an index, not"
            f" ({', '.join(map(str, dtypes))})",
            hint="f returns both: f=lambda x, *, i: (x, i)",
        )
    width = len(dtypes)
    lhs = [param(n, dtype) for n, dtype in enumerate(dtypes)]
    rhs = [param(n + width, dtype) for n, dtype in enumerate(dtypes)]
    old, new = lhs[0], rhs[0]
    nan_of_old, nan_of_new = apply("isnan", old), apply("isnan", new)
    beats = apply("lt", new, old) if name == "argmin" else apply("gt", new, old)
    beats = beats | (nan_of_new & ~nan_of_old)
    ties = equal(old, new) | (nan_of_old & nan_of_new)
    takes_new = beats | (ties & _before(rhs[1:], lhs[1:]))
    results = tuple(
        select(takes_new, second, first) for first, second in zip(lhs, rhs, strict=True)
    )
    worst = _extreme(dtypes[0], largest=name == "argmin")
    last = tuple(_extreme(dtype, largest=True) for dtype in dtypes[1:])
    return Operator(tuple(dtypes), results, (worst, *last), True, name)


def _before(lhs: Sequence[Expr], rhs: Sequence[Expr]) -> Expr:
    """Whether indices come before others in the order of an array's elements."""
    first = apply("lt", lhs[0], rhs[0])
    if len(lhs) == 1:
        return first
    return first | (equal(lhs[0], rhs[0]) & _before(lhs[1:], rhs[1:]))


def _extreme(dtype: np.dtype, *, largest: bool) -> Number:
    if dtype == BOOL:
        return largest
    if dtype.kind == "f":
        return np.inf if largest else -np.inf
    limits = np.iinfo(dtype)
    return int(limits.max if largest else limits.min)


def _from_function(
    function: Callable[..., Any], dtypes: Sequence[np.dtype], identity: tuple[Number, ...] | None
) -> Operator:
    width = len(dtypes)
    lhs = tuple(param(n, dtype) for n, dtype in enumerate(dtypes))
    rhs = tuple(param(n + width, dtype) for n, dtype in enumerate(dtypes))
    result = traced(function, lhs[0], rhs[0]) if width == 1 else traced(function, lhs, rhs)
    results: tuple[Any, ...] = tuple(result) if is_sequence(result) else (result,)
    name = getattr(function, "__name__", "op")
    if len(results) != width:
        raise TranslationError(
            f"operator {name!r} returns {len(results)} values for tuples of {width}"
        )
    typed = tuple(cast(as_expr(value), dtype) for value, dtype in zip(results, dtypes, strict=True))
    return Operator(tuple(dtypes), typed, identity, commutative=False, name=name)
