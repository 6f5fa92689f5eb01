"""Memory of NumPy arrays on boundaries that vectors like."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_ALIGNMENT = 64


def aligned_empty(
    shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
) -> np.ndarray:
    """An uninitialised array that starts on a 64-byte boundary; strides are in elements."""
    return aligned_allocator(shape, dtype, strides)()


def aligned_allocator(
    shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
) -> Callable[[], np.ndarray]:
    """A function that makes such arrays, for calls that have no time to lose."""
    extents, dt = tuple(shape), np.dtype(dtype)
    nbytes = math.prod(extents) * dt.itemsize + _ALIGNMENT
    steps = None if strides is None else [s * dt.itemsize for s in strides]
    first_byte: Any = ctypes.c_char.from_buffer

    def allocate() -> np.ndarray:
        try:
            memory = np.empty(nbytes, np.uint8)
        except (MemoryError, ValueError):
            memory = None
        if memory is None:
            return np.empty(extents, dt)  # whose error tells of this array, and of no other
        start = -ctypes.addressof(first_byte(memory)) % _ALIGNMENT
        return np.ndarray(extents, dt, memory, start, steps)

    return allocate
