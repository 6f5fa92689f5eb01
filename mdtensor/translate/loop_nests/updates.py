"""Which operator an update such as `s = s + x` applies, and to what.

The value of an iteration is taken apart around the value before it: what is left is the term that
the iteration contributes. Where that fails, the loop is no reduction.
"""

from __future__ import annotations

from dataclasses import dataclass

from mdtensor.translate.combine import Operator, named
from mdtensor.translate.scalar import Expr, apply, cast, const, select
from mdtensor.translate.trees import params_in

_ASSOCIATIVE = frozenset(("add", "mul", "min", "max", "and", "or", "xor"))
# An update by fmin or fmax drops NaN, which no operator here does.
_BELOW, _ABOVE = frozenset(("lt", "le")), frozenset(("gt", "ge"))


@dataclass(frozen=True, slots=True)
class Update:
    """`held = op(held, term)`; without an op and a term, the value that is held stays."""

    op: str | None = None
    term: Expr | None = None


def update_of(value: Expr, held: int) -> Update | None:
    """How `value` follows from parameter `held`, or None where it is no update by an operator.

    >>> from mdtensor.translate.scalar import param
    >>> s, x = param(0, "f4"), param(1, "f4")
    >>> update_of(s + 2 * x - 1, 0)
    Update(op='add', term=((2 * p1) + neg(1)))
    >>> update_of(select(x > 0, s + x, s), 0)
    Update(op='add', term=select((p1 > 0), p1, 0))
    >>> update_of(2 * s + x, 0)
    """
    if value.op == "param" and value.value == held:
        return Update()
    if value.op == "cast":
        return _widened(value, held)
    if value.op == "select":
        return _chosen(value, held)
    if value.op == "sub" and held in params_in(value.args[0]):
        lhs, rhs = value.args
        return _combined("add", lhs, apply("neg", rhs), held)
    if value.op in _ASSOCIATIVE:
        lhs, rhs = value.args
        if held in params_in(lhs):
            return _combined(value.op, lhs, rhs, held)
        return _combined(value.op, rhs, lhs, held)
    return None


def _widened(value: Expr, held: int) -> Update | None:
    """A conversion of what was held: sums of floats go on in the wider type."""
    inner = update_of(value.args[0], held)
    if inner is None or inner.term is None:
        return inner
    floats = value.dtype.kind in "fc" and inner.term.dtype.kind in "fc"
    if not floats or value.dtype.itemsize < inner.term.dtype.itemsize:
        return None
    return Update(inner.op, cast(inner.term, value.dtype))


def _combined(op: str, update: Expr, term: Expr, held: int) -> Update | None:
    """`op(update, term)`, the value that is held being inside `update` only."""
    if held in params_in(term):
        return None
    before = update_of(update, held)
    if before is None or before.op not in (None, op):
        return None
    if before.term is None:
        return Update(op, term)
    return Update(op, apply(op, before.term, term))


def _chosen(value: Expr, held: int) -> Update | None:
    condition, then, otherwise = value.args
    if held in params_in(condition):
        return _smaller_or_larger(condition, then, otherwise, held)
    first, second = update_of(then, held), update_of(otherwise, held)
    if first is None or second is None:
        return None
    op = first.op or second.op
    if op is None:
        return Update()
    if op != (second.op or op):
        return None
    known = first.term if first.term is not None else second.term
    assert known is not None
    if known.dtype.kind == "c" and op in ("min", "max"):
        return None
    neutral = const(identity(op, known), known.dtype)
    terms = (neutral if update.term is None else update.term for update in (first, second))
    return Update(op, select(condition, *terms))


def identity(op: str, term: Expr) -> bool | int | float | complex:
    """The neutral element of a named operator, for the type of a term."""
    neutral = operator(op, term).identity
    assert neutral is not None
    return neutral[0]


def operator(op: str, term: Expr) -> Operator:
    """The named operator on the type of a term."""
    return named(op, [term.dtype])


def _smaller_or_larger(condition: Expr, then: Expr, otherwise: Expr, held: int) -> Update | None:
    """`x if x < held else held` and its like: a minimum or a maximum."""
    if condition.op not in _BELOW | _ABOVE:
        return None
    lhs, rhs = (_bare(arg) for arg in condition.args)
    chosen, other = _bare(then), _bare(otherwise)
    if {chosen, other} != {lhs, rhs} or lhs == rhs:
        return None
    takes_smaller = (condition.op in _BELOW) == (chosen == lhs)
    is_held = [side.op == "param" and side.value == held for side in (then, otherwise)]
    is_bare = [_bare(s).op == "param" and _bare(s).value == held for s in (then, otherwise)]
    if sum(is_bare) != 1 or (is_held != is_bare and then.dtype.kind not in "fc"):
        return None
    term = otherwise if is_bare[0] else then
    return None if held in params_in(term) else Update("min" if takes_smaller else "max", term)


def _bare(expr: Expr) -> Expr:
    """Without the conversions around it."""
    return _bare(expr.args[0]) if expr.op == "cast" else expr
