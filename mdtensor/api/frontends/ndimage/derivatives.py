"""Derivatives of images: differences of neighbours, derivatives of Gaussians, and their norms."""

# ruff: noqa: A002 - scipy calls the array `input`.

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array, array_module, as_array
from mdtensor.api.calls.call_cache import in_full, with_call_cache
from mdtensor.api.calls.program_calls import call
from mdtensor.api.frontends.ndimage.filter_arguments import (
    Filtering,
    axes_of,
    border_of,
    filtering,
    for_each_axis,
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


@with_call_cache
def sobel(
    input: Any, axis: int | str = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Array:
    """The difference along an axis, smoothed by 1, 2, 1 along the others; as scipy.ndimage.sobel.

    >>> sobel([[0, 0, 8], [0, 0, 8], [0, 0, 8]])
    array([[ 0, 32, 32],
           [ 0, 32, 32],
           [ 0, 32, 32]])
    """
    return _difference(filtering(input, output, mode, cval), axis, [1.0, 2.0, 1.0])


@with_call_cache
def prewitt(
    input: Any, axis: int | str = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Array:
    """The difference along an axis, added up by threes along the others; as scipy.ndimage.prewitt.

    >>> prewitt([[0, 0, 8], [0, 0, 8], [0, 0, 8]])
    array([[ 0, 24, 24],
           [ 0, 24, 24],
           [ 0, 24, 24]])
    """
    return _difference(filtering(input, output, mode, cval), axis, [1.0, 1.0, 1.0])


@with_call_cache
def laplace(
    input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None
) -> Array:
    """The sum of second differences along the axes; as scipy.ndimage.laplace.

    >>> laplace([0.0, 0.0, 1.0, 0.0, 0.0])
    array([ 0.,  1., -2.,  1.,  0.])
    """
    given = filtering(input, output, mode, cval, axes=axes)

    def second(axis: int, word: Any) -> Passes:
        return _row(given, axis, [1.0, -2.0, 1.0], word)

    return _of_all_axes(given, second, _total)


@with_call_cache
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
    given = filtering(input, output, mode, cval, axes=axes)
    chosen = given.chosen()
    widths: list[Any] = [0] * given.array.ndim
    for axis, width in zip(chosen, for_each_axis(sigma, len(chosen)), strict=True):
        widths[axis] = width

    def second(axis: int, word: Any) -> Passes:
        return _gaussian(given, axis, 2, widths, word, truncate, radius)

    return _of_all_axes(given, second, _total)


@with_call_cache
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
    given = filtering(input, output, mode, cval, axes=axes)

    def first(axis: int, word: Any) -> Passes:
        return _gaussian(given, axis, 1, sigma, word, truncate, radius)

    return _of_all_axes(given, first, _length)


@with_call_cache
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
    """The sum of a function's results along each axis; as scipy.ndimage.generic_laplace.

    `derivative2(input, axis, output, mode, cval, *extra_arguments, **extra_keywords)` returns the
    second derivative along an axis. `output` is the type that it is to have, for the first axis
    too, for which scipy gives the array.

    >>> def second(u, axis, output, mode, cval):
    ...     return laplace(u, output, mode, cval, axes=(axis,))
    >>> generic_laplace([0.0, 0.0, 1.0, 0.0, 0.0], second)
    array([ 0.,  1., -2.,  1.,  0.])
    """
    given = filtering(input, output, mode, cval, axes=axes)
    return _generic(given, derivative2, _total, extra_arguments, extra_keywords)


@with_call_cache
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
    """The Euclidean norm of a function's results along each axis, elementwise.

    As scipy.ndimage.generic_gradient_magnitude; for the function see `generic_laplace`.

    >>> generic_gradient_magnitude([[0.0, 0.0, 3.0], [0.0, 0.0, 3.0], [4.0, 4.0, 7.0]], sobel)[1, 1]
    np.float64(20.0)
    """
    given = filtering(input, output, mode, cval, axes=axes)
    return _generic(given, derivative, _length, extra_arguments, extra_keywords)


def _difference(given: Filtering, axis: Any, smoothing: Sequence[float]) -> Array:
    array = given.array
    dtype, out = given.result()
    (along_axis,) = axes_of((axis,), array.ndim)
    words = for_each_axis(given.mode, array.ndim)
    others = [axis for axis in range(array.ndim) if axis != along_axis]
    rows = [_row(given, along_axis, [-1.0, 0.0, 1.0], words[along_axis])]
    rows += [_row(given, axis, smoothing, words[axis]) for axis in others]
    passes = Passes(
        tuple(given for row in rows for given in row.filters),
        tuple(window for row in rows for window in row.windows),
    )
    return filtered(passes, array, dtype, out)


def _row(given: Filtering, axis: int, weights: Sequence[float], word: Any) -> Passes:
    border = border_of(word, given.cval, given.array)
    found = along("add", given.array.ndim, axis, len(weights), 0, border, weighted=True)
    return Passes((found,), (np.array(weights),))


def _gaussian(
    given: Filtering, axis: int, order: int, sigma: Any, word: Any, truncate: float, radius: Any
) -> Passes:
    """The passes of a Gaussian derivative along one axis, with smoothing along all."""
    orders = [0] * given.array.ndim
    orders[axis] = order
    on_all = Filtering(given.array, None, word, given.cval)
    return gaussian_passes(on_all, sigma, orders, truncate, radius)


def _of_all_axes(given: Filtering, passes_of: Callable[[int, Any], Passes], join: Join) -> Array:
    """The passes for each axis with its mode, joined elementwise into one call."""
    dtype, out = given.result()
    chosen = given.chosen()
    if not chosen:
        return copied(given.array, dtype, out)
    rows = list(map(passes_of, chosen, for_each_axis(given.mode, len(chosen))))
    return joined(rows, join, given.array, dtype, out)


def _generic(
    asked: Filtering, derivative: Derivative, join: Join, arguments: Any, keywords: Any
) -> Array:
    """A user's derivative function along each axis, with the results joined elementwise."""
    in_full()  # The function is called each time.
    array = asked.array
    dtype, out = asked.result()
    if not callable(derivative):
        raise DTypeError(f"the derivative is {shown(derivative)}, which is no function")
    arguments, keywords = _more_arguments(arguments, keywords)
    chosen = asked.chosen()
    if not chosen:
        return copied(array, dtype, out)
    given: list[Array] = []
    for axis, word in zip(chosen, for_each_axis(asked.mode, len(chosen)), strict=True):
        found = derivative(array, axis, dtype, word, asked.cval, *arguments, **keywords)
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
    """The square root; a complex one is the principal root."""
    if value.dtype.kind != "c":
        return apply("sqrt", value)
    real, imaginary = value.real, value.imag
    larger = apply("sqrt", (abs(value) + abs(real)) * 0.5)
    smaller = select(apply("eq", larger, 0), larger, abs(imaginary) / (larger * 2))
    is_left = apply("lt", real, 0)
    across = apply("copysign", select(is_left, larger, smaller), imaginary)
    along_real = cast(select(is_left, smaller, larger), value.dtype)
    return along_real + cast(across, value.dtype) * 1j
