"""Expressions of slices without their numbers: extents, coefficients and offsets of indices.

An expression without them is a skeleton, which the expressions of the same program on arrays of
other shapes share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mdtensor.translate.stencils.slices import (
    ArrayPart,
    ElementRead,
    FusedValue,
    Leaf,
    ReducedValue,
    Source,
)
from mdtensor.translate.views import AffineIndex

Number = Callable[[int], int]  # what takes the place of a number

_MOST = 200  # numbers; what has more of them is translated anew for each shape


class _TooManyError(Exception):
    """An expression has more numbers than are worth extracting."""


def without_numbers(value: FusedValue) -> tuple[FusedValue, tuple[int, ...]] | None:
    """Split an expression into skeleton and numbers, in order; None with too many numbers.

    >>> import numpy as np
    >>> from mdtensor.translate.stencils.slices import fused_from_source, sliced
    >>> y, z = [
    ...     sliced(fused_from_source(Leaf(0, (n,), np.dtype("f4"))), slice(3, None)) for n in (7, 9)
    ... ]
    >>> (one, numbers), (other, others) = without_numbers(y), without_numbers(z)
    >>> one == other, numbers, others
    (True, (4, 7, 1, 3), (6, 9, 1, 3))
    >>> with_numbers(one, others) == z
    True
    """
    numbers: list[int] = []

    def left_out(number: int) -> int:
        if len(numbers) >= _MOST:
            raise _TooManyError
        numbers.append(number)
        return 1

    try:
        return _renewed(value, left_out), tuple(numbers)
    except _TooManyError:
        return None


def with_numbers(skeleton: FusedValue, numbers: Sequence[int]) -> FusedValue:
    """Rebuild an expression from skeleton and numbers, which may be unhashable."""
    left = iter(numbers)
    return _renewed(skeleton, lambda _: next(left))


def _renewed(value: FusedValue, number: Number) -> FusedValue:
    shape = _all(value.shape, number)
    return FusedValue(shape, value.expr, tuple([_read(read, number) for read in value.reads]))


def _read(read: ElementRead, number: Number) -> ElementRead:
    return ElementRead(_source(read.source, number), _indices(read.index, number))


def _source(source: Source, number: Number) -> Source:
    if isinstance(source, Leaf):
        return replace(source, shape=_all(source.shape, number))
    if isinstance(source, ReducedValue):
        return replace(source, of=_renewed(source.of, number))
    blocks = [ArrayPart(_indices(b.places, number), _renewed(b.of, number)) for b in source.blocks]
    return replace(source, shape=_all(source.shape, number), blocks=tuple(blocks))


def _indices(indices: Sequence[AffineIndex], number: Number) -> tuple[AffineIndex, ...]:
    return tuple([_index(index, number) for index in indices])


def _index(index: AffineIndex, number: Number) -> AffineIndex:
    coefficients = tuple([(dim, number(c)) for dim, c in index.coefficients])
    return AffineIndex(coefficients, number(index.offset))


def _all(numbers: Sequence[int], number: Number) -> tuple[int, ...]:
    return tuple(map(number, numbers))
