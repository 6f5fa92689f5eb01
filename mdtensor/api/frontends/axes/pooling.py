"""`max_pool` and `avg_pool`: windows of an array, each combined to an element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array, array_module, as_array, check_types
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.frontends.lazy.lazy_array import axes_of
from mdtensor.api.frontends.reduce import OperandBorder, reduced
from mdtensor.errors import DTypeError, ShapeError, shown
from mdtensor.options import MOST_AXES, is_iterable, whole_numbers
from mdtensor.specs import kind_of
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction
from mdtensor.translate.scalar import Expr

Several = int | Sequence[int]


@with_call_cache
def max_pool(
    x: Any,
    window: Several,
    *,
    stride: Several | None = None,
    padding: Several = 0,
    axes: Sequence[int] | None = None,
    out: Array | None = None,
) -> Array:
    """The largest element of every window.

    `window` has an extent for each of `axes`, by default the last ones; a number is that of the
    last two axes. Windows begin `stride` apart, by default so far that they don't overlap, and
    `padding` elements before the first one: what is outside is never the largest. Windows that
    would end further outside are left out, as torch's are.

    Raises ShapeError (a ValueError) for windows that don't fit or would lie in the padding,
    DTypeError (a TypeError) for complex numbers and types without kernels.

    >>> max_pool([[1, 5, 2, 0], [3, 4, 8, 1]], 2)
    array([[5, 8]])
    >>> max_pool([1, 5, 2, 0], (3,), stride=1, padding=1)
    array([5, 5, 5, 2])
    """
    array = as_array("x", x, array_module([x]))
    check_types([array.dtype])
    if array.dtype.kind == "c":
        raise DTypeError("max_pool takes no complex numbers")
    least = {"f": -np.inf, "b": False}.get(kind_of(array.dtype))
    if least is None and array.dtype.kind in "iu":
        least = np.iinfo(array.dtype).min
    windows = _Windows.of(array, window, stride, padding, axes)
    return windows.reduced(array, out, least, combine="max")


@with_call_cache
def avg_pool(
    x: Any,
    window: Several,
    *,
    stride: Several | None = None,
    padding: Several = 0,
    axes: Sequence[int] | None = None,
    out: Array | None = None,
) -> Array:
    """The mean of every window, in which padding counts as 0.

    Arguments and errors are those of `max_pool`; complex numbers have means. Means of integers are
    float64; floats of 16 bits are added in float32.

    >>> avg_pool([[1, 5, 2, 0], [3, 4, 8, 1]], 2)
    array([[3.25, 2.75]])
    """
    array = as_array("x", x, array_module([x]))
    check_types([array.dtype])
    windows = _Windows.of(array, window, stride, padding, axes)
    share = 1 / math.prod(windows.extents.values())

    def mean(total: Expr) -> Expr:
        return total * share

    dtype = np.dtype("f8") if array.dtype.kind in "biu" else None
    return windows.reduced(array, out, 0, dtype=dtype, epilogue=mean)


class _Windows:
    """The sliding windows of an array: their reduction string, and the padding around the array."""

    def __init__(self, text: str, extents: dict[str, int], around: list[tuple[int, int]]) -> None:
        self.text = text
        self.extents = extents
        self._around = around

    @classmethod
    def of(
        cls,
        array: Array,
        window: Several,
        stride: Several | None,
        padding: Several,
        axes: Sequence[int] | None,
    ) -> _Windows:
        """The windows for a caller's arguments."""
        count = _length("window", window, 2) if axes is None else _length("axes", axes)
        listed = axes_of(tuple(range(-count, 0)) if axes is None else tuple(axes), array.ndim)
        sizes = whole_numbers("window", window, count)
        strides = sizes if stride is None else whole_numbers("stride", stride, count)
        around = [(0, 0)] * array.ndim
        written = [f"i{n}" for n in range(array.ndim)]
        terms, extents = [*written], dict[str, int]()
        for axis, size, step, pad in zip(
            listed, sizes, strides, whole_numbers("padding", padding, count, least=0), strict=True
        ):
            whole = array.shape[axis] + 2 * pad
            if size > whole:
                raise ShapeError(
                    f"a window of {size} elements does not fit on axis {axis}",
                    notes=[f"x: {tuple(array.shape)}    padding: {pad}"],
                )
            if pad >= size:
                raise ShapeError(f"windows of {size} elements would lie in {pad} of padding")
            terms[axis] = f"{step}i{axis}+r{axis}"
            extents[f"r{axis}"] = size
            around[axis] = pad, pad
        return cls(f"{' '.join(terms)} -> {' '.join(written)}", extents, around)

    def reduced(self, array: Array, out: Array | None, outside: Any, **said: Any) -> Array:
        """Reduces each window by a `Reduction`; elements out of bounds have the value `outside`."""
        border = (
            OperandBorder(tuple(self._around), outside) if any(map(any, self._around)) else None
        )
        reduction = Reduction(self.text, extents=self.extents, **said)
        return reduced(reduction, [array], out, border=border)


def _length(name: str, given: Any, of_number: int | None = None) -> int:
    """The length of a list of numbers; a single number counts as `of_number` of them."""
    if of_number is not None and isinstance(given, int):
        return of_number
    if not hasattr(given, "__len__") or not is_iterable(given):
        raise DTypeError(f"{name} is {shown(given)}", hint="a number for each axis")
    if len(given) > MOST_AXES:
        raise ShapeError(f"{name} has {len(given)} numbers", hint="one for each axis")
    return len(given)
