"""`lazy`: makes an expression of an array, whose results are computed as one kernel."""

from __future__ import annotations

from typing import Any

from mdtensor.api.frontends.lazy.interning import register
from mdtensor.api.frontends.lazy.lazy_array import LazyArray, as_lazy
from mdtensor.api.frontends.lazy.lazy_functions import FUNCTIONS

register(FUNCTIONS)


def lazy(array: Any) -> LazyArray:
    """The array as an expression: slices of it, and arithmetic on them, are computed as one kernel.

    Raises DTypeError for element types without kernels, and for a masked array.

    >>> import numpy as np
    >>> u = lazy(np.arange(6.0))
    >>> y = (u[:-2] + u[1:-1] + u[2:]) / 3
    >>> y.shape
    (4,)
    >>> np.asarray(y)
    array([1., 2., 3., 4.])
    """
    return as_lazy(array)
