"""Filters with the signatures and the semantics of scipy.ndimage.

Two things differ. Arrays of float32 are computed in float32, unless the output is wider. And sums
are rounded in another order, which can change the last bit, and so an integer result by one where
a sum of weighted elements falls on an integer.
"""

# ruff: noqa: A002 - scipy calls the array `input`.

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.api.computation import Computation, Step, call
from mdtensor.api.ndimage_arguments import (
    array_of,
    axes_of,
    axis_of,
    border_of,
    checked_size,
    for_each_axis,
    gaussian_row,
    on_all_axes,
    output_of,
    row_of,
)
from mdtensor.api.operands import Array, array_module
from mdtensor.errors import DTypeError, FilterError
from mdtensor.specs import TensorSpec
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_filter import (
    Filter,
    computed_dtype,
    md_homs_from_filter,
)

__all__ = [
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "gaussian_filter",
    "gaussian_filter1d",
    "maximum_filter",
    "maximum_filter1d",
    "minimum_filter",
    "minimum_filter1d",
    "uniform_filter",
    "uniform_filter1d",
]


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
    return _weighted(input, weights, output, mode, cval, origin, axes, flipped=False)


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
    return _weighted(input, weights, output, mode, cval, origin, axes, flipped=True)


def correlate1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Array:
    """Correlation along one axis; as scipy.ndimage.correlate1d."""
    row = row_of(weights)
    return _weighted(input, row, output, mode, cval, origin, axis_of(input, axis), flipped=False)


def convolve1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Array:
    """Convolution along one axis; as scipy.ndimage.convolve1d."""
    row = row_of(weights)
    return _weighted(input, row, output, mode, cval, origin, axis_of(input, axis), flipped=True)


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
    array = array_of(input)
    dtype, out = output_of(output, array, is_complex=array.dtype.kind == "c")
    chosen = axes_of(axes, array.ndim)
    count = len(chosen)
    passes: list[Filter] = []
    rows: list[np.ndarray] = []
    for axis, width, derivative, word, reach in zip(
        chosen,
        for_each_axis(sigma, count),
        for_each_axis(order, count),
        for_each_axis(mode, count),
        for_each_axis(radius, count),
        strict=True,
    ):
        if width > 1e-15:
            row = gaussian_row(float(width), int(derivative), truncate, reach)
            border = border_of(word, cval, array)
            passes.append(_along("add", array.ndim, axis, len(row), 0, border, weighted=True))
            rows.append(row)
    if not passes:
        return _copied(array, dtype, out)
    return _filtered(passes, array, rows, dtype, out)


