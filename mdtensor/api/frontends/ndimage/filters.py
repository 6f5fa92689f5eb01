"""Scipy's filters as sequences of windows over an array, in one computation."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.api.calls.call_cache import in_full
from mdtensor.api.frontends.ndimage.filter_arguments import (
    Filtering,
    border_of,
    footprint_of,
    for_each_axis,
    gaussian_row,
    number,
    whole_number,
)
from mdtensor.api.frontends.ndimage.filter_passes import Passes, along, filtered, window_around
from mdtensor.errors import DTypeError, FilterError, warn
from mdtensor.translate.stencils.md_hom_from_filter import Filter


def weighted(given: Filtering, window: np.ndarray, *, flipped: bool) -> Array:
    """The weighted sum of a window, with weights flipped for a convolution."""
    dtype, out = given.result(window)
    given.check_axes("weights", window)
    is_complex = window.dtype.kind == "c"
    window, shifts = given.on_all_axes(window)
    if flipped:
        window = np.flip(window)
        # An even window has its point behind the middle, which flipping puts before it.
        shifts = [-shift - (n % 2 == 0) for shift, n in zip(shifts, window.shape, strict=True)]
    elif is_complex:
        window = window.conj()
    found = window_around("add", window.shape, shifts, given.border(), weighted=True)
    return filtered(Passes((found,), (window,)), given.array, dtype, out)


def gaussian(given: Filtering, sigma: Any, order: Any, truncate: float, radius: Any) -> Array:
    """Smooth by weighted windows, one axis after the other."""
    dtype, out = given.result()
    return _passed(gaussian_passes(given, sigma, order, truncate, radius), given, dtype, out)


def gaussian_passes(
    given: Filtering, sigma: Any, order: Any, truncate: float, radius: Any
) -> Passes:
    """A weighted pass along each axis whose width is not 0."""
    array, axes = given.array, given.chosen()
    filters: list[Filter] = []
    rows: list[np.ndarray] = []
    each = [for_each_axis(value, len(axes)) for value in (sigma, order, given.mode, radius)]
    for axis, width, derivative, word, reach in zip(axes, *each, strict=True):
        if number("sigma", width) > 1e-15:
            row = gaussian_row(width, derivative, truncate, reach)
            border = border_of(word, given.cval, array)
            filters.append(along("add", array.ndim, axis, len(row), 0, border, weighted=True))
            rows.append(row)
    return Passes(tuple(filters), tuple(rows))


def separable(combine: str, given: Filtering, size: Any) -> Array:
    """Filter by a box, one axis after the other; intermediates have the output's type."""
    array = given.array
    if combine != "add":
        check_order(array)
    dtype, out = given.result()
    axes = given.chosen()
    sizes = [int(number("size", extent)) for extent in for_each_axis(size, len(axes))]
    each = [for_each_axis(value, len(axes)) for value in (given.origin, given.mode)]
    passes = [
        along(
            combine,
            array.ndim,
            axis,
            extent,
            whole_number("origin", shift),
            border_of(word, given.cval, array),
        )
        for axis, extent, shift, word in zip(axes, sizes, *each, strict=True)
        if extent > 1
    ]
    return _passed(Passes(tuple(passes)), given, dtype, out)


def _passed(passes: Passes, given: Filtering, dtype: np.dtype, out: Array | None) -> Array:
    if not passes.filters:
        return copied(given.array, dtype, out)
    return filtered(passes, given.array, dtype, out)


def extreme(combine: str, given: Filtering, size: Any, footprint: Any) -> Array:
    """The smallest or largest element of a box or a footprint."""
    if footprint is None:
        if size is None:
            raise FilterError("no footprint provided", hint="give size= or footprint=")
        return separable(combine, given, size)
    check_size(size, footprint)
    counted = footprint_of(footprint)
    if counted.all():
        return separable(combine, given, counted.shape)
    check_order(given.array)
    dtype, out = given.result()
    given.check_axes("footprint", counted)
    window, shifts = given.on_all_axes(counted)
    border = given.border(" for non-separable footprints")
    found = window_around(combine, window.shape, shifts, border, weighted=True)
    return filtered(Passes((found,), (window,)), given.array, dtype, out)


def check_size(size: Any, footprint: Any) -> None:
    """Warns where both a size and a footprint are given, as scipy does, at each call."""
    if size is not None and footprint is not None:
        in_full()
        warn(UserWarning("ignoring size because footprint is set"))


def check_order(array: Array) -> None:
    """Raises DTypeError for element types without an order."""
    if array.dtype.kind == "c":
        raise DTypeError("Complex type not supported", hint="complex numbers have no order")


def copied(array: Array, dtype: np.dtype, out: Array | None) -> Array:
    """The array copied to another type, or into `out`."""
    if out is None:
        return array.astype(dtype)
    out[...] = array
    return out
