"""From an index as it is computed, an expression, to the affine index that it is."""

from __future__ import annotations

from mdtensor.translate.graphs import folded
from mdtensor.translate.scalar import Expr
from mdtensor.translate.views import AffineIndex


def affine_from_expr(expr: Expr) -> AffineIndex | None:
    """The sum of dims that an integer expression is, or None where it is no such sum.

    >>> from mdtensor.translate.scalar import index_of
    >>> affine_from_expr(2 * (index_of("p") + 1) - index_of("r"))
    2p-r+2
    >>> affine_from_expr(index_of("p") * index_of("p"))
    """
    if expr.dtype.kind not in "iu" or expr.op not in _AFFINE:
        return None
    return folded([expr], _affine)[0]


_AFFINE = frozenset(("const", "index", "cast", "neg", "add", "sub", "mul"))


def _affine(node: Expr, args: list[AffineIndex | None]) -> AffineIndex | None:
    """What a node is whose arguments are such sums, or None."""
    if node.dtype.kind not in "iu":
        return None
    match node.op, args:
        case "const", []:
            return AffineIndex((), node.number)
        case "index", []:
            return AffineIndex(((str(node.value), 1),))
        case "cast", [inner]:
            return inner if node.dtype.itemsize == 8 else None
        case "neg", [inner]:
            return scaled(inner, -1)
        case "add", [lhs, rhs]:
            return added(lhs, rhs)
        case "sub", [lhs, rhs]:
            return added(lhs, scaled(rhs, -1))
        case "mul", [lhs, rhs]:
            return _multiplied(lhs, rhs)
        case _:
            return None


def added(lhs: AffineIndex | None, rhs: AffineIndex | None) -> AffineIndex | None:
    """The sum of two indices; None where one is None."""
    if lhs is None or rhs is None:
        return None
    sums = dict(lhs.coefficients)
    for dim, coefficient in rhs.coefficients:
        sums[dim] = sums.get(dim, 0) + coefficient
    return AffineIndex(tuple((d, c) for d, c in sums.items() if c), lhs.offset + rhs.offset)


def scaled(index: AffineIndex | None, factor: int) -> AffineIndex | None:
    """A multiple of an index; None of None."""
    if index is None:
        return None
    scaled_up = tuple((dim, factor * c) for dim, c in index.coefficients if factor)
    return AffineIndex(scaled_up, factor * index.offset)


def _multiplied(lhs: AffineIndex | None, rhs: AffineIndex | None) -> AffineIndex | None:
    if lhs is None or rhs is None:
        return None
    if not lhs.coefficients:
        return scaled(rhs, lhs.offset)
    return None if rhs.coefficients else scaled(lhs, rhs.offset)
