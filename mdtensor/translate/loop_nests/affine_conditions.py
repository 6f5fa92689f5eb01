"""Conversions between affine conditions and comparison expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mdtensor.translate.loop_nests.affine_from_expr import added, affine_from_expr, scaled
from mdtensor.translate.scalar import I64, Expr, apply, as_expr
from mdtensor.translate.views import AffineIndex


def at_least_zero(index: AffineIndex) -> Expr:
    """The comparison `index >= 0` of an affine index."""
    total: Any = 0
    for dim, coefficient in sorted(index.coefficients, key=lambda term: -term[1]):
        count = Expr("index", (), I64, dim, weak=True)
        part = count if abs(coefficient) == 1 else count * abs(coefficient)
        if coefficient < 0:
            total = total - part
        else:
            total = part if isinstance(total, int) else total + part
    return apply("ge", as_expr(total), -index.offset)


def affine_conditions(test: Expr) -> tuple[AffineIndex, ...]:
    """Affine indices that are non-negative wherever a test holds.

    >>> from mdtensor.translate.scalar import index_of
    >>> affine_conditions(index_of("i") < index_of("j"))
    (j-i-1,)
    """
    return tuple(c for condition in conjuncts(test) for c in _of_comparison(condition))


def conjuncts(test: Expr) -> list[Expr]:
    """The operands of nested conjunctions, each once."""
    found: dict[int, Expr] = {}
    waiting = [test]
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting += node.args[::-1] if node.op == "and" else ()
    return [node for node in found.values() if node.op != "and"]


def _of_comparison(test: Expr) -> tuple[AffineIndex, ...]:
    if test.op == "not" and test.args[0].op in _NEGATED:
        inner = test.args[0]
        return _of_comparison(_NEGATED[inner.op](inner))
    if test.op not in ("lt", "le", "gt", "ge", "eq"):
        return ()
    lhs, rhs = affine_from_expr(test.args[0]), affine_from_expr(test.args[1])
    if lhs is None or rhs is None:
        return ()
    match test.op:
        case "lt":
            return (difference(rhs, lhs, -1),)
        case "le":
            return (difference(rhs, lhs),)
        case "gt":
            return (difference(lhs, rhs, -1),)
        case "ge":
            return (difference(lhs, rhs),)
        case _:
            return (difference(lhs, rhs), difference(rhs, lhs))


def difference(lhs: AffineIndex, rhs: AffineIndex, offset: int = 0) -> AffineIndex:
    """`lhs - rhs + offset`."""
    found = added(lhs, added(scaled(rhs, -1), AffineIndex((), offset)))
    assert found is not None
    return found


_NEGATED: Mapping[str, Callable[[Expr], Expr]] = {
    "lt": lambda e: apply("ge", *e.args),
    "le": lambda e: apply("gt", *e.args),
    "gt": lambda e: apply("le", *e.args),
    "ge": lambda e: apply("lt", *e.args),
    "ne": lambda e: apply("eq", *e.args),
}
