"""Symbolic implementations of functions of Python, `math` and NumPy."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeGuard

import numpy as np

from mdtensor.errors import TranslationError, shown
from mdtensor.options import is_sequence
from mdtensor.specs import kind_of
from mdtensor.translate.arithmetic import Aggregate
from mdtensor.translate.scalar import BOOL, F64, I64, Expr, apply, as_expr, cast, truth, whole
from mdtensor.translate.tracing import while_tracing


def is_symbolic(value: object) -> bool:
    """Whether a value is an expression, or a nested tuple or list with one.

    Raises TranslationError for a list that holds itself.
    """
    try:
        return _holds_nodes(value)
    except RecursionError:
        raise TranslationError(
            f"{shown(value)} holds itself, or is nested too deeply", hint="an array of its numbers"
        ) from None


def _holds_nodes(value: object) -> bool:
    if is_sequence(value):
        return any(map(_holds_nodes, value))
    return isinstance(value, Expr)


def is_scalar(value: object) -> bool:
    """Whether a value is a single number, symbolic or concrete."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0  # what np.where gives for known numbers
    return isinstance(value, Expr | bool | int | float | complex | np.generic)


def _is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def meaning(function: object) -> Callable[..., Any] | None:
    """The symbolic implementation of a function; None if there is none."""
    if isinstance(function, type) and issubclass(function, np.generic):
        return _conversion(function.__name__)
    try:
        return _MEANINGS.get(function)
    except TypeError:
        return None


def equality(lhs: Any, rhs: Any) -> Any:
    """`lhs == rhs`, elementwise for tuples and dicts."""
    if is_sequence(lhs) and is_sequence(rhs):
        if len(lhs) != len(rhs) or isinstance(lhs, tuple) != isinstance(rhs, tuple):
            return False
        return reduce(conjunction, map(equality, lhs, rhs), True)
    if _is_dict(lhs) and _is_dict(rhs):
        if lhs.keys() != rhs.keys():
            return False
        return reduce(conjunction, (equality(lhs[key], rhs[key]) for key in lhs), True)
    if is_scalar(lhs) and is_scalar(rhs) and (is_symbolic(lhs) or is_symbolic(rhs)):
        return apply("eq", lhs, rhs)
    if isinstance(lhs, Aggregate) or isinstance(rhs, Aggregate):
        return lhs == rhs if isinstance(lhs, Aggregate) else rhs == lhs
    # Expressions inside of other objects refuse to be compared.
    return while_tracing(operator.eq, lhs, rhs)


def inequality(lhs: Any, rhs: Any) -> Any:
    """`lhs != rhs`."""
    equals = equality(lhs, rhs)
    if isinstance(equals, Expr) and equals.op == "eq":
        return apply("ne", *equals.args)
    return negation(equals)


def ordering(compare: Callable[[Any, Any], Any], lhs: Any, rhs: Any) -> Any:
    """`lhs < rhs` and the like; lexicographic for tuples."""
    if not (is_sequence(lhs) and is_sequence(rhs)):
        return compare(lhs, rhs)
    if not lhs or not rhs:
        return compare(len(lhs), len(rhs))
    if len(lhs) == len(rhs) == 1:
        return compare(lhs[0], rhs[0])
    strictly = {operator.le: operator.lt, operator.ge: operator.gt}.get(compare, compare)
    rest = ordering(compare, lhs[1:], rhs[1:])
    tied = conjunction(equality(lhs[0], rhs[0]), rest)
    return disjunction(strictly(lhs[0], rhs[0]), tied)


def conjunction(lhs: Any, rhs: Any) -> Any:
    """Logical and of two conditions, symbolic or concrete."""
    if isinstance(lhs, Expr) and isinstance(rhs, Expr):
        return apply("and", truth(lhs), truth(rhs))
    known, other = (rhs, lhs) if isinstance(lhs, Expr) else (lhs, rhs)
    return other if known else False


def disjunction(lhs: Any, rhs: Any) -> Any:
    """Logical or of two conditions, symbolic or concrete."""
    if isinstance(lhs, Expr) and isinstance(rhs, Expr):
        return apply("or", truth(lhs), truth(rhs))
    known, other = (rhs, lhs) if isinstance(lhs, Expr) else (lhs, rhs)
    return True if known else other


def negation(value: Any) -> Any:
    """Logical not of a condition, symbolic or concrete."""
    return apply("not", truth(value)) if isinstance(value, Expr) else not value


# ---- conversions and functions of several values -----------------------------------------------


def _conversion(dtype: str) -> Callable[[Any], Expr]:
    def converted(value: Any) -> Expr:
        return cast(as_expr(value), dtype)

    return converted


def _int(value: Any = 0) -> Expr:
    return whole(as_expr(value))


def _float(value: Any = 0.0) -> Expr:
    """`float(x)` as a weak conversion: floating types are unchanged."""
    expr = as_expr(value)
    return expr if kind_of(expr.dtype) == "f" else cast(expr, F64)


