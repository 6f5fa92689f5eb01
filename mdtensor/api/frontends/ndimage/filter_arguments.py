"""Arguments of filters, checked as scipy.ndimage checks them."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from mdtensor.api.arrays.memory_overlap import check_distinct
from mdtensor.api.arrays.operands import (
    Array,
    array_module,
    as_array,
    check_types,
    has_layout,
    no_array,
)
from mdtensor.api.calls.call_cache import in_full
from mdtensor.dataclass import dataclass
from mdtensor.errors import AxisError, DTypeError, FilterError, shown, warn
from mdtensor.options import MOST_AXES, beginning, is_iterable, is_one_of, real
from mdtensor.specs import as_dtype, kind_of
from mdtensor.translate.stencils.borders import Border

_MOST = 2**40  # more than any axis has
_MOST_DERIVED = 1000  # times that a Gaussian may be derived
_WIDEST = 2**24  # elements on each side that a Gaussian may weigh
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


@dataclass(frozen=True, slots=True)
class Filtering:
    """The arguments of a filter besides its window: the array, and unchecked options."""

    array: Array
    output: Any
    mode: Any
    cval: Any
    origin: Any = 0
    axes: Any = None

    def result(self, other: np.ndarray | None = None) -> tuple[np.dtype, Array | None]:
        """The type of the result, complex if the array or `other` is, and the output array."""
        is_complex = "c" in (self.array.dtype.kind, "" if other is None else other.dtype.kind)
        return output_of(self.output, self.array, is_complex=is_complex)

    def chosen(self) -> tuple[int, ...]:
        """The filtered axes, as non-negative numbers."""
        return axes_of(self.axes, self.array.ndim)

    def border(self, by: str = "", hint: str = "") -> Border:
        """The border of the array, the same on all sides."""
        if not isinstance(self.mode, str):
            raise FilterError(f"A sequence of modes is not supported{by}", hint=hint)
        return border_of(self.mode, self.cval, self.array)

    def check_axes(self, name: str, window: np.ndarray) -> None:
        """Raises FilterError for a window whose axes are not as many as the filtered ones."""
        count = len(self.chosen())
        if window.ndim != count or 0 in window.shape:
            raise FilterError(f"{name}.ndim ({window.ndim}) must match len(axes) ({count})")

    def on_all_axes(self, window: np.ndarray) -> tuple[np.ndarray, list[int]]:
        """The window expanded to all axes of the array, and an origin for each.

        As in scipy, the window's axes are those of the array in the array's order, whatever the
        order of `axes` is, which says whose the origins are; unless they are all axes.
        """
        axes, ndim = self.chosen(), self.array.ndim
        origins = [whole_number("origin", n) for n in for_each_axis(self.origin, len(axes))]
        if len(axes) == ndim:
            return window, origins
        shifts = [0] * ndim
        for axis, shift in zip(axes, origins, strict=True):
            shifts[axis] = shift
        return np.expand_dims(window, tuple(n for n in range(ndim) if n not in axes)), shifts


def filtering(
    array: Any, output: Any, mode: Any, cval: Any, origin: Any = 0, axes: Any = None
) -> Filtering:
    """The arguments of a filter; raises DTypeError for an array without kernels."""
    return Filtering(array_of(array), output, mode, cval, origin, axes)


def array_of(argument: Any) -> Array:
    """The argument as a NumPy or CuPy array of a type with kernels."""
    array = as_array("the array", argument, array_module([argument]))
    check_types([array.dtype])
    return array


def output_of(output: Any, array: Array, *, is_complex: bool) -> tuple[np.dtype, Array | None]:
    """The type of the result, and the output array, if one is given."""
    given = array.dtype.newbyteorder("=")
    if output is None:
        return (np.result_type(given, np.complex64) if is_complex else given), None
    if isinstance(output, str | type | np.dtype):
        dtype = as_dtype(output).newbyteorder("=")
        if is_complex and dtype.kind != "c":
            if isinstance(output, str):
                raise FilterError("output must have complex dtype")
            in_full()
            warn(UserWarning("promoting specified output dtype to complex"))
            return np.result_type(dtype, np.complex64), None
        if kind_of(dtype) not in "biufc":
            raise FilterError("output must have numeric dtype")
        check_types([dtype])
        return dtype, None
    if not has_layout(output):
        raise no_array("output", output)
    if tuple(output.shape) != tuple(array.shape):
        raise FilterError(f"output shape not correct: {tuple(output.shape)} for {array.shape}")
    if is_complex and output.dtype.kind != "c":
        raise FilterError("output must have complex dtype")
    check_distinct("output", output)
    return output.dtype.newbyteorder("="), output


def axes_of(axes: Any, ndim: int) -> tuple[int, ...]:
    """The filtered axes, as non-negative numbers."""
    if axes is None:
        return tuple(range(ndim))
    given: list[Any] = beginning(axes, MOST_AXES) if isinstance(axes, Iterable) else [axes]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    listed = [whole_number("axis", axis) for axis in given]
    for axis in listed:
        if not -ndim <= axis < ndim:
            raise AxisError(f"specified axis: {axis} is out of range")
    chosen = tuple(axis % ndim for axis in listed)
    if len(set(chosen)) != len(chosen):
        raise FilterError("axes must be unique")
    return chosen


def for_each_axis(value: Any, count: int) -> list[Any]:
    """One value for each axis."""
    if isinstance(value, str) or not is_iterable(value):
        return [value] * count
    values: list[Any] = beginning(value, MOST_AXES)
    if len(values) != count:
        raise FilterError(
            f"sequence argument must have length equal to input rank: {len(values)} for {count}"
        )
    return values


def weights_of(weights: Any) -> np.ndarray:
    """The weights as float64 on the host, or complex128."""
    window = _on_host("weights", weights)
    try:
        return window.astype(np.complex128 if window.dtype.kind == "c" else np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise FilterError(f"weights are no numbers: {error}") from None


def footprint_of(footprint: Any) -> np.ndarray:
    """The footprint of a window as a boolean array on the host."""
    window = _on_host("footprint", footprint)
    try:
        counted = window.astype(bool)
    except (TypeError, ValueError) as error:
        raise FilterError(f"footprint is neither true nor false: {error}") from None
    if not counted.any():
        raise FilterError("All-zero footprint is not supported.")
    return counted


def _on_host(name: str, window: Any) -> np.ndarray:
    xp = array_module([window])
    array = as_array(name, window, xp)
    return array if xp is np else array.get()


def row_of(weights: Any) -> np.ndarray:
    """One-dimensional weights."""
    row = weights_of(weights)
    if row.ndim != 1 or not row.size:
        raise FilterError("no filter weights given", hint="weights are a sequence of numbers")
    return row


def checked_size(size: Any, origin: Any) -> int:
    """The size of a window along one axis, checked to contain the origin."""
    checked = whole_number("size", size)
    if checked < 1:
        raise FilterError("incorrect filter size", hint="at least 1")
    check_origin(checked, whole_number("origin", origin))
    return checked


def check_origin(size: int, origin: int) -> None:
    """Raises FilterError where a window does not contain its own origin."""
    if not 0 <= size // 2 + origin < size:
        raise FilterError(
            f"Invalid origin {origin} for a window of {size}",
            hint=f"from {-(size // 2)} to {(size - 1) // 2}",
        )


def whole_number(name: str, value: Any) -> int:
    """A whole number; raises DTypeError for anything else, FilterError for huge ones."""
    try:
        found = operator.index(value)
    except TypeError:
        raise DTypeError(f"{name} {shown(value)} cannot be interpreted as an integer") from None
    if abs(found) > _MOST:
        raise FilterError(f"{name} is {shown(found)}, which is larger than any window")
    return found


def number(name: str, value: Any) -> float:
    """A finite real number; raises FilterError for anything else, including numeric strings."""
    try:
        found = real(name, value)
    except DTypeError as error:
        raise FilterError(error.message) from None
    if not math.isfinite(found):
        raise FilterError(f"{name} is {shown(value)}, which is not finite")
    return found


def border_of(mode: Any, cval: Any, array: Array) -> Border:
    """The border of an array for a mode of scipy's."""
    if not is_one_of(mode, _MODES):
        raise FilterError(
            f"boundary mode not supported: {shown(mode)}", hint=f"one of {list(_MODES)}"
        )
    held = as_array("cval", cval, np)
    if held.size != 1:
        raise FilterError(f"cval has {held.size} values", hint="one number for all borders")
    value = held.item()
    if isinstance(value, complex) and array.dtype.kind != "c":
        raise FilterError("Cannot provide a complex-valued cval when the input is real.")
    return Border(_MODES[mode], value)


