"""Packing of two sums of constants under the same conditions into one integer sum.

A count of what agrees and a score of it are such sums. A sum of integers whose lower halves are
those of the one, and whose upper halves those of the other, takes half of the additions, and asks
for each condition once, so that no mask of lanes has to be kept for a second use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce

from mdtensor.lower.problem.simplify_expr import span_of
from mdtensor.translate.graphs import folded, in_order
from mdtensor.translate.scalar import Expr, apply, const
from mdtensor.translate.trees import with_args

_FEWEST = 3  # conditions: taking a packed sum apart costs two operations
_LEAST_BYTES = 4  # of integers: narrower ones have no arithmetic of their own everywhere
Terms = Mapping[Expr, int]
"""The constants that a sum adds up, by their conditions."""
Sum = tuple[Expr, Terms]


def with_packed_sums(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
    """Expressions with the same values, in which pairs of sums are packed.

    >>> from mdtensor.translate.scalar import equal, param, select
    >>> same = [equal(param(n, "i4"), param(n + 3, "i4")) for n in range(3)]
    >>> ones, tens = (
    ...     [select(each, const(size, "i4"), const(0, "i4")) for each in same] for size in (1, 10)
    ... )
    >>> [apart.op for apart in with_packed_sums([sum(ones[1:], ones[0]), sum(tens[1:], tens[0])])]
    ['and', 'rshift']
    """
    apart: dict[Expr, Expr] = {}
    waiting: dict[tuple[object, ...], Sum] = {}
    for one in _whole_sums(exprs).items():
        total, terms = one
        key = total.dtype, frozenset(terms)
        if (other := waiting.pop(key, None)) is None:
            waiting[key] = one
        else:
            apart |= _packed(other, one) or _packed(one, other) or {}
    if not apart:
        return tuple(exprs)
    return tuple(
        folded(exprs, lambda node, args: apart[node] if node in apart else with_args(node, args))
    )


def _whole_sums(exprs: Sequence[Expr]) -> dict[Expr, Terms]:
    """The maximal sums of at least `_FEWEST` selected constants, by node."""
    found: dict[Expr, Terms] = {}
    for node in in_order(exprs):
        if node.dtype.kind != "i" or node.dtype.itemsize < _LEAST_BYTES:
            continue
        if node.op == "select" and all(arg.op == "const" for arg in node.args[1:]):
            condition, then, otherwise = node.args
            if otherwise.value == 0:
                assert isinstance(then.value, int)
                found[node] = {condition: then.value}
        elif node.op == "add" and all(arg in found for arg in node.args):
            lhs, rhs = (found[arg] for arg in node.args)
            if lhs.keys().isdisjoint(rhs):
                found[node] = {**lhs, **rhs}
    parts = {arg for node in found if node.op == "add" for arg in node.args}
    return {
        node: terms for node, terms in found.items() if node not in parts and len(terms) >= _FEWEST
    }


def _packed(low: Sum, high: Sum) -> dict[Expr, Expr] | None:
    """Two sums as the halves of one; None where their values do not fit into halves."""
    dtype = low[0].dtype
    bits = 4 * dtype.itemsize
    lower, upper = span_of(low[0]), span_of(high[0])
    if lower is None or upper is None or lower[0] < 0 or lower[1] >= 1 << bits:
        return None
    if upper[0] < -(1 << bits - 1) or upper[1] >= 1 << bits - 1:
        return None
    zero = const(0, dtype)
    both = reduce(
        partial(apply, "add"),
        (
            apply("select", condition, const((high[1][condition] << bits) + value, dtype), zero)
            for condition, value in low[1].items()
        ),
    )
    return {
        low[0]: apply("and", both, const((1 << bits) - 1, dtype)),
        high[0]: apply("rshift", both, const(bits, dtype)),
    }
