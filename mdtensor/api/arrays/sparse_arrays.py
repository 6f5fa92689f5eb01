"""Sparse arrays of scipy and CuPy as operands; neither library is imported for that."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.api.arrays.ragged import Ragged
from mdtensor.errors import DTypeError

# Formats by the axis that they are compressed along.
_COMPRESSED = ("csr", "csc")


def is_sparse(operand: object) -> bool:
    """Whether an operand is a sparse array or matrix of scipy's or CuPy's, of any format."""
    kind = type(operand)
    return hasattr(kind, "tocoo") and hasattr(kind, "toarray")


def check_dense(name: str, operand: object) -> None:
    """Raises DTypeError for a sparse array or a ragged batch where a dense array is due."""
    if isinstance(operand, Ragged):
        raise DTypeError(
            f"{name} is a ragged batch where a dense array is due",
            hint="r.values has the elements of r, r.padded(fill) is dense; mdtensor.einsum,"
            " mdtensor.reduce and mdtensor.softmax take ragged batches, see docs/ragged.md",
        )
    if is_sparse(operand):
        raise DTypeError(
            f"{name} is a sparse {type(operand).__name__} where a dense array is due",
            hint="a.toarray() stores all elements of a; mdtensor.einsum and mdtensor.reduce take"
            " sparse arrays, see sparse operands in docs/reductions.md",
        )


def listed_or_compressed(sparse: Any) -> Any:
    """A sparse array in COO, CSR or CSC format; other formats are converted, matrices to CSR."""
    if sparse.format in ("coo", *_COMPRESSED):
        return sparse
    return sparse.tocsr() if len(sparse.shape) == 2 else sparse.tocoo()


def arrays_of_sparse(sparse: Any) -> tuple[Any, ...]:
    """The component arrays of a compressed or coordinate array; () for others."""
    if sparse.format in _COMPRESSED:
        return sparse.data, sparse.indices, sparse.indptr
    return (sparse.data, *_coordinates(sparse)) if sparse.format == "coo" else ()


def _coordinates(listed: Any) -> tuple[Any, ...]:
    return tuple(getattr(listed, "coords", None) or (listed.row, listed.col))


def compressed_axis(sparse: Any) -> int | None:
    """The axis along which a sparse array is compressed: 0 for rows, 1 for columns, else None.

    It is None also where its elements are listed by their coordinates.
    """
    is_plane = len(sparse.shape) == 2 and sparse.format in _COMPRESSED
    return _COMPRESSED.index(sparse.format) if is_plane else None


def ranges_of_stored(sparse: Any, axis: int, *, distinct: bool) -> tuple[Any, Any, Any]:
    """A compressed array's values, indices and pointers.

    Elements that are stored twice are added up where they must be `distinct`.
    """
    compressed = sparse.asformat(_COMPRESSED[axis])
    if distinct and not compressed.has_canonical_format:
        compressed = compressed.copy() if compressed is sparse else compressed
        compressed.sum_duplicates()
    return compressed.data, compressed.indices, compressed.indptr


def coordinates_of_stored(sparse: Any, *, distinct: bool) -> tuple[Any, ...]:
    """A sparse array's values, then their indices along each axis.

    Elements that are stored twice are added up where they must be `distinct`.
    """
    if distinct and not getattr(sparse, "has_canonical_format", True):
        sparse = sparse.tocsr(copy=True) if len(sparse.shape) == 2 else sparse.copy()
        sparse.sum_duplicates()
    axis = compressed_axis(sparse)
    is_numpys = isinstance(sparse.data, np.ndarray)
    if axis is not None and is_numpys:
        numbers = np.arange(sparse.shape[axis], dtype=sparse.indices.dtype)
        along = np.repeat(numbers, np.diff(sparse.indptr))  # a third of what scipy's way takes
        return sparse.data, *((along, sparse.indices) if axis == 0 else (sparse.indices, along))
    listed = sparse.tocoo(copy=False)
    return (listed.data, *_coordinates(listed))
