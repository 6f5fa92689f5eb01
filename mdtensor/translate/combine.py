"""Combine operators: how the parts of an `md_hom` are combined along each dim.

Definitions: 002, section 4.2.2, Examples 1 and 2, and appendix .2 (prefix sums).
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, TranslationError
from mdtensor.options import is_sequence
from mdtensor.specs import as_dtype, kind_of
from mdtensor.translate.graphs import RECURSIVE
from mdtensor.translate.operations import Values
from mdtensor.translate.scalar import (
    BOOL,
    Expr,
    Number,
    apply,
    as_expr,
    cast,
    check_size,
    equal,
    not_equal,
    param,
    select,
)
from mdtensor.translate.trees import evaluated, rewritten, substitute, with_args


@dataclass(frozen=True, slots=True)
class Operator:
    """An associative binary function on tuples of scalars.

    `results` are expressions over the parameters 0…n-1 (the left tuple) and n…2n-1 (the right
    one). `identity` is its neutral tuple, or None where it has none. `in_order` says the same as
    `results` more cheaply where the left tuple is of elements that come before those of the right
    one, in the order of the dims.

    >>> named("add", ["f4"])
    add
    """

    dtypes: tuple[np.dtype, ...]
    results: tuple[Expr, ...]
    identity: tuple[Number, ...] | None
    commutative: bool = True
    name: str = "op"
    in_order: tuple[Expr, ...] | None = None

    def __post_init__(self) -> None:
        check_size(self.results)
        if any(result.depth > RECURSIVE for result in self.results):
            raise TranslationError(
                f"operator {self.name!r} has a chain of more than {RECURSIVE} operations",
                hint="unroll fewer steps, or let f compute them before elements are combined",
            )
        if len(self.results) != len(self.dtypes):
            raise TranslationError(
                f"operator {self.name!r} returns {len(self.results)} values for tuples of"
                f" {len(self.dtypes)}"
            )
        if self.identity is not None and len(self.identity) != len(self.dtypes):
            raise TranslationError(
                f"the identity of operator {self.name!r} has {len(self.identity)} values for"
                f" tuples of {len(self.dtypes)}"
            )

    def __call__(self, lhs: Sequence[Values], rhs: Sequence[Values]) -> tuple[Values, ...]:
        """Combine two tuples of arrays, elementwise."""
        return evaluated(self.results, [*lhs, *rhs])

    def __repr__(self) -> str:
        return self.name


_EXTREMA = ("min", "max", "fmin", "fmax", "lesser", "greater")
NAMES = ("add", "mul", *_EXTREMA, "and", "or", "xor", "logaddexp")
PAIR_NAMES = ("argmin", "argmax")


def named(name: str, dtypes: Sequence[object]) -> Operator:
    """A named operator on tuples: one of `NAMES` for each element, or one of `PAIR_NAMES`.

    They are NumPy's functions. NaN wins in `min` and `max`, and loses in `fmin` and `fmax`.
    `lesser` and `greater` take the right value where it is less, or greater, and else the left
    one: a single instruction, which overlooks NaN among numbers. On
    booleans, `add` is `or` and `mul` is `and`. `argmin` and `argmax` take (value, index …): the
    first NaN wins, or else the smallest index among the best values; so they commute.

    Raises TranslationError for other names, and for types on which the operator is not defined.

    >>> named("argmax", ["f4", "i8"]).identity
    (-inf, 9223372036854775807)
    """
    return _named(name, tuple([as_dtype(dtype) for dtype in dtypes]))


@lru_cache(1024)
def _named(name: str, types: tuple[np.dtype, ...]) -> Operator:
    if name in PAIR_NAMES:
        return _best_with_place(name, types)
    if name not in NAMES:
        known = ", ".join((*NAMES, *PAIR_NAMES))
        raise TranslationError(f"unknown operator {name!r}", hint=f"one of {known}")
    results: list[Expr] = []
    for position, dtype in enumerate(types):
        _check_type(name, dtype)
        lhs, rhs = param(position, dtype), param(position + len(types), dtype)
        results.append(_of_two(name, lhs, rhs))
    identity = tuple(_neutral(name, dtype) for dtype in types)
    return Operator(types, tuple(results), identity, True, name)


def _of_two(name: str, lhs: Expr, rhs: Expr) -> Expr:
    if name in ("lesser", "greater"):
        return select(apply("lt" if name == "lesser" else "gt", rhs, lhs), rhs, lhs)
    return apply(name, lhs, rhs)


def _check_type(name: str, dtype: np.dtype) -> None:
    if dtype.kind == "c" and name not in ("add", "mul"):
        raise _without_order(name)
    if kind_of(dtype) != "f" and name == "logaddexp":
        raise TranslationError(
            f"operator 'logaddexp' takes floats, not {dtype.name}",
            hint="dtype='f8' converts the elements",
        )


def _neutral(name: str, dtype: np.dtype) -> Number:
    low, high = _limits(dtype)
    match name:
        case "mul":
            return True if dtype == BOOL else 1
        case "min" | "lesser":
            return high
        case "max" | "greater":
            return low
        case "fmin" | "fmax" if kind_of(dtype) == "f":
            return math.nan
        case "fmin":
            return high
        case "fmax":
            return low
        case "and":
            return -1 if dtype.kind == "i" else high
        case "logaddexp":
            return -math.inf
        case _:
            return False if dtype == BOOL else 0


def _limits(dtype: np.dtype) -> tuple[Number, Number]:
    """The least and the greatest value of a type; infinities for floats and complex numbers."""
    if kind_of(dtype) in "fc":
        return -math.inf, math.inf
    if dtype == BOOL:
        return False, True
    if dtype.kind not in "iu":
        raise DTypeError(
            f"no operator combines elements of {dtype}",
            hint="combine them in float32: acc_dtype='f4'",
        )
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _without_order(name: str) -> TranslationError:
    return TranslationError(
        f"complex numbers have no order for operator {name!r}",
        hint="combine their real parts or absolute values: f=lambda z: abs(z)",
    )


def _best_with_place(name: str, types: tuple[np.dtype, ...]) -> Operator:
    from mdtensor.translate.python.functions import ordering

    width = len(types)
    if types and types[0].kind == "c":
        raise _without_order(name)
    if width < 2 or any(dtype.kind not in "iu" for dtype in types[1:]):
        given = ", ".join(dtype.name for dtype in types)
        raise TranslationError(
            f"operator {name!r} takes a value and an index, not ({given})",
            hint="return (value, index) from f, for example lambda a, *, j: (a, j)",
        )
    params = [param(n, dtype) for n, dtype in enumerate(types * 2)]
    lhs, rhs = params[:width], params[width:]
    comes_first = ordering(operator.lt, rhs[1:], lhs[1:])
    wins = _wins("gt" if name == "argmax" else "lt", lhs[0], rhs[0], comes_first)
    low, high = _limits(types[0])
    last = (_limits(dtype)[1] for dtype in types[1:])
    return Operator(
        types,
        tuple(select(wins, other, value) for value, other in zip(lhs, rhs, strict=True)),
        (low if name == "argmax" else high, *last),
        True,
        name,
    )


def with_ascending_places(best: Operator) -> Operator:
    """`argmin` or `argmax` of tuples whose places are in the order of the dims.

    Then the left tuple keeps its place in a tie, and no places need to be compared.
    """
    width = len(best.dtypes)
    params = [param(n, dtype) for n, dtype in enumerate(best.dtypes * 2)]
    wins = _is_better("gt" if best.name == "argmax" else "lt", params[0], params[width])
    pairs = zip(params[:width], params[width:], strict=True)
    return replace(best, in_order=tuple(select(wins, other, value) for value, other in pairs))


def _wins(better: str, value: Expr, other: Expr, comes_first: Expr) -> Expr:
    """Whether `other` replaces `value`: it is better, or equal with a smaller index."""
    tied = equal(other, value)
    if kind_of(value.dtype) == "f":
        tied = tied | (not_equal(other, other) & ~equal(value, value))
    return _is_better(better, value, other) | (tied & comes_first)


def _is_better(better: str, value: Expr, other: Expr) -> Expr:
    """Whether `other` is better than `value`; NaN is better than all numbers."""
    if kind_of(value.dtype) != "f":
        return apply(better, other, value)
    worse_or_equal = apply({"gt": "le", "lt": "ge"}[better], other, value)
    return ~worse_or_equal & equal(value, value)


def operator_from_function(
    function: Callable[..., Any],
    dtypes: Sequence[object],
    identity: object = None,
    commutative: bool = False,
    name: str | None = None,
) -> Operator:
    """Trace a Python function `(lhs, rhs)` on tuples of the given types as an operator.

    `lhs` and `rhs` are tuples, or scalars where there is one type only. `identity` is a tuple or a
    scalar too, or None.

    A function that says the same when its sides change places is commutative, declared or not.

    Raises TranslationError where the function returns something else than such a tuple, and
    ProgramError where it cannot be translated.

    >>> first = operator_from_function(lambda a, b: a if a != 0 else b, ["i4"], 0)
    >>> first.results
    (select((p0 != 0), p0, p1),)
    """
    from mdtensor.translate.python.expr_from_function import traced

    types = tuple(as_dtype(dtype) for dtype in dtypes)
    width = len(types)
    called = name or getattr(function, "__name__", "op")
    called = "op" if called == "<lambda>" else called
    params = tuple(param(n, dtype) for n, dtype in enumerate(types * 2))
    sides = (params[:width], params[width:]) if width > 1 else params
    _check_sides(function, called)
    returned = traced(function, *sides)
    results = tuple(returned) if is_sequence(returned) else (returned,)
    if len(results) != width:
        raise TranslationError(
            f"operator {called!r} returns {len(results)} values for tuples of {width}",
            hint="lhs, rhs and the result have one element for every result of f",
        )
    typed = tuple(_of_type(results[n], dtype, n, called) for n, dtype in enumerate(types))
    commutes = commutative or _is_symmetric(typed)
    return Operator(types, typed, as_identity(identity), commutes, called)


def _check_sides(function: Callable[..., Any], called: str) -> None:
    """Raises TranslationError where a function cannot be called with two elements."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # what is no function is found later, what has no signature too
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise TranslationError(
            f"operator {called!r} does not take two elements, but {signature}",
            hint="lambda lhs, rhs: …, of what lies before and what lies behind",
        ) from None


