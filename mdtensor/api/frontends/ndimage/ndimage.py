"""Filters with the signatures and the semantics of scipy.ndimage.

Some things differ. Arrays of float32 are weighted in float32, unless the output is wider; their
weights are rounded so that the sum stays. Sums are rounded in another order, which can change the
last bit, and so an integer result by one where a sum of weighted elements falls on an integer. And
NaN times a weight of 0 is NaN, as in scipy's filters along one axis; those along several leave
such elements out. Medians, percentiles and ranks are NaN where the window has one, which scipy does
not promise, and windows that are sorted have at most 27 elements.

A filter takes an array of any number of axes and gives one of its shape and type: of booleans,
integers, floating point, and, where elements are weighted, complex numbers. `output` is another
type, or the array that receives the result. `axes` are those along which a window lies; all others
are gone through. Arrays of CuPy are filtered on their GPU.

Raises FilterError (a ValueError and a RuntimeError) for windows, modes, origins and outputs that
make no sense, AxisError for axes that the array lacks, DTypeError for types without kernels.

>>> gaussian_filter([0.0, 0.0, 8.0, 0.0, 0.0], 1.0).round(2)
array([0.47, 1.94, 3.19, 1.94, 0.47])
"""

# ruff: noqa: A002 - scipy calls the array `input`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.api.arrays.operands import Array
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.frontends.ndimage.derivatives import (
    gaussian_gradient_magnitude,
    gaussian_laplace,
    generic_gradient_magnitude,
    generic_laplace,
    laplace,
    prewitt,
    sobel,
)
from mdtensor.api.frontends.ndimage.filter_arguments import (
    checked_size,
    filtering,
    gaussian_row,
    row_of,
    weights_of,
)
from mdtensor.api.frontends.ndimage.filters import extreme, gaussian, separable, weighted
from mdtensor.api.frontends.ndimage.ranks import median_filter, percentile_filter, rank_filter

__all__ = [
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "generic_gradient_magnitude",
    "generic_laplace",
    "laplace",
    "maximum_filter",
    "maximum_filter1d",
    "median_filter",
    "minimum_filter",
    "minimum_filter1d",
    "percentile_filter",
    "prewitt",
    "rank_filter",
    "sobel",
    "uniform_filter",
    "uniform_filter1d",
]


def __dir__() -> list[str]:
    return __all__


@with_call_cache
def correlate(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: Any = None,
) -> Array:
    """Correlation with weights; as scipy.ndimage.correlate.

    >>> correlate([1.0, 2.0, 4.0, 8.0], [1, 0, -1], mode="nearest")
    array([-1., -3., -6., -4.])
    """
    given = filtering(input, output, mode, cval, origin, axes)
    return weighted(given, weights_of(weights), flipped=False)


@with_call_cache
def convolve(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: Any = None,
) -> Array:
    """Convolution with weights; as scipy.ndimage.convolve."""
    given = filtering(input, output, mode, cval, origin, axes)
    return weighted(given, weights_of(weights), flipped=True)


@with_call_cache
def correlate1d(
    input: Any,
    weights: Any,
    axis: int | str = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Array:
    """Correlation along one axis; as scipy.ndimage.correlate1d."""
    row = row_of(weights)
    given = filtering(input, output, mode, cval, origin, (axis,))
    return weighted(given, row, flipped=False)


@with_call_cache
def convolve1d(
    input: Any,
    weights: Any,
    axis: int | str = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Array:
    """Convolution along one axis; as scipy.ndimage.convolve1d."""
    row = row_of(weights)
    given = filtering(input, output, mode, cval, origin, (axis,))
    return weighted(given, row, flipped=True)


@with_call_cache
def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Array:
    """Smoothing, or with `order` derivatives of it; as scipy.ndimage.gaussian_filter."""
    given = filtering(input, output, mode, cval, axes=axes)
    return gaussian(given, sigma, order, truncate, radius)


@with_call_cache
def gaussian_filter1d(
    input: Any,
    sigma: float,
    axis: int | str = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Array:
    """Smoothing along one axis; as scipy.ndimage.gaussian_filter1d."""
    row = gaussian_row(sigma, order, truncate, radius)
    return correlate1d(input, row, axis, output, mode, cval)


@with_call_cache
def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The mean of a box; as scipy.ndimage.uniform_filter."""
    return separable("add", filtering(input, output, mode, cval, origin, axes), size)


@with_call_cache
def uniform_filter1d(
    input: Any,
    size: int,
    axis: int | str = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Array:
    """The mean of some elements along one axis; as scipy.ndimage.uniform_filter1d."""
    checked = checked_size(size, origin)
    return separable("add", filtering(input, output, mode, cval, origin, (axis,)), checked)


@with_call_cache
def minimum_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The smallest element of a box or a footprint; as scipy.ndimage.minimum_filter.

    The result is NaN where the window has one.
    """
    given = filtering(input, output, mode, cval, origin, axes)
    return extreme("min", given, size, footprint)


@with_call_cache
def maximum_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The largest element of a box or a footprint; as scipy.ndimage.maximum_filter.

    The result is NaN where the window has one.
    """
    given = filtering(input, output, mode, cval, origin, axes)
    return extreme("max", given, size, footprint)


@with_call_cache
def minimum_filter1d(
    input: Any,
    size: int,
    axis: int | str = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Array:
    """The smallest element along one axis; as scipy.ndimage.minimum_filter1d."""
    checked = checked_size(size, origin)
    return separable("min", filtering(input, output, mode, cval, origin, (axis,)), checked)


@with_call_cache
def maximum_filter1d(
    input: Any,
    size: int,
    axis: int | str = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Array:
    """The largest element along one axis; as scipy.ndimage.maximum_filter1d."""
    checked = checked_size(size, origin)
    return separable("max", filtering(input, output, mode, cval, origin, (axis,)), checked)
