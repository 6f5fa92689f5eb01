"""Float minima and maxima by one instruction instead of a comparison and a select.

An operator that takes the right value where that is less (or greater), and else the left one, drops
a NaN on the right. On the left there is none: accumulators begin with the identity, an infinity.
So the functions that drop every NaN give the same, but for the sign of a zero among zeros, which
depends on the order of the elements in either case. GPUs have one instruction for them in float32;
in float64 a comparison and a selection are shorter, and processors have one for the selection.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from mdtensor.lower.problem.problem import Problem
from mdtensor.specs import kind_of
from mdtensor.translate.combine import Operator
from mdtensor.translate.scalar import Expr, apply

_MOST_BYTES = 4  # of floats for which GPUs have such an instruction
_FUNCTIONS = {"lt": ("fmin", math.inf), "gt": ("fmax", -math.inf)}


@lru_cache(maxsize=256)
def with_extremes(problem: Problem) -> Problem:
    """Replace selects of the smaller or larger float by `fmin` and `fmax`."""
    operator = problem.operator
    if operator is None or operator.identity is None or operator.in_order is not None:
        return problem
    results = tuple(_extreme(operator, n) for n in range(len(operator.results)))
    if results == operator.results:
        return problem
    return replace(problem, operator=replace(operator, results=results))


def _extreme(operator: Operator, position: int) -> Expr:
    """An operator's result as `fmin` or `fmax`; unchanged if it is neither."""
    result = operator.results[position]
    if result.op != "select" or result.args[0].op not in _FUNCTIONS:
        return result
    if kind_of(result.dtype) != "f" or result.dtype.itemsize > _MOST_BYTES:
        return result
    function, identity = _FUNCTIONS[result.args[0].op]
    condition, right, left = result.args
    sides = [side.value for side in (left, right) if side.op == "param"]
    chosen = condition.args == (right, left) and sides == [
        position,
        position + len(operator.dtypes),
    ]
    assert operator.identity is not None
    begins = operator.identity[position] == identity
    return apply(function, left, right) if chosen and begins else result
