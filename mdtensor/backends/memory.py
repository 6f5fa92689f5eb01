"""Memory of NumPy arrays on boundaries that vectors like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_ALIGNMENT = 64


def aligned_empty(
    shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
) -> np.ndarray:
    """An uninitialised array that starts on a 64-byte boundary; strides are in elements."""
    dt = np.dtype(dtype)
    try:
        memory = np.empty(math.prod(shape) * dt.itemsize + _ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):
        return np.empty(tuple(shape), dt)  # whose error tells of this array
    start = -memory.ctypes.data % _ALIGNMENT
    steps = None if strides is None else [s * dt.itemsize for s in strides]
    return np.ndarray(tuple(shape), dt, memory.data, start, steps)
