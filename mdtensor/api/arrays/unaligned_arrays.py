"""Misaligned arrays, whose strides are no multiples of the element size, and copies of them.

No kernel reads or writes them. NumPy copies them as any others. CuPy's own kernels end at a
misaligned address, which no later call of the process survives, so on a GPU they are copied byte by
byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.errors import DTypeError

Array = Any


def addressable(array: Array) -> bool:
    """Whether every element is at a whole number of elements from the first."""
    size = array.dtype.itemsize
    aligned = not isinstance(array, np.ndarray) or array.flags.aligned
    return aligned and all(stride % size == 0 for stride in array.strides)


def native_copy(array: Array, xp: Any) -> Array:
    """An addressable copy in native byte order that keeps the order of axes."""
    if xp is np or addressable(array):
        return array.astype(array.dtype.newbyteorder("="))
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    copied = _bytes_of(array.transpose(order), xp).copy("C").view(array.dtype)[..., 0]
    return copied.transpose([order.index(axis) for axis in range(array.ndim)])


def addressable_copy(array: Array, xp: Any) -> Array:
    """An addressable copy that keeps the order of axes.

    As in the array, all indices of an axis with stride 0 are one element.
    """
    once = array[tuple(slice(None if stride else 1) for stride in array.strides)]
    return xp.broadcast_to(native_copy(once, xp), array.shape)


def copy_into(target: Array, values: Array, xp: Any, casting: Any = "same_kind") -> None:
    """Copies values of the target's shape into it; DTypeError where `casting` forbids that."""
    if xp is np or addressable(target):
        xp.copyto(target, values, casting=casting)
        return
    if not np.can_cast(values.dtype, target.dtype, casting):
        raise DTypeError(f"the result is {values.dtype}, which does not go into {target.dtype}")
    given = xp.ascontiguousarray(values.astype(target.dtype))
    xp.copyto(_bytes_of(target, xp), _bytes_of(given.reshape(target.shape), xp))


def _bytes_of(array: Array, xp: Any) -> Array:
    """A CuPy array's bytes, along an additional axis."""
    size = array.dtype.itemsize
    return xp.ndarray((*array.shape, size), np.uint8, array.data, (*array.strides, 1))
