"""Values of ATen's functions: lazy arrays, or arrays of NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.api.frontends.lazy.lazy import lazy
from mdtensor.api.frontends.lazy.lazy_array import LazyArray

Value = Any
"""A lazy array, or an array of NumPy's."""


def computed(value: LazyArray) -> LazyArray:
    """The value as an array that is computed now, for several who read it."""
    return lazy(value.evaluate())


def wide(x: Value) -> LazyArray:
    """The elements as statistics are taken of them: short floats as float32."""
    elements = lazy(x)
    return elements.astype(np.float32) if elements.dtype.itemsize == 2 else elements


def like(value: LazyArray, x: Value) -> LazyArray:
    """A value in the type of what it was computed from."""
    return value if value.dtype == x.dtype else value.astype(x.dtype)


def of_channels(x: LazyArray, value: Value) -> LazyArray:
    """A value for each channel, which is the second axis, beside the elements."""
    return lazy(value)[(slice(None), *[None] * (x.ndim - 2))]
