"""Merging of values at control-flow joins, by selection."""

from __future__ import annotations

import operator
from typing import Any, TypeGuard

from mdtensor.dataclass import dataclass
from mdtensor.options import is_sequence
from mdtensor.translate.arithmetic import Aggregate
from mdtensor.translate.python.functions import is_scalar
from mdtensor.translate.scalar import Expr, as_expr, select
from mdtensor.translate.tracing import while_tracing


@dataclass(frozen=True, slots=True)
class Undecided:
    """A variable's value after branches that cannot be merged, or that only one branch sets.

    `why` goes to the message of the error that its use is, `hint` to its hint.
    """

    why: str
    hint: str = "set it before the if"


class NoChoiceError(ValueError):
    """Two values cannot be merged by a selection; the message describes them."""


def merge(condition: Expr, then: Any, otherwise: Any) -> Any:
    """Select between two values, elementwise for tuples and dicts.

    Raises a ValueError where the two cannot be brought together.
    """
    if then is otherwise:
        return then
    if isinstance(then, Undecided) or isinstance(otherwise, Undecided):
        return then if isinstance(then, Undecided) else otherwise
    if is_sequence(then) and is_sequence(otherwise):
        if len(then) != len(otherwise):
            raise NoChoiceError(f"a tuple of {len(then)} or of {len(otherwise)} values")
        merged = [merge(condition, a, b) for a, b in zip(then, otherwise, strict=True)]
        return merged if isinstance(then, list) else tuple(merged)
    if _is_record(then) and _is_record(otherwise) and then.keys() == otherwise.keys():
        return {name: merge(condition, then[name], otherwise[name]) for name in then}
    if is_scalar(then) and is_scalar(otherwise):
        if (
            not isinstance(then, Expr)
            and not isinstance(otherwise, Expr)
            and _same(then, otherwise)
        ):
            return then
        return select(condition, as_expr(then), as_expr(otherwise))
    if isinstance(then, Aggregate) or isinstance(otherwise, Aggregate):
        raise NoChoiceError(f"{_described(then)} or {_described(otherwise)}")
    if type(then) is type(otherwise) and while_tracing(operator.eq, then, otherwise):
        return then
    raise NoChoiceError(f"{_described(then)} or {_described(otherwise)}")


def _is_record(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value is a dict of a record's fields."""
    return isinstance(value, dict)


def _same(lhs: Any, rhs: Any) -> bool:
    return type(lhs) is type(rhs) and repr(lhs) == repr(rhs)


def _described(value: Any) -> str:
    if value is None:
        return "None"
    if is_sequence(value):
        return f"a tuple of {len(value)}"
    return "a number" if is_scalar(value) else f"a {type(value).__name__}"