def gaussian_row(given: Any, derivative: Any, truncate: Any, radius: Any) -> np.ndarray:
    """Weights of a Gaussian of width `given`, or of a derivative of it: a polynomial times it."""
    sigma, order = number("sigma", given), whole_number("order", derivative)
    if abs(sigma) > _MOST:
        raise FilterError(f"sigma is {sigma}: a Gaussian is narrower", hint=f"at most {_MOST}")
    if not (sigma**2):
        raise FilterError(
            f"sigma is {sigma}: a Gaussian needs a width",
            hint="gaussian_filter keeps an axis as it is for 0",
        )
    reach = number("truncate", truncate) * sigma + 0.5 if radius is None else radius
    if (radius is not None and not isinstance(radius, numbers.Integral)) or reach < 0:
        raise FilterError("Radius must be a nonnegative integer.")
    if reach > _WIDEST:
        raise FilterError(
            f"a Gaussian reaches {shown(int(reach))} elements", hint=f"at most {_WIDEST}: radius=…"
        )
    if not 0 <= order <= _MOST_DERIVED:
        raise FilterError("order must be non-negative", hint=f"and at most {_MOST_DERIVED}")
    x = np.arange(-int(reach), int(reach) + 1)
    weights = np.exp(-0.5 / sigma**2 * x**2)
    factor = np.polynomial.Polynomial([1.0])
    for _ in range(order):
        factor = factor.deriv() - factor * np.polynomial.Polynomial([0.0, 1 / sigma**2])
    # Reversed, since what is computed is a correlation.
    return (factor(x) * weights / weights.sum())[::-1]
