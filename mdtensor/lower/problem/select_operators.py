"""Selection operators: combine operators that return one of their two tuples, such as argmin.

The best of many elements changes seldom. Where an accumulator keeps its tuple, what the scalar
function has in the elements that no condition asks for need not be computed at all.
"""

from __future__ import annotations

from functools import lru_cache

from mdtensor.dataclass import dataclass
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.simplify_expr import (
    FALSE,
    TRUE,
    all_simplified,
    any_of,
    both,
    either,
    negated,
    simplified,
)
from mdtensor.translate.combine import Operator
from mdtensor.translate.graphs import folded
from mdtensor.translate.scalar import Expr, param
from mdtensor.translate.trees import nodes, substitute, with_args

_LARGEST = 2000  # nodes of conditions, as trees, for which cheaper ones are looked for


@dataclass(frozen=True, slots=True)
class SelectConditions:
    """The conditions under which a point's tuple replaces the accumulator.

    `conditions` must all hold, the first one first: it is cheap, and fails for most points. They
    have the parameters of the scalar function, then the accumulator's elements, then those of the
    point's tuple; `asked` are the numbers of the latter on which each depends, but none before it.
    `results` are those of the scalar function.

    Where all elements are computed in any case, as in vectors, `wins` is the condition.
    """

    conditions: tuple[Expr, ...]
    asked: tuple[tuple[int, ...], ...]
    results: tuple[Expr, ...]
    wins: Expr


@lru_cache(64)
def choice_of(problem: Problem, *, in_order: bool) -> SelectConditions | None:
    """The selection that combines a point; None if the operator computes new tuples."""
    operator = problem.operator
    if operator is None or (condition := right_wins(operator, in_order=in_order)) is None:
        return None
    results = all_simplified(problem.scalar.results)
    count, width = len(problem.scalar.params), len(results)
    dtypes = operator.dtypes
    held = [param(count + n, dtype) for n, dtype in enumerate(dtypes)]
    own = [param(count + width + n, dtype) for n, dtype in enumerate(dtypes)]
    # A tuple's element that is asked for in several places is computed once.
    wins = simplified(substitute(condition, [*held, *results]))
    wins = _with_names(wins, dict(zip(results, own, strict=True)))
    first = _first_look(wins, held, own)
    conditions = (wins,) if first is None else (first, wins)
    asked: list[tuple[int, ...]] = []
    left = list(range(width))
    for condition in conditions:
        asked.append(tuple(n for n in left if own[n] in nodes(condition)))
        left = [n for n in left if n not in asked[-1]]
    by_name = substitute(condition, [*held, *own])
    least = min((wins, by_name), key=lambda each: each.size)
    return SelectConditions(conditions, tuple(asked), results, least)


def _first_look(wins: Expr, held: list[Expr], own: list[Expr]) -> Expr | None:
    """A cheap necessary condition on one pair of elements; None if it is hardly cheaper.

    It tells which is greater, since elements are seldom the best so far. None where it would be
    little cheaper.
    """
    found: list[Expr] = []
    for n in range(len(held)):
        others = [value for pair in (held, own) for m, value in enumerate(pair) if m != n]
        weaker = _weaker(wins, others, holds=True)
        if _has_order(weaker, held[n]):
            found.append(weaker)
    cheapest = min(found, key=lambda condition: condition.size, default=wins)
    return cheapest if 2 * cheapest.size <= wins.size else None


def _weaker(condition: Expr, others: list[Expr], *, holds: bool) -> Expr:
    """A condition implied by the given one (its negation unless `holds`), free of some values."""
    if condition.size > _LARGEST:
        return TRUE
    if condition.op == "not":
        return _weaker(condition.args[0], others, holds=not holds)
    if condition.op in ("and", "or"):
        lhs, rhs = (_weaker(arg, others, holds=holds) for arg in condition.args)
        return (both if (condition.op == "and") == holds else any_of)(lhs, rhs)
    if any(value in nodes(condition) for value in others):
        return TRUE
    return condition if holds else negated(condition)


def _has_order(condition: Expr, value: Expr) -> bool:
    orders = (node for node in nodes(condition) if node.op in ("lt", "le", "gt", "ge"))
    return any(value in order.args for order in orders)


def right_wins(operator: Operator, *, in_order: bool = False) -> Expr | None:
    """The condition under which an operator returns its right tuple; None if it does more."""
    width = len(operator.dtypes)
    results = operator.results
    if in_order and operator.in_order is not None:
        results = operator.in_order
    found = {_takes(result, n, n + width) for n, result in enumerate(results)}
    condition = found.pop()
    return None if found or condition is None or condition.op == "const" else condition


def _takes(expr: Expr, left: int, right: int) -> Expr | None:
    """The condition under which an expression equals parameter `right`, not `left`; or None."""

    def step(node: Expr, args: list[Expr | None]) -> Expr | None:
        if node.op == "param" and node.number in (left, right):
            return TRUE if node.number == right else FALSE
        if node.op != "select":
            return None
        _, then, otherwise = args
        if then is None or otherwise is None:
            return None
        return either(node.args[0], then, otherwise)

    return folded([expr], step)[0]


def _with_names(expr: Expr, names: dict[Expr, Expr]) -> Expr:
    """The expression with some subexpressions replaced by parameters."""

    def step(node: Expr, args: list[Expr]) -> Expr:
        return names[node] if node.args and node in names else with_args(node, args)

    return folded([expr], step)[0]
