"""The scatter pattern: along some dim, every element contributes at one index only.

In a histogram, an element counts in one bin only: `f(e, b) = 1 if e == b else 0`. Walking through
all bins for every element is one way to compute that; to go straight to the bin is another.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.problem.problem import Problem
from mdtensor.translate.scalar import Expr, Number, cast, const
from mdtensor.translate.trees import dims_in


@dataclass(frozen=True, slots=True)
class Selection:
    """A scatter: its kept dim, the index as an int64 expression, and the values combined there.

    Nothing is combined where the index is out of range.
    """

    dim: int
    index: Expr
    values: tuple[Expr, ...]


def selection_of(problem: Problem) -> Selection | None:
    """The scatter pattern of a problem; None if it has none.

    Every result of the scalar function must be `select(index == expression, value, identity)` with
    one and the same condition, and nothing else may depend on that dim.
    """
    taken = chosen(problem)
    found = None if taken is None else _equation(taken[0])
    if taken is None or found is None:
        return None
    (label, index), values = found, taken[1]
    dim = problem.labels.index(label)
    elsewhere = (index, *values, *(part.expr for r in problem.reads for part in r.computed))
    walked = any(stream.uses(dim) for stream in problem.streams[: problem.finish_streams])
    if problem.reduced[dim] or walked or any(label in dims_in(expr) for expr in elsewhere):
        return None
    return Selection(dim, index, values)


def chosen(problem: Problem) -> tuple[Expr, tuple[Expr, ...]] | None:
    """The condition under which a point contributes, and its values; None if unconditional.

    Every result of the scalar function must be `select(condition, value, identity)`.
    """
    operator = problem.operator
    if operator is None or operator.identity is None or not problem.contracted:
        return None
    results = [_converted_inside(result) for result in problem.scalar.results]
    if problem.scanned >= 0 or any(result.op != "select" for result in results):
        return None
    conditions = {result.args[0] for result in results}
    others = [result.args[2] for result in results]
    neutral = zip(others, operator.identity, strict=True)
    if len(conditions) != 1 or not all(_is_constant(e, v) for e, v in neutral):
        return None
    return conditions.pop(), tuple([result.args[1] for result in results])


def selected(problem: Problem) -> Selection:
    """The scatter pattern of a problem; LoweringError where it has none."""
    selection = selection_of(problem)
    if selection is None:
        raise LoweringError("the scalar function selects no dim")
    return selection


def _is_constant(expr: Expr, value: Number) -> bool:
    """Whether an expression is the constant `value`; NaN equals NaN."""
    are_nan = expr.value != expr.value and value != value
    return expr.op == "const" and (expr.value == value or are_nan)


def _converted_inside(expr: Expr) -> Expr:
    """The expression with a cast of a select moved into the select's branches."""
    if expr.op != "cast" or expr.args[0].op != "select":
        return expr
    condition, *choices = expr.args[0].args
    return Expr("select", (condition, *(_converted(c, expr.dtype) for c in choices)), expr.dtype)


def _converted(expr: Expr, dtype: np.dtype) -> Expr:
    if expr.op != "const":
        return cast(expr, dtype)
    assert isinstance(expr.value, int | float)
    return const(np.asarray(expr.value).astype(dtype).item(), dtype)


def _equation(condition: Expr) -> tuple[str, Expr] | None:
    """The dim and the expression of a condition `index == expression`, both int64."""
    if condition.op != "eq":
        return None
    for one, other in (condition.args, condition.args[::-1]):
        if one.op == "index" and other.dtype == np.int64:
            assert isinstance(one.value, str)
            return one.value, other
    return None


def selecting(problem: Problem, selection: Selection) -> Problem:
    """The problem whose scalar function yields the scattered values, then their index."""
    results = (*selection.values, selection.index)
    return replace(problem, scalar=replace(problem.scalar, results=results), finish=None)
