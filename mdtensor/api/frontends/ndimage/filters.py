"""What scipy's filters are: windows over an array, one after the other, as one computation."""

# ruff: noqa: A002 - scipy calls the array `input`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.api.calls.call_cache import in_full
from mdtensor.api.frontends.ndimage.filter_arguments import (
    array_of,
    axes_of,
    border_of,
    footprint_of,
    for_each_axis,
    gaussian_row,
    number,
    on_all_axes,
    output_of,
    weights_of,
    whole_number,
)
from mdtensor.api.frontends.ndimage.filter_passes import Passes, along, filtered, window_around
from mdtensor.errors import DTypeError, FilterError, warn
from mdtensor.translate.stencils.md_hom_from_filter import Filter


def weighted(
    input: Any,
    weights: Any,
    output: Any,
    mode: Any,
    cval: Any,
    origin: Any,
    axes: Any,
    *,
    flipped: bool,
) -> Array:
    """The sum of a window's elements times weights, which are flipped for a convolution."""
    array, window = array_of(input), weights_of(weights)
    is_complex = "c" in (array.dtype.kind, window.dtype.kind)
    dtype, out = output_of(output, array, is_complex=is_complex)
    chosen = axes_of(axes, array.ndim)
    if window.ndim != len(chosen) or 0 in window.shape:
        raise FilterError(f"weights.ndim ({window.ndim}) must match len(axes) ({len(chosen)})")
    window, shifts = on_all_axes(window, origin, chosen, array.ndim)
    if flipped:
        window = np.flip(window)
        # An even window has its point behind the middle, which flipping puts before it.
        shifts = [-shift - (n % 2 == 0) for shift, n in zip(shifts, window.shape, strict=True)]
    elif window.dtype.kind == "c":
        window = window.conj()
    if not isinstance(mode, str):
        raise FilterError("A sequence of modes is not supported")
    border = border_of(mode, cval, array)
    given = window_around("add", window.shape, shifts, border, weighted=True)
    return filtered(Passes((given,), (window,)), array, dtype, out)


def gaussian(
    input: Any,
    sigma: Any,
    order: Any,
    output: Any,
    mode: Any,
    cval: Any,
    truncate: float,
    radius: Any,
    axes: Any,
) -> Array:
    """Weighted windows along one axis after the other."""
    array = array_of(input)
    dtype, out = output_of(output, array, is_complex=array.dtype.kind == "c")
    passes = gaussian_passes(
        array, sigma, order, mode, cval, truncate, radius, axes_of(axes, array.ndim)
    )
    if not passes.filters:
        return copied(array, dtype, out)
    return filtered(passes, array, dtype, out)


def gaussian_passes(
    array: Array,
    sigma: Any,
    order: Any,
    mode: Any,
    cval: Any,
    truncate: Any,
    radius: Any,
    axes: Sequence[int],
) -> Passes:
    """A pass along each axis that has a width."""
    count = len(axes)
    filters: list[Filter] = []
    rows: list[np.ndarray] = []
    for axis, width, derivative, word, reach in zip(
        axes,
        for_each_axis(sigma, count),
        for_each_axis(order, count),
        for_each_axis(mode, count),
        for_each_axis(radius, count),
        strict=True,
    ):
        if number("sigma", width) > 1e-15:
            row = gaussian_row(width, derivative, truncate, reach)
            border = border_of(word, cval, array)
            filters.append(along("add", array.ndim, axis, len(row), 0, border, weighted=True))
            rows.append(row)
    return Passes(tuple(filters), tuple(rows))


def separable(
    combine: str,
    input: Any,
    size: Any,
    output: Any,
    mode: Any,
    cval: Any,
    origin: Any,
    axes: Any,
) -> Array:
    """A window that is combined axis by axis; results between are of the output's type."""
    array = array_of(input)
    is_complex = array.dtype.kind == "c"
    if combine != "add":
        check_order(array)
    dtype, out = output_of(output, array, is_complex=is_complex)
    chosen = axes_of(axes, array.ndim)
    count = len(chosen)
    sizes, shifts, words = (
        [int(number("size", extent)) for extent in for_each_axis(size, count)],
        for_each_axis(origin, count),
        for_each_axis(mode, count),
    )
    passes = [
        along(
            combine,
            array.ndim,
            axis,
            extent,
            whole_number("origin", shift),
            border_of(word, cval, array),
        )
        for axis, extent, shift, word in zip(chosen, sizes, shifts, words, strict=True)
        if extent > 1
    ]
    if not passes:
        return copied(array, dtype, out)
    return filtered(Passes(tuple(passes)), array, dtype, out)


def extreme(
    combine: str,
    input: Any,
    size: Any,
    footprint: Any,
    output: Any,
    mode: Any,
    cval: Any,
    origin: Any,
    axes: Any,
) -> Array:
    """The smallest or largest element of a box, or of the places that a footprint marks."""
    if footprint is None:
        if size is None:
            raise FilterError("no footprint provided", hint="give size= or footprint=")
        return separable(combine, input, size, output, mode, cval, origin, axes)
    if size is not None:
        in_full()
        warn(UserWarning("ignoring size because footprint is set"))
    counted = footprint_of(footprint)
    if counted.all():
        return separable(combine, input, counted.shape, output, mode, cval, origin, axes)
    array = array_of(input)
    check_order(array)
    dtype, out = output_of(output, array, is_complex=False)
    chosen = axes_of(axes, array.ndim)
    if counted.ndim != len(chosen):
        raise FilterError(f"footprint.ndim ({counted.ndim}) must match len(axes) ({len(chosen)})")
    window, shifts = on_all_axes(counted, origin, chosen, array.ndim)
    if not isinstance(mode, str):
        raise FilterError("A sequence of modes is not supported for non-separable footprints")
    border = border_of(mode, cval, array)
    given = window_around(combine, window.shape, shifts, border, weighted=True)
    return filtered(Passes((given,), (window,)), array, dtype, out)


def check_order(array: Array) -> None:
    """Raises DTypeError for elements that have no order."""
    if array.dtype.kind == "c":
        raise DTypeError("Complex type not supported", hint="complex numbers have no order")


def copied(array: Array, dtype: np.dtype, out: Array | None) -> Array:
    """The array as it is, in another type."""
    if out is None:
        return array.astype(dtype)
    out[...] = array
    return out
