"""Values of ATen functions: lazy arrays, or NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.api.frontends.lazy.lazy import lazy
from mdtensor.api.frontends.lazy.lazy_array import LazyArray

Value = Any
"""A lazy array, or an array of NumPy's."""


def computed(value: LazyArray) -> LazyArray:
    """The value evaluated now, since several functions read it."""
    return lazy(value.evaluate())


def wide(x: Value) -> LazyArray:
    """The elements in the type of statistics: 16-bit floats as float32."""
    elements = lazy(x)
    return elements.astype(np.float32) if elements.dtype.itemsize == 2 else elements


def like(value: LazyArray, x: Value) -> LazyArray:
    """A value converted to the type of its source."""
    return value if value.dtype == x.dtype else value.astype(x.dtype)


def of_channels(x: LazyArray, value: Value) -> LazyArray:
    """A value per channel, the second axis, broadcastable over the elements."""
    return lazy(value)[(slice(None), *[None] * (x.ndim - 2))]
