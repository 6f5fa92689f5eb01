"""Index spaces as views: the buffer accesses of all operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.affine_index import AffineSum
from mdtensor.translate.einsum.index_space import IndexSpace
from mdtensor.translate.scalar import I64, Expr, cast, const, index_of, param
from mdtensor.translate.views import AffineIndex, BufferAccess, ComputedIndex


def views_from_index_space(
    space: IndexSpace, specs: Sequence[TensorSpec]
) -> tuple[BufferAccess, ...]:
    """One access per operand; index operands come before those that they index.

    >>> from mdtensor.translate.einsum.index_space import index_space
    >>> from mdtensor.translate.einsum.subscripts import parse
    >>> specs = (TensorSpec.of((9, 2)), TensorSpec.of((5,), "i8"))
    >>> space = index_space(parse("@1 j, i -> i j"), specs)
    >>> views_from_index_space(space, specs)
    ((i), (p0, j))
    """
    positions = {number: position for position, number in enumerate(space.order)}
    return tuple(
        BufferAccess(number, tuple(_index(axis, specs, positions) for axis in space.inputs[number]))
        for number in positions
    )


def affine_access(buffer: int, axes: Sequence[AffineSum]) -> BufferAccess:
    """The access by affine indices without elements of operands."""
    return BufferAccess(buffer, tuple(AffineIndex(axis.dims, axis.offset) for axis in axes))


def _index(
    axis: AffineSum, specs: Sequence[TensorSpec], positions: Mapping[int, int]
) -> AffineIndex | ComputedIndex:
    if not axis.elements:
        return AffineIndex(axis.dims, axis.offset)
    terms = [
        _times(cast(param(positions[number], specs[number].dtype), I64), coefficient)
        for number, coefficient in axis.elements
    ]
    terms += [_times(index_of(name), coefficient) for name, coefficient in axis.dims]
    total = sum(terms[1:], terms[0])
    return ComputedIndex(total + const(axis.offset, I64) if axis.offset else total)


def _times(expr: Expr, coefficient: int) -> Expr:
    return expr if coefficient == 1 else expr * const(coefficient, I64)
