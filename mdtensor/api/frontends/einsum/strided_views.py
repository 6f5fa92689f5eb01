"""Sums as indices in NumPy's terms: a classic string on overlapping views."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.affine_index import AffineSum
from mdtensor.translate.einsum.index_space import index_space
from mdtensor.translate.einsum.subscripts import parse


def windows(
    subscripts: str, operands: Sequence[np.ndarray], extents: Mapping[str, int] | None = None
) -> tuple[str, list[np.ndarray]] | None:
    """A string without sums, and views of the operands on which it is equivalent.

    None where no views do: where elements are indices, or there are more dims than letters.

    >>> text, (image, taps) = windows("h+r, r -> h", (np.arange(5.0), np.ones(2)))
    >>> text, image.tolist()
    ('ab,b->a', [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])
    """
    specs = [TensorSpec.of(operand.shape, operand.dtype) for operand in operands]
    space = index_space(parse(subscripts), specs, extents)
    if space.index_operands or len(space.extents) > len(string.ascii_letters):
        return None
    walked = [_strides(operand, axes) for operand, axes in zip(operands, space.inputs, strict=True)]
    # An axis of extent 1 has no dim; the first operand is repeated along dims that no other walks.
    nowhere = set(space.extents).difference(*walked)
    walked[0] = {**dict.fromkeys(sorted(nowhere), 0), **walked[0]}
    views = [
        as_strided(
            _from_origin(operand, axes), [space.extents[name] for name in dims], dims.values()
        )
        for operand, axes, dims in zip(operands, space.inputs, walked, strict=True)
    ]
    letters = dict(zip(space.extents, string.ascii_letters, strict=False))
    terms = ["".join(map(letters.__getitem__, dims)) for dims in (*walked, space.output)]
    return f"{','.join(terms[:-1])}->{terms[-1]}", views


def _strides(operand: np.ndarray, axes: Sequence[AffineSum]) -> dict[str, int]:
    """The stride of each dim over an operand, in bytes."""
    found: dict[str, int] = {}
    for stride, axis in zip(operand.strides, axes, strict=True):
        for name, coefficient in axis.dims:
            found[name] = found.get(name, 0) + coefficient * stride
    return found


def _from_origin(operand: np.ndarray, axes: Sequence[AffineSum]) -> np.ndarray:
    """The operand sliced from its first element on that is read: that of index 0 in all dims."""
    return operand[tuple(slice(axis.offset, None) for axis in axes)]
