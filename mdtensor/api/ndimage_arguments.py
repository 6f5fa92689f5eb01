"""What filters are called with, checked as scipy.ndimage checks it."""

from __future__ import annotations

import numbers
import operator
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mdtensor.api.operands import Array, array_module, as_array
from mdtensor.api.recall import in_full
from mdtensor.errors import FilterError
from mdtensor.specs import as_dtype
from mdtensor.translate.stencils.borders import Border

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


def array_of(argument: Any) -> Array:
    """The argument as an array of NumPy or CuPy."""
    return as_array("the array", argument, array_module([argument]))


def output_of(output: Any, array: Array, *, is_complex: bool) -> tuple[np.dtype, Array | None]:
    """The type of the result, and the array that receives it."""
    given = array.dtype.newbyteorder("=")
    if output is None:
        return (np.result_type(given, np.complex64) if is_complex else given), None
    if isinstance(output, str | type | np.dtype):
        dtype = as_dtype(output).newbyteorder("=")
        if is_complex and dtype.kind != "c":
            if isinstance(output, str):
                raise FilterError("output must have complex dtype")
            in_full()
            warnings.warn("promoting specified output dtype to complex", stacklevel=6)
            return np.result_type(dtype, np.complex64), None
        if dtype.kind not in "biufc":
            raise FilterError("output must have numeric dtype")
        return dtype, None
    if tuple(output.shape) != tuple(array.shape):
        raise FilterError(f"output shape not correct: {tuple(output.shape)} for {array.shape}")
    if is_complex and output.dtype.kind != "c":
        raise FilterError("output must have complex dtype")
    return output.dtype.newbyteorder("="), output


def axes_of(axes: Any, ndim: int) -> tuple[int, ...]:
    """The axes to filter along, from 0 on."""
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


def axis_of(argument: Any, axis: int) -> tuple[int, ...]:
    """One axis of an array, from 0 on."""
    return axes_of((axis,), array_of(argument).ndim)


def for_each_axis(value: Any, count: int) -> list[Any]:
    """One value for each axis."""
    if isinstance(value, str) or not np.iterable(value):
        return [value] * count
    values: list[Any] = list(value)
    if len(values) != count:
        raise FilterError(
            f"sequence argument must have length equal to input rank: {len(values)} for {count}"
        )
    return values


def row_of(weights: Any) -> np.ndarray:
    """Weights along one axis."""
    row = np.asarray(weights)
    if row.ndim != 1 or not row.size:
        raise FilterError("no filter weights given", hint="weights are a sequence of numbers")
    return row


def checked_size(size: int) -> int:
    """The size of a window along one axis."""
    if size < 1:
        raise FilterError("incorrect filter size", hint="at least 1")
    return size


def on_all_axes(
    window: np.ndarray, origin: Any, axes: Sequence[int], ndim: int
) -> tuple[np.ndarray, list[int]]:
    """The window with the axes that it lacks, and an origin for each axis.

    As in scipy, the window's axes are those of the array in the array's order, whatever the order
    of `axes` is, which says whose the origins are; unless they are all axes.
    """
    origins = for_each_axis(origin, len(axes))
    if len(axes) == ndim:
        return window, origins
    shifts = [0] * ndim
    for axis, shift in zip(axes, origins, strict=True):
        shifts[axis] = shift
    return np.expand_dims(window, tuple(axis for axis in range(ndim) if axis not in axes)), shifts


def border_of(mode: Any, cval: Any, array: Array) -> Border:
    """What lies outside of an array, by scipy's word for it."""
    if mode not in _MODES:
        raise FilterError(f"boundary mode not supported: {mode!r}", hint=f"one of {list(_MODES)}")
    value = np.asarray(cval).item()
    if isinstance(value, complex) and array.dtype.kind != "c":
        raise FilterError("Cannot provide a complex-valued cval when the input is real.")
    return Border(_MODES[mode], value)


def gaussian_row(sigma: float, order: int, truncate: float, radius: Any) -> np.ndarray:
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
