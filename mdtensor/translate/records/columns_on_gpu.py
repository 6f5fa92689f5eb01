"""Columns of CuPy arrays of records, as views where alignment permits.

CuPy itself says little of records: nothing of strings, of elements of sub-arrays, of fields that
lie anywhere. An array's memory and strides are enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.errors import DTypeError
from mdtensor.translate.records.columns import WORD, Column, Path, column_dtype, part_dtype

Array = Any
_BYTE = np.dtype("u1")


def column_on_gpu(array: Array, column: Column, xp: Any) -> Array:
    """Extract a column other than a code, as an array of `xp`.

    A copy where elements do not lie at multiples of their size, or where a string ends within a
    word. Raises DTypeError for a foreign byte order.
    """
    offset, part = place_of(array.dtype, column.path)
    if not part.isnative:
        raise DTypeError(
            f"a field of type {part.str!r} on a GPU, which has one byte order",
            hint="convert the records before they are copied to the GPU",
        )
    wanted, length = column_dtype(array.dtype, column), part.itemsize
    if column.word is not None:
        before = column.word * WORD.itemsize
        offset, length = offset + before, min(WORD.itemsize, length - before)
    memory, size = array.data + offset, wanted.itemsize
    if length == size and not any(place % size for place in (memory.ptr, *array.strides)):
        return xp.ndarray(array.shape, wanted, memory, array.strides)
    padded = xp.zeros((*array.shape, size), _BYTE)
    padded[..., :length] = _bytes_at(array, offset, length, xp)
    return padded.view(wanted).reshape(array.shape)


def put_on_gpu(array: Array, name: str, values: Array, xp: Any) -> None:
    """Write a field of all elements, at any alignment."""
    offset, part = place_of(array.dtype, (name,))
    given = values.astype(part, copy=False)
    target = _bytes_at(array, offset, part.itemsize, xp)
    target[...] = _bytes_at(given, 0, part.itemsize, xp)


def place_of(dtype: np.dtype, path: Path) -> tuple[int, np.dtype]:
    """The byte offset of the part at a path, and its type.

    >>> place_of(np.dtype([("id", "i8"), ("when", "i2", (3,))]), ("when", 2))
    (12, dtype('int16'))
    """
    offset = 0
    for step in path:
        inner = part_dtype(dtype, step)
        if isinstance(step, str):
            fields: Any = dtype.fields
            offset += fields[step][1]
        else:
            offset += step * inner.itemsize
        dtype = inner
    return offset, dtype


def _bytes_at(array: Array, offset: int, count: int, xp: Any) -> Array:
    """A view of `count` bytes of every element, along a new last axis."""
    return xp.ndarray((*array.shape, count), _BYTE, array.data + offset, (*array.strides, 1))