_SYMMETRIC = frozenset(("add", "mul", "min", "max", "and", "or", "xor", "eq", "ne", "logaddexp"))


def _is_symmetric(results: Sequence[Expr]) -> bool:
    """Whether the expressions are invariant under exchange of left and right.

    >>> lhs, rhs = param(0, "f4"), param(1, "f4")
    >>> _is_symmetric([lhs + rhs]), _is_symmetric([lhs - rhs])
    (True, False)
    """
    width = len(results)
    dtypes = [result.dtype for result in results]
    swapped = [param((n + width) % (2 * width), dtypes[n % width]) for n in range(2 * width)]
    return all(
        rewritten(result, _sorted) == rewritten(substitute(result, swapped), _sorted)
        for result in results
    )


def _sorted(node: Expr) -> Expr:
    """A symmetric operation with its operands in canonical order; others unchanged."""
    if node.op not in _SYMMETRIC:
        return node
    return with_args(node, sorted(node.args, key=hash))


def _of_type(value: object, dtype: np.dtype, position: int, name: str) -> Expr:
    expr = as_expr(value)
    if not expr.weak and not np.can_cast(expr.dtype, dtype, "same_kind"):
        raise TranslationError(
            f"element {position} of operator {name!r} is {expr.dtype.name} where tuples have"
            f" {dtype.name}",
            hint="return what has the operands' types, or convert them by f",
        )
    return cast(expr, dtype)


def as_identity(given: Any) -> tuple[Number, ...] | None:
    """The identity as a tuple, from a tuple, a scalar or None."""
    if given is None:
        return None
    values: Sequence[Any] = given if is_sequence(given) else (given,)
    return tuple(value.item() if hasattr(value, "item") else value for value in values)


@dataclass(frozen=True, slots=True)
class Concat:
    """Concatenation, `cc`: the dim stays in the result."""

    def __repr__(self) -> str:
        return "cc"


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Point-wise combination, `pw(op)`: the dim is reduced to one element."""

    op: Operator

    def __repr__(self) -> str:
        return f"pw({self.op!r})"


@dataclass(frozen=True, slots=True)
class PrefixSum:
    """Prefix sum, `ps(op)`: the dim stays, each element combined with all before it."""

    op: Operator

    def __repr__(self) -> str:
        return f"ps({self.op!r})"


Combine = Concat | Pointwise | PrefixSum

CC = Concat()
