"""Filters with the signatures and the semantics of scipy.ndimage.

Two things differ. Arrays of float32 are computed in float32, unless the output is wider. And sums
are rounded in another order, which can change the last bit, and so an integer result by one where
a sum of weighted elements falls on an integer.
"""

# ruff: noqa: A002 - scipy calls the array `input`.

from __future__ import annotations

import math
import numbers
import operator
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from mdtensor.api.computation import Computation, Step, call
from mdtensor.api.operands import Array, array_module
from mdtensor.errors import DTypeError, FilterError
from mdtensor.specs import TensorSpec
from mdtensor.translate.borders import Border
from mdtensor.translate.md_hom_from_filter import Filter, computed_dtype, md_homs_from_filter

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

_MODES = {
    "nearest": "nearest",
    "wrap": "wrap",
    "grid-wrap": "wrap",
    "reflect": "reflect",
    "grid-mirror": "reflect",
    "mirror": "mirror",
    "constant": "constant",
    "grid-constant": "constant",
}


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
    row = _row(weights)
    return _weighted(input, row, output, mode, cval, origin, _axis(input, axis), flipped=False)


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
    row = _row(weights)
    return _weighted(input, row, output, mode, cval, origin, _axis(input, axis), flipped=True)


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
    array = _array(input)
    dtype, out = _output(output, array, is_complex=array.dtype.kind == "c")
    chosen = _axes(axes, array.ndim)
    count = len(chosen)
    passes: list[Filter] = []
    rows: list[np.ndarray] = []
    for axis, width, derivative, word, reach in zip(
        chosen,
        _listed(sigma, count),
        _listed(order, count),
        _listed(mode, count),
        _listed(radius, count),
        strict=True,
    ):
        if width > 1e-15:
            row = _gaussian(float(width), int(derivative), truncate, reach)
            border = _border(word, cval, array)
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
    row = _gaussian(float(sigma), order, truncate, radius)
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
    return _separable("add", input, _size(size), output, mode, cval, origin, _axis(input, axis))


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
    return _separable("min", input, _size(size), output, mode, cval, origin, _axis(input, axis))


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
    return _separable("max", input, _size(size), output, mode, cval, origin, _axis(input, axis))


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
    array, window = _array(input), np.asarray(weights)
    is_complex = "c" in (array.dtype.kind, window.dtype.kind)
    dtype, out = _output(output, array, is_complex=is_complex)
    chosen = _axes(axes, array.ndim)
    if window.ndim != len(chosen) or 0 in window.shape:
        raise FilterError(f"weights.ndim ({window.ndim}) must match len(axes) ({len(chosen)})")
    window, shifts = _on_all_axes(window, origin, chosen, array.ndim)
    if flipped:
        window = np.flip(window)
        # An even window has its point behind the middle, which flipping puts before it.
        shifts = [-shift - (n % 2 == 0) for shift, n in zip(shifts, window.shape, strict=True)]
    elif window.dtype.kind == "c":
        window = window.conj()
    if not isinstance(mode, str):
        raise FilterError("A sequence of modes is not supported")
    border = _border(mode, cval, array)
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
    array = _array(input)
    is_complex = array.dtype.kind == "c"
    if is_complex and combine != "add":
        raise DTypeError("Complex type not supported", hint="complex numbers have no order")
    dtype, out = _output(output, array, is_complex=is_complex)
    chosen = _axes(axes, array.ndim)
    count = len(chosen)
    sizes, shifts, words = _listed(size, count), _listed(origin, count), _listed(mode, count)
    passes = [
        _along(combine, array.ndim, axis, int(extent), shift, _border(word, cval, array))
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
    array = _array(input)
    if array.dtype.kind == "c":
        raise DTypeError("Complex type not supported", hint="complex numbers have no order")
    dtype, out = _output(output, array, is_complex=False)
    chosen = _axes(axes, array.ndim)
    if counted.ndim != len(chosen):
        raise FilterError(f"footprint.ndim ({counted.ndim}) must match len(axes) ({len(chosen)})")
    window, shifts = _on_all_axes(counted, origin, chosen, array.ndim)
    if not isinstance(mode, str):
        raise FilterError("A sequence of modes is not supported for non-separable footprints")
    border = _border(mode, cval, array)
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


def _array(input: Any) -> Array:
    return array_module([input]).asarray(input)


def _output(output: Any, array: Array, *, is_complex: bool) -> tuple[np.dtype, Array | None]:
    """The type of the result, and the array that receives it."""
    if output is None:
        return (np.result_type(array.dtype, np.complex64) if is_complex else array.dtype), None
    if isinstance(output, str | type | np.dtype):
        dtype = np.dtype(cast("Any", output))
        if is_complex and dtype.kind != "c":
            if isinstance(output, str):
                raise FilterError("output must have complex dtype")
            warnings.warn("promoting specified output dtype to complex", stacklevel=4)
            return np.result_type(dtype, np.complex64), None
        if dtype.kind not in "biufc":
            raise FilterError("output must have numeric dtype")
        return dtype, None
    if tuple(output.shape) != tuple(array.shape):
        raise FilterError(f"output shape not correct: {tuple(output.shape)} for {array.shape}")
    if is_complex and output.dtype.kind != "c":
        raise FilterError("output must have complex dtype")
    return output.dtype, output


def _copied(array: Array, dtype: np.dtype, out: Array | None) -> Array:
    if out is None:
        return array.astype(dtype)
    out[...] = array
    return out


def _axes(axes: Any, ndim: int) -> tuple[int, ...]:
    if axes is None:
        return tuple(range(ndim))
    listed = [operator.index(axis) for axis in (axes if isinstance(axes, Iterable) else [axes])]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    for axis in listed:
        if not -ndim <= axis < ndim:
            raise FilterError(f"specified axis: {axis} is out of range")
    chosen = tuple(axis % ndim for axis in listed)
    if len(set(chosen)) != len(chosen):
        raise FilterError("axes must be unique")
    return chosen


def _axis(input: Any, axis: int) -> tuple[int, ...]:
    return _axes((axis,), _array(input).ndim)


def _listed(value: Any, count: int) -> list[Any]:
    """One value for each axis."""
    if isinstance(value, str) or not np.iterable(value):
        return [value] * count
    listed: list[Any] = list(value)
    if len(listed) != count:
        raise FilterError(
            f"sequence argument must have length equal to input rank: {len(listed)} for {count}"
        )
    return listed


def _row(weights: Any) -> np.ndarray:
    row = np.asarray(weights)
    if row.ndim != 1 or not row.size:
        raise FilterError("no filter weights given", hint="weights are a sequence of numbers")
    return row


def _size(size: int) -> int:
    if size < 1:
        raise FilterError("incorrect filter size", hint="at least 1")
    return size


def _on_all_axes(
    window: np.ndarray, origin: Any, axes: Sequence[int], ndim: int
) -> tuple[np.ndarray, list[int]]:
    """The window with the axes that it lacks, and an origin for each axis.

    As in scipy, the window's axes are those of the array in the array's order, whatever the order
    of `axes` is, which says whose the origins are; unless they are all axes.
    """
    listed = _listed(origin, len(axes))
    if len(axes) == ndim:
        return window, listed
    shifts = [0] * ndim
    for axis, shift in zip(axes, listed, strict=True):
        shifts[axis] = shift
    return np.expand_dims(window, tuple(axis for axis in range(ndim) if axis not in axes)), shifts


def _border(mode: Any, cval: Any, array: Array) -> Border:
    if mode not in _MODES:
        raise FilterError(f"boundary mode not supported: {mode!r}", hint=f"one of {list(_MODES)}")
    value = np.asarray(cval).item()
    if isinstance(value, complex) and array.dtype.kind != "c":
        raise FilterError("Cannot provide a complex-valued cval when the input is real.")
    return Border(_MODES[mode], value)


def _gaussian(sigma: float, order: int, truncate: float, radius: Any) -> np.ndarray:
    """Weights of a Gaussian, or of its derivative of an order: a polynomial times it."""
    reach = int(truncate * sigma + 0.5) if radius is None else radius
    if not isinstance(reach, numbers.Integral) or reach < 0:
        raise FilterError("Radius must be a nonnegative integer.")
    if order < 0:
        raise FilterError("order must be non-negative")
    x = np.arange(-int(reach), int(reach) + 1)
    weights = np.exp(-0.5 / sigma**2 * x**2)
    factor = np.polynomial.Polynomial([1.0])
    for _ in range(order):
        factor = factor.deriv() - factor * np.polynomial.Polynomial([0.0, 1 / sigma**2])
    # Reversed, since what is computed is a correlation.
    return (factor(x) * weights / weights.sum())[::-1]
