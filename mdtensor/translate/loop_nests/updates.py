"""Recognition of reductions: the operator and the term of an update such as `s = s + x`.

The value of an iteration is taken apart around the value before it: what is left is the term that
the iteration contributes. Where that fails, the loop is no reduction.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.dataclass import dataclass
from mdtensor.specs import kind_of
from mdtensor.translate.combine import Operator, named
from mdtensor.translate.graphs import folded
from mdtensor.translate.scalar import Expr, apply, cast, const, select

_ASSOCIATIVE = frozenset(("add", "mul", "min", "max", "and", "or", "xor"))
# An update by fmin or fmax drops NaN, which no operator here does.
_BELOW, _ABOVE = frozenset(("lt", "le")), frozenset(("gt", "ge"))


@dataclass(frozen=True, slots=True)
class Update:
    """`held = op(held, term)`; without op and term, `held` is unchanged."""

    op: str | None = None
    term: Expr | None = None


def update_of(value: Expr, held: int) -> Update | None:
    """The update of parameter `held` that `value` is; None if it is no reduction.

    >>> from mdtensor.translate.scalar import param
    >>> s, x = param(0, "f4"), param(1, "f4")
    >>> update_of(s + 2 * x - 1, 0)
    Update(op='add', term=((2 * p1) + neg(1)))
    >>> update_of(select(x > 0, s + x, s), 0)
    Update(op='add', term=select((p1 > 0), p1, 0))
    >>> update_of(2 * s + x, 0)
    """
    [update] = folded([value], lambda node, args: _update(node, args, held))
    return None if isinstance(update, Free) else update


class Free:
    """Marks a value that does not depend on the carried one."""


_FREE = Free()
# Without a value that is held, or an update of it by an operator, or anything else.
_Dependence = Free | Update | None


def _update(node: Expr, args: list[_Dependence], held: int) -> _Dependence:
    """How a node depends on the carried value, given its arguments' dependences."""
    if node.op == "param":
        return Update() if node.value == held else _FREE
    if all(arg is _FREE for arg in args):
        return _FREE
    if node.op == "cast":
        return _widened(node, args[0])
    if node.op == "select":
        return _chosen(node, args, held)
    if node.op == "sub" and args[0] is not _FREE:
        return _combined("add", args, (node.args[0], apply("neg", node.args[1])))
    if node.op in _ASSOCIATIVE:
        return _combined(node.op, args, node.args)
    return None


def _widened(value: Expr, inner: _Dependence) -> Update | None:
    """The update below a conversion; sums of floats continue in the wider type."""
    if not isinstance(inner, Update) or inner.term is None:
        return inner if isinstance(inner, Update) else None
    floats = kind_of(value.dtype) in "fc" and kind_of(inner.term.dtype) in "fc"
    if not floats or value.dtype.itemsize < inner.term.dtype.itemsize:
        return None
    return Update(inner.op, cast(inner.term, value.dtype))


def _combined(op: str, args: Sequence[_Dependence], values: Sequence[Expr]) -> Update | None:
    """The update by an associative operator, one operand of which has the carried value."""
    if _FREE not in args:
        return None
    before, term = args[0], values[1]
    if before is _FREE:
        before, term = args[1], values[0]
    if not isinstance(before, Update) or before.op not in (None, op):
        return None
    return Update(op, term if before.term is None else apply(op, before.term, term))


def _chosen(node: Expr, args: list[_Dependence], held: int) -> Update | None:
    condition = node.args[0]
    if args[0] is not _FREE:
        return _smaller_or_larger(node, args, held)
    first, second = args[1:]
    if not isinstance(first, Update) or not isinstance(second, Update):
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
    """The identity of a named operator for a term's type."""
    neutral = operator(op, term).identity
    assert neutral is not None
    return neutral[0]


def operator(op: str, term: Expr) -> Operator:
    """The named operator for a term's type."""
    return named(op, [term.dtype])


def _smaller_or_larger(node: Expr, args: list[_Dependence], held: int) -> Update | None:
    """A minimum or maximum in the form `x if x < held else held`; None for others."""
    condition, then, otherwise = node.args
    if condition.op not in _BELOW | _ABOVE:
        return None
    lhs, rhs = map(_bare, condition.args)
    chosen, other = _bare(then), _bare(otherwise)
    if {chosen, other} != {lhs, rhs} or lhs == rhs:
        return None
    takes_smaller = (condition.op in _BELOW) == (chosen == lhs)
    is_held = [side.op == "param" and side.value == held for side in (then, otherwise)]
    is_bare = [side.op == "param" and side.value == held for side in (chosen, other)]
    if sum(is_bare) != 1 or (is_held != is_bare and kind_of(node.dtype) not in "fc"):
        return None
    (_, of_then, of_otherwise), name = args, "min" if takes_smaller else "max"
    term, of_term = (otherwise, of_otherwise) if is_bare[0] else (then, of_then)
    return Update(name, term) if of_term is _FREE else None


def _bare(expr: Expr) -> Expr:
    """Strip the conversions around an expression."""
    while expr.op == "cast":
        [expr] = expr.args
    return expr
