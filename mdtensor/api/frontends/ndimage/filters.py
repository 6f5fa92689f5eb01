"""What scipy's filters are: windows over an array, one after the other, as one computation."""

# ruff: noqa: A002 - scipy calls the array `input`.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array, array_module
from mdtensor.api.calls.call_cache import in_full
from mdtensor.api.calls.computation import Computation, Step, call
from mdtensor.api.frontends.ndimage.filter_arguments import (
    array_of,
    axes_of,
    border_of,
    check_origin,
    footprint_of,
    for_each_axis,
    gaussian_row,
    number,
    on_all_axes,
    output_of,
    weights_of,
    whole_number,
)
from mdtensor.errors import DTypeError, FilterError, warn
from mdtensor.specs import TensorSpec
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_filter import (
    Filter,
    md_homs_from_filter,
    weights_dtype,
)
from mdtensor.translate.stencils.rounded_weights import rounded_weights


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
    given = _window("add", window.shape, shifts, border, weighted=True)
    return _filtered([given], array, [window], dtype, out)


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
        if number("sigma", width) > 1e-15:
            row = gaussian_row(width, derivative, truncate, reach)
            border = border_of(word, cval, array)
            passes.append(_along("add", array.ndim, axis, len(row), 0, border, weighted=True))
            rows.append(row)
    if not passes:
        return _copied(array, dtype, out)
    return _filtered(passes, array, rows, dtype, out)


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
        _check_order(array)
    dtype, out = output_of(output, array, is_complex=is_complex)
    chosen = axes_of(axes, array.ndim)
    count = len(chosen)
    sizes, shifts, words = (
        [int(number("size", extent)) for extent in for_each_axis(size, count)],
        for_each_axis(origin, count),
        for_each_axis(mode, count),
    )
    passes = [
        _along(
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
        return _copied(array, dtype, out)
    return _filtered(passes, array, [], dtype, out)


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
    _check_order(array)
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


def _check_order(array: Array) -> None:
    """Raises DTypeError for elements that have no order."""
    if array.dtype.kind == "c":
        raise DTypeError("Complex type not supported", hint="complex numbers have no order")


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
        return _computation(passes, specs, TensorSpec.of(specs[0].shape, dtype))

    return call(("filter", tuple(passes), dtype), [array, *weights], build, out, len(weights))


def _computation(
    passes: Sequence[Filter], specs: Sequence[TensorSpec], out: TensorSpec
) -> Computation:
    """Steps that read the array or a temporary, and write a temporary or the result."""
    result = len(specs)
    steps: list[Step] = []
    slot, field = 0, specs[0]
    for position, given in enumerate(passes):
        weights = specs[1 + position] if given.weighted else None
        target = result if position == len(passes) - 1 else result + 1 + position
        reads = (slot, 1 + position) if given.weighted else (slot,)
        md_homs = md_homs_from_filter(given, field, out, weights)
        steps += [Step(md_hom, reads, (target,)) for md_hom in md_homs]
        slot, field = target, out
    return Computation(result, (out,), (out,) * (len(passes) - 1), tuple(steps))


def _taken(window: np.ndarray, array: Array, dtype: np.dtype) -> Array:
    """Weights in the type that is computed in, where the array is; footprints as they are."""
    if window.dtype != np.bool_:
        is_complex = "c" in (array.dtype.kind, window.dtype.kind)
        window = rounded_weights(window, weights_dtype(array.dtype, dtype, is_complex=is_complex))
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
        check_origin(size, shift)
    starts = tuple(-(size // 2) - shift for size, shift in zip(sizes, shifts, strict=True))
    divisor = math.prod(sizes) if combine == "add" and not weighted else 1
    return Filter(combine, tuple(sizes), starts, border, weighted, divisor)


def _copied(array: Array, dtype: np.dtype, out: Array | None) -> Array:
    if out is None:
        return array.astype(dtype)
    out[...] = array
    return out
