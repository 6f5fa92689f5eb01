"""Allocation of NumPy arrays on 64-byte boundaries."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.backends.host.memory_pool import POOLED
from mdtensor.backends.host.result_pool import POOL

_ALIGNMENT = 64


def aligned_empty(
    shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
) -> np.ndarray:
    """An uninitialised array that starts on a 64-byte boundary; strides are in elements."""
    return aligned_allocator(shape, dtype, strides)()


def aligned_allocator(
    shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
) -> Callable[[], np.ndarray]:
    """A fast allocator of one array layout, as `aligned_empty` makes them.

    Large arrays lie in memory of the pool, unless NumPy's array interface cannot say their type.
    """
    extents, dt = tuple(shape), np.dtype(dtype)
    nbytes = math.prod(extents) * dt.itemsize
    steps = None if strides is None else tuple(s * dt.itemsize for s in strides)
    new = _numpys(extents, dt, nbytes + _ALIGNMENT, steps)
    if nbytes < POOLED or dt.hasobject or np.dtype(dt.str) != dt:
        return new
    layout = {"version": 3, "shape": extents, "typestr": dt.str, "strides": steps}
    pooled = POOL.array

    def allocate() -> np.ndarray:
        array = pooled(nbytes, layout)
        return new() if array is None else array

    return allocate


def _numpys(
    extents: tuple[int, ...], dtype: np.dtype, nbytes: int, steps: tuple[int, ...] | None
) -> Callable[[], np.ndarray]:
    """An allocator from NumPy's own memory, aligned to 64 bytes."""
    first_byte: Any = ctypes.c_char.from_buffer

    def allocate() -> np.ndarray:
        try:
            memory = np.empty(nbytes, np.uint8)
        except (MemoryError, ValueError):
            memory = None
        if memory is None:
            return np.empty(extents, dtype)  # whose error tells of this array, and of no other
        start = -ctypes.addressof(first_byte(memory)) % _ALIGNMENT
        return np.ndarray(extents, dtype, memory, start, steps)

    return allocate
