"""Tests for memory shared between arrays, or between elements of one array."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mdtensor.errors import ShapeError

# Arrays of NumPy or CuPy, known by their attributes alone.
Array = Any


def is_apart(array: Array, others: Iterable[Array], xp: Any) -> bool:
    """Whether an array surely shares no memory with any other one."""
    return not any(xp.may_share_memory(array, other) for other in others)


def check_distinct(name: str, array: Array) -> None:
    """Raises ShapeError for an output array if two of its elements share memory."""
    if overlaps_itself(array):
        raise ShapeError(
            f"elements of {name} share memory: shape {tuple(array.shape)}, strides"
            f" {tuple(array.strides)} bytes",
            hint=f"pass {name}.copy(), or none",
        )


def overlaps_itself(array: Array) -> bool:
    """Whether two elements of an array share memory.

    >>> x = np.zeros(9)
    >>> overlaps_itself(np.broadcast_to(x, (2, 9))), overlaps_itself(x[::-2])
    (True, False)
    """
    if array.size < 2 or array.flags.c_contiguous or array.flags.f_contiguous:
        return False
    size = array.dtype.itemsize
    steps = zip(array.strides, array.shape, strict=True)
    axes: list[tuple[int, int]] = sorted((abs(s), n) for s, n in steps if n > 1)
    reach, is_nested = size, True
    for stride, extent in axes:
        is_nested = is_nested and stride >= reach
        reach += stride * (extent - 1)
    if is_nested:
        return False
    if not axes[0][0] or reach < array.size * size:
        return True
    starts: np.ndarray = np.zeros(1, np.int64)
    for stride, extent in axes:
        starts = np.add.outer(starts, stride * np.arange(extent)).ravel()
    return bool((np.diff(np.sort(starts)) < size).any())
