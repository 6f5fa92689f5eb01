"""Derivatives of images: differences of neighbours, derivatives of Gaussians, and their norms."""

# ruff: noqa: A002 - scipy calls the array `input`.

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array, array_module, as_array
from mdtensor.api.calls.call_cache import in_full, recalled
from mdtensor.api.calls.program_calls import call
from mdtensor.api.frontends.ndimage.filter_arguments import (
    array_of,
    axes_of,
    axis_of,
    border_of,
    for_each_axis,
    output_of,
)
from mdtensor.api.frontends.ndimage.filter_passes import (
    Join,
    Passes,
    along,
    filtered,
    joined,
    joining,
)
from mdtensor.api.frontends.ndimage.filters import copied, gaussian_passes
from mdtensor.errors import DTypeError, FilterError, shown
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.program_builder import ProgramBuilder
from mdtensor.translate.scalar import Expr, apply, cast, select

# From an array, an axis, the type of the result, a mode, a value for the border and more arguments.
Derivative = Callable[..., Any]


@recalled
def sobel(
    input: Any, axis: int | str = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Array:
    """The difference along an axis, smoothed by 1, 2, 1 along the others; as scipy.ndimage.sobel.

    >>> sobel([[0, 0, 8], [0, 0, 8], [0, 0, 8]])
    array([[ 0, 32, 32],
           [ 0, 32, 32],
           [ 0, 32, 32]])
    """
    return _difference(input, axis, output, mode, cval, [1.0, 2.0, 1.0])


@recalled
def prewitt(
    input: Any, axis: int | str = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Array:
    """The difference along an axis, added up by threes along the others; as scipy.ndimage.prewitt.

    >>> prewitt([[0, 0, 8], [0, 0, 8], [0, 0, 8]])
    array([[ 0, 24, 24],
           [ 0, 24, 24],
           [ 0, 24, 24]])
    """
    return _difference(input, axis, output, mode, cval, [1.0, 1.0, 1.0])


@recalled
def laplace(
    input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None
) -> Array:
    """The sum of second differences along the axes; as scipy.ndimage.laplace.

    >>> laplace([0.0, 0.0, 1.0, 0.0, 0.0])
    array([ 0.,  1., -2.,  1.,  0.])
    """

    def second(array: Array, axis: int, word: Any) -> Passes:
        return _row(array, axis, [1.0, -2.0, 1.0], word, cval)

    return _of_all_axes(input, second, _total, output, mode, axes)


@recalled
def gaussian_laplace(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    truncate: float = 4.0,
    radius: Any = None,
) -> Array:
    """The sum of second derivatives of a Gaussian; as scipy.ndimage.gaussian_laplace.

    >>> gaussian_laplace([0.0, 0.0, 0.0, 8.0, 0.0, 0.0, 0.0], 1.0).round(2)
    array([ 0.3 ,  1.3 ,  0.  , -3.19,  0.  ,  1.3 ,  0.3 ])
    """
    array = array_of(input)
    chosen = axes_of(axes, array.ndim)
    widths: list[Any] = [0] * array.ndim
    for axis, width in zip(chosen, for_each_axis(sigma, len(chosen)), strict=True):
        widths[axis] = width

    def second(array: Array, axis: int, word: Any) -> Passes:
        return _gaussian(array, axis, 2, widths, word, cval, truncate, radius)

    return _of_all_axes(array, second, _total, output, mode, axes)


@recalled
def gaussian_gradient_magnitude(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    truncate: float = 4.0,
    radius: Any = None,
) -> Array:
    """The length of a Gaussian's gradient; as scipy.ndimage.gaussian_gradient_magnitude.

    As there, `axes` are those of the gradient; all axes are smoothed that have a sigma.

    >>> gaussian_gradient_magnitude([0.0, 0.0, 8.0, 8.0], 1.0).round(2)
    array([0.86, 2.91, 2.91, 0.86])
    """

    def first(array: Array, axis: int, word: Any) -> Passes:
        return _gaussian(array, axis, 1, sigma, word, cval, truncate, radius)

    return _of_all_axes(input, first, _length, output, mode, axes)


@recalled
def generic_laplace(
    input: Any,
    derivative2: Derivative,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    extra_arguments: Sequence[Any] = (),
    extra_keywords: Mapping[str, Any] | None = None,
    *,
    axes: Any = None,
) -> Array:
    """The sum of what a function gives for each axis; as scipy.ndimage.generic_laplace.

    `derivative2(input, axis, output, mode, cval, *extra_arguments, **extra_keywords)` returns the
    second derivative along an axis. `output` is the type that it is to have, for the first axis
    too, for which scipy gives the array.

    >>> def second(u, axis, output, mode, cval):
    ...     return laplace(u, output, mode, cval, axes=(axis,))
    >>> generic_laplace([0.0, 0.0, 1.0, 0.0, 0.0], second)
    array([ 0.,  1., -2.,  1.,  0.])
    """
    more = extra_arguments, extra_keywords
    return _generic(input, derivative2, _total, output, mode, cval, more, axes)


@recalled
def generic_gradient_magnitude(
    input: Any,
    derivative: Derivative,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    extra_arguments: Sequence[Any] = (),
    extra_keywords: Mapping[str, Any] | None = None,
    *,
    axes: Any = None,
) -> Array:
    """The length of the vector of what a function gives for each axis.

    As scipy.ndimage.generic_gradient_magnitude; for the function see `generic_laplace`.

    >>> generic_gradient_magnitude([[0.0, 0.0, 3.0], [0.0, 0.0, 3.0], [4.0, 4.0, 7.0]], sobel)[1, 1]
    np.float64(20.0)
    """
    more = extra_arguments, extra_keywords
    return _generic(input, derivative, _length, output, mode, cval, more, axes)


def _difference(
    input: Any, axis: Any, output: Any, mode: Any, cval: Any, smoothing: Sequence[float]
) -> Array:
    array = array_of(input)
    dtype, out = output_of(output, array, is_complex=array.dtype.kind == "c")
    (along_axis,) = axis_of(array, axis)
    words = for_each_axis(mode, array.ndim)
    others = [axis for axis in range(array.ndim) if axis != along_axis]
    rows = [_row(array, along_axis, [-1.0, 0.0, 1.0], words[along_axis], cval)]
    rows += [_row(array, axis, smoothing, words[axis], cval) for axis in others]
    passes = Passes(
        tuple(given for row in rows for given in row.filters),
        tuple(window for row in rows for window in row.windows),
    )
    return filtered(passes, array, dtype, out)


def _row(array: Array, axis: int, weights: Sequence[float], word: Any, cval: Any) -> Passes:
    border = border_of(word, cval, array)
    given = along("add", array.ndim, axis, len(weights), 0, border, weighted=True)
    return Passes((given,), (np.array(weights),))


def _gaussian(
    array: Array,
    axis: int,
    order: int,
    sigma: Any,
    word: Any,
    cval: Any,
    truncate: Any,
    radius: Any,
) -> Passes:
    """A derivative along one axis of the array smoothed along all."""
    orders = [0] * array.ndim
    orders[axis] = order
    every = range(array.ndim)
    return gaussian_passes(array, sigma, orders, word, cval, truncate, radius, every)


def _of_all_axes(
    input: Any,
    passes_of: Callable[[Array, int, Any], Passes],
    join: Join,
    output: Any,
    mode: Any,
    axes: Any,
) -> Array:
    """The passes for each axis, joined point by point, as one call."""
    array = array_of(input)
    dtype, out = output_of(output, array, is_complex=array.dtype.kind == "c")
    chosen = axes_of(axes, array.ndim)
    if not chosen:
        return copied(array, dtype, out)
    words = for_each_axis(mode, len(chosen))
    rows = [passes_of(array, axis, word) for axis, word in zip(chosen, words, strict=True)]
    return joined(rows, join, array, dtype, out)


def _generic(
    input: Any,
    derivative: Derivative,
    join: Join,
    output: Any,
    mode: Any,
    cval: Any,
    more: tuple[Any, Any],
    axes: Any,
) -> Array:
    """What a function gives for each axis, joined point by point."""
    in_full()  # The function is called each time.
    array = array_of(input)
    dtype, out = output_of(output, array, is_complex=array.dtype.kind == "c")
    if not callable(derivative):
        raise DTypeError(f"the derivative is {shown(derivative)}, which is no function")
    arguments, keywords = _more_arguments(*more)
    chosen = axes_of(axes, array.ndim)
    if not chosen:
        return copied(array, dtype, out)
    given: list[Array] = []
    for axis, word in zip(chosen, for_each_axis(mode, len(chosen)), strict=True):
        found = derivative(array, axis, dtype, word, cval, *arguments, **keywords)
        made = as_array("what the function returns", found, array_module([array]))
        if made.shape != array.shape:
            raise FilterError(
                f"the derivative along axis {axis} has shape {made.shape}, the array {array.shape}",
                hint="the function returns an array of the shape of the one that it is given",
            )
        given.append(made.astype(dtype, copy=False))

    def build(specs: tuple[TensorSpec, ...]) -> Program:
        builder = ProgramBuilder(specs)
        result = TensorSpec.of(specs[0].shape, dtype)
        return builder.program(joining(builder, range(len(specs)), join, result))

    return call(("joined", join, dtype), given, build, out)


def _more_arguments(arguments: Any, keywords: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        return tuple(arguments), {} if keywords is None else dict(keywords)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"extra_arguments and extra_keywords: {error}", hint="a tuple and a dict of names"
        ) from None


def _total(*elements: Expr) -> Expr:
    return functools.reduce(operator.add, elements)


def _length(*elements: Expr) -> Expr:
    return _root(_total(*(element * element for element in elements)))


def _root(value: Expr) -> Expr:
    """The square root; that of a complex number has a real part of at least 0."""
    if value.dtype.kind != "c":
        return apply("sqrt", value)
    real, imaginary = value.real, value.imag
    larger = apply("sqrt", (abs(value) + abs(real)) * 0.5)
    smaller = select(apply("eq", larger, 0), larger, abs(imaginary) / (larger * 2))
    is_left = apply("lt", real, 0)
    across = apply("copysign", select(is_left, larger, smaller), imaginary)
    along_real = cast(select(is_left, smaller, larger), value.dtype)
    return along_real + cast(across, value.dtype) * 1j
