"""Recognition of affine indices in expressions."""

from __future__ import annotations

from mdtensor.translate.graphs import folded
from mdtensor.translate.scalar import Expr
from mdtensor.translate.views import AffineIndex


def affine_from_expr(expr: Expr) -> AffineIndex | None:
    """The affine index that an integer expression equals; None if it is not affine.

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
    """The affine index of a node, from those of its arguments; None if it is not affine."""
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
    """A multiple of an index; None for None."""
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
