"""Python's operators on symbolic and concrete values."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from mdtensor.translate.arithmetic import Aggregate
from mdtensor.translate.python.functions import (
    disjunction,
    equality,
    inequality,
    is_sequence,
    is_symbolic,
    negation,
    ordering,
)
from mdtensor.translate.tracing import while_tracing

_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.MatMult: "matmul",
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_ORDERINGS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def binary(op: ast.operator) -> Callable[[Any, Any], Any]:
    """The function of the `operator` module for a binary operator.

    >>> binary(ast.Add())(2, 3)
    5
    """
    return getattr(operator, _BINARY[type(op)])


def unary(op: ast.unaryop) -> Callable[[Any], Any]:
    """The function for a unary operator other than `not`."""
    return _UNARY[type(op)]


def compared(op: ast.cmpop, lhs: Any, rhs: Any) -> Any:
    """Evaluate a comparison: a condition, or a concrete result.

    >>> compared(ast.NotIn(), 2, (1, 3))
    True
    """
    match op:
        case ast.Eq():
            return equality(lhs, rhs)
        case ast.NotEq():
            return inequality(lhs, rhs)
        case ast.Is():
            return lhs is rhs
        case ast.IsNot():
            return lhs is not rhs
        case ast.In():
            return _contains(rhs, lhs)
        case ast.NotIn():
            return negation(_contains(rhs, lhs))
        case _:
            return ordering(_ORDERINGS[type(op)], lhs, rhs)


def _contains(holder: Any, value: Any) -> Any:
    traced = is_symbolic(value) or isinstance(value, Aggregate) or isinstance(holder, Aggregate)
    if not traced and not is_sequence(holder):
        return while_tracing(lambda: value in holder)
    return reduce(disjunction, (equality(value, element) for element in holder), False)