def gaussian_filter1d(
    input: Any,
    sigma: float,
    axis: int = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Array:
    """Smoothing along one axis; as scipy.ndimage.gaussian_filter1d."""
    row = gaussian_row(float(sigma), order, truncate, radius)
    return correlate1d(input, row, axis, output, mode, cval)


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
    return _separable("add", input, size, output, mode, cval, origin, axes)


def uniform_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Array:
    """The mean of some elements along one axis; as scipy.ndimage.uniform_filter1d."""
    return _separable(
        "add", input, checked_size(size), output, mode, cval, origin, axis_of(input, axis)
    )


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
    return _extreme("min", input, size, footprint, output, mode, cval, origin, axes)


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
    return _extreme("max", input, size, footprint, output, mode, cval, origin, axes)


def minimum_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Array:
    """The smallest element along one axis; as scipy.ndimage.minimum_filter1d."""
    return _separable(
        "min", input, checked_size(size), output, mode, cval, origin, axis_of(input, axis)
    )


def maximum_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Array:
    """The largest element along one axis; as scipy.ndimage.maximum_filter1d."""
    return _separable(
        "max", input, checked_size(size), output, mode, cval, origin, axis_of(input, axis)
    )


def _weighted(
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
    array, window = array_of(input), np.asarray(weights)
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
    given = _window("add", window.shape, shifts, border, weighted=True)
    return _filtered([given], array, [window], dtype, out)


def _separable(
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
    if is_complex and combine != "add":
        raise DTypeError("Complex type not supported", hint="complex numbers have no order")
    dtype, out = output_of(output, array, is_complex=is_complex)
    chosen = axes_of(axes, array.ndim)
    count = len(chosen)
    sizes, shifts, words = (
        for_each_axis(size, count),
        for_each_axis(origin, count),
        for_each_axis(mode, count),
    )
    passes = [
        _along(combine, array.ndim, axis, int(extent), shift, border_of(word, cval, array))
        for axis, extent, shift, word in zip(chosen, sizes, shifts, words, strict=True)
        if extent > 1
    ]
    if not passes:
        return _copied(array, dtype, out)
    return _filtered(passes, array, [], dtype, out)


def _extreme(
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
    if footprint is None:
        if size is None:
            raise FilterError("no footprint provided", hint="give size= or footprint=")
        return _separable(combine, input, size, output, mode, cval, origin, axes)
    if size is not None:
        warnings.warn("ignoring size because footprint is set", UserWarning, stacklevel=3)
    counted = np.asarray(footprint, bool)
    if not counted.any():
        raise FilterError("All-zero footprint is not supported.")
    if counted.all():
        return _separable(combine, input, counted.shape, output, mode, cval, origin, axes)
    array = array_of(input)
    if array.dtype.kind == "c":
        raise DTypeError("Complex type not supported", hint="complex numbers have no order")
    dtype, out = output_of(output, array, is_complex=False)
    chosen = axes_of(axes, array.ndim)
    if counted.ndim != len(chosen):
        raise FilterError(f"footprint.ndim ({counted.ndim}) must match len(axes) ({len(chosen)})")
    window, shifts = on_all_axes(counted, origin, chosen, array.ndim)
    if not isinstance(mode, str):
        raise FilterError("A sequence of modes is not supported for non-separable footprints")
    border = border_of(mode, cval, array)
    given = _window(combine, window.shape, shifts, border, weighted=True)
    return _filtered([given], array, [window], dtype, out)


def _filtered(
    passes: Sequence[Filter],
    array: Array,
    windows: Sequence[np.ndarray],
    dtype: np.dtype,
    out: Array | None,
) -> Array:
    """The passes one after the other, each on the result of the one before, as one call."""
    if array.ndim == 0:
        raise FilterError("a filter needs an array with at least one axis")
    weights = [
        _taken(window.reshape(given.sizes), array, dtype)
        for window, given in zip(windows, passes, strict=False)
    ]

    def build(specs: tuple[TensorSpec, ...]) -> Computation:
        return _computation(passes, specs, TensorSpec.of(array.shape, dtype))

    return call(("filter", tuple(passes), dtype), [array, *weights], build, out)


def _computation(
    passes: Sequence[Filter], specs: Sequence[TensorSpec], out: TensorSpec
) -> Computation:
    """Steps that read the array or a temporary, and write a temporary or the result."""
    result = len(specs)
    steps: list[Step] = []
    slot, field = 0, specs[0]
    for number, given in enumerate(passes):
        weights = specs[1 + number] if given.weighted else None
        target = result if number == len(passes) - 1 else result + 1 + number
        reads = (slot, 1 + number) if given.weighted else (slot,)
        md_homs = md_homs_from_filter(given, field, out, weights)
        steps += [Step(md_hom, reads, (target,)) for md_hom in md_homs]
        slot, field = target, out
    return Computation(result, (out,), (out,) * (len(passes) - 1), tuple(steps))


def _taken(window: np.ndarray, array: Array, dtype: np.dtype) -> Array:
    """Weights in the type that is computed in, where the array is; footprints as they are."""
    if window.dtype != np.bool_:
        is_complex = "c" in (array.dtype.kind, window.dtype.kind)
        window = window.astype(computed_dtype(array.dtype, dtype, is_complex=is_complex))
    return array_module([array]).asarray(np.ascontiguousarray(window))


def _along(
    combine: str,
    ndim: int,
    axis: int,
    size: int,
    shift: int,
    border: Border,
    *,
    weighted: bool = False,
) -> Filter:
    """A window along one axis."""
    sizes, shifts = [1] * ndim, [0] * ndim
    sizes[axis], shifts[axis] = size, shift
    return _window(combine, sizes, shifts, border, weighted=weighted)


def _window(
    combine: str, sizes: Sequence[int], shifts: Sequence[int], border: Border, *, weighted: bool
) -> Filter:
    """A window around the point; a sum of elements without weights becomes their mean."""
    for size, shift in zip(sizes, shifts, strict=True):
        if not 0 <= size // 2 + shift < size:
            raise FilterError(
                f"Invalid origin {shift} for a window of {size}",
                hint=f"from {-(size // 2)} to {(size - 1) // 2}",
            )
    starts = tuple(-(size // 2) - int(shift) for size, shift in zip(sizes, shifts, strict=True))
    divisor = math.prod(sizes) if combine == "add" and not weighted else 1
    return Filter(combine, tuple(sizes), starts, border, weighted, divisor)


def _copied(array: Array, dtype: np.dtype, out: Array | None) -> Array:
    if out is None:
        return array.astype(dtype)
    out[...] = array
    return out