def _bool(value: Any = False) -> Expr:
    return truth(as_expr(value))


def _length(value: Any) -> int:
    if isinstance(value, Expr):
        raise TranslationError(f"{shown(value)} is one number and has no length")
    return len(value)


def _values(args: Sequence[Any], what: str) -> list[Any]:
    """The arguments, or the elements of a single one, as for min and max."""
    values = list(args)
    if len(values) == 1:
        if isinstance(values[0], Expr):
            raise TranslationError(f"{what} of one number, which is no sequence")
        values = list(values[0])
    if not values:
        raise TranslationError(f"{what} of nothing")
    return values


def _extremum(op: str) -> Callable[..., Any]:
    def extremum(*args: Any) -> Any:
        values = _values(args, op)
        return reduce(lambda lhs, rhs: apply(op, as_expr(lhs), rhs), values)

    return extremum


def _sum(values: Iterable[Any], start: Any = 0) -> Any:
    """Pairwise sum, for an expression of low depth."""
    terms = [_counted(value) for value in values]
    if isinstance(start, Expr) or start != 0:
        terms.insert(0, start)
    return _in_pairs(operator.add, terms) if terms else start


def _counted(value: Any) -> Any:
    return cast(value, I64) if isinstance(value, Expr) and value.dtype == BOOL else value


def _product(values: Iterable[Any], *, start: Any = 1) -> Any:
    factors = list(values)
    return start * _in_pairs(operator.mul, factors) if factors else start


def _in_pairs(combine: Callable[[Any, Any], Any], values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    middle = (len(values) + 1) // 2
    return combine(_in_pairs(combine, values[:middle]), _in_pairs(combine, values[middle:]))


def _any(values: Iterable[Any]) -> Any:
    return reduce(disjunction, map(_condition, values), False)


def _all(values: Iterable[Any]) -> Any:
    return reduce(conjunction, map(_condition, values), True)


def _condition(value: Any) -> Any:
    return truth(value) if isinstance(value, Expr) else bool(value)


def _round(value: Any, digits: int | None = None) -> Any:
    return round(as_expr(value), digits)


def _power(base: Any, exponent: Any) -> Expr:
    return apply("pow", as_expr(base), exponent)


def _log(value: Any, base: Any = None) -> Any:
    logarithm = _maths("log")(value)
    return logarithm if base is None else logarithm / _maths("log")(base)


def _hypot(*values: Any) -> Any:
    return reduce(_maths("hypot"), values)


def _maths(op: str) -> Callable[..., Any]:
    def applied(*args: Any) -> Any:
        return apply(op, *map(as_expr, args))

    return applied


def _of_maths(function: Callable[[Expr], Any]) -> Callable[[Any], Any]:
    def applied(value: Any) -> Any:
        return function(as_expr(value))

    return applied


def _numpy_fold(fold: Callable[..., Any]) -> Callable[[Any], Any]:
    def folded(values: Any) -> Any:
        return fold(values)

    return folded


_OF_MATH = {
    **{name: name for name in ("exp", "expm1", "log2", "log10", "log1p", "sqrt", "sin", "cos")},
    **{name: name for name in ("tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh")},
    **{name: name for name in ("asinh", "acosh", "atanh", "erf", "erfc", "fabs", "fmod")},
    **{name: name for name in ("copysign", "pow", "isnan", "isinf", "isfinite")},
    # Of newer versions of Python.
    **{name: name for name in ("exp2", "cbrt") if hasattr(math, name)},
}
_MEANINGS: Mapping[Any, Callable[..., Any]] = {
    **{getattr(math, name): _maths(op) for name, op in _OF_MATH.items()},
    math.log: _log,
    math.hypot: _hypot,
    math.floor: _of_maths(math.floor),
    math.ceil: _of_maths(math.ceil),
    math.trunc: _of_maths(math.trunc),
    math.radians: _of_maths(np.radians),
    math.degrees: _of_maths(np.degrees),
    math.fsum: _sum,
    math.prod: _product,
    builtins.abs: _maths("abs"),
    builtins.min: _extremum("min"),
    builtins.max: _extremum("max"),
    builtins.sum: _sum,
    builtins.any: _any,
    builtins.all: _all,
    builtins.round: _round,
    builtins.pow: _power,
    builtins.int: _int,
    builtins.float: _float,
    builtins.bool: _bool,
    builtins.len: _length,
    np.sum: _numpy_fold(_sum),
    np.prod: _numpy_fold(_product),
    np.min: _numpy_fold(_extremum("min")),
    np.max: _numpy_fold(_extremum("max")),
    np.any: _numpy_fold(_any),
    np.all: _numpy_fold(_all),
    operator.eq: equality,
    operator.ne: inequality,
    operator.not_: negation,
}
