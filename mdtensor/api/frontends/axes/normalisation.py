"""Softmax, its logarithm, log-sum-exp, layer norm and RMS norm along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.api.arrays.ragged import Ragged
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.frontends.axes.ragged_softmax import ragged_softmax
from mdtensor.api.frontends.lazy.lazy import lazy
from mdtensor.api.frontends.lazy.lazy_array import Axis, LazyArray
from mdtensor.errors import DTypeError
from mdtensor.options import flag, real
from mdtensor.specs import kind_of


@with_call_cache
def softmax(x: Any, axis: Axis = -1, *, out: Array | None = None) -> Array:
    """Exponentials of elements, divided by their sum along axes, as `scipy.special.softmax` does.

    The largest element is subtracted before, so that nothing overflows; no elements give none.
    Integers give float64; floats of 16 bits are computed in float32. `axis` is a number, several,
    or None for all. Of a ragged batch, 1 is the axis of sequences, and the result is ragged.

    Raises AxisError (an IndexError too) for axes that are not there, DTypeError (a TypeError) for
    complex numbers and types without kernels.

    >>> softmax([[0.0, 0.0], [1000.0, 0.0]])
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    if isinstance(x, Ragged):
        return ragged_softmax(x, axis, out)
    elements, dtype = _wide("softmax", x)
    return softmax_of(elements, axis).astype(dtype).evaluate(out)


@with_call_cache
def log_softmax(x: Any, axis: Axis = -1, *, out: Array | None = None) -> Array:
    """The logarithm of `softmax`, which stays finite where that is 0.

    As `scipy.special.log_softmax` gives it. Types and errors are those of `softmax`.

    >>> log_softmax([0.0, 1000.0])
    array([-1000.,     0.])
    """
    elements, dtype = _wide("log_softmax", x)
    return log_softmax_of(elements, axis).astype(dtype).evaluate(out)


@with_call_cache
def logsumexp(
    x: Any, axis: Axis = None, *, keepdims: bool = False, out: Array | None = None
) -> Array:
    """The logarithm of the sum of exponentials along axes, as `scipy.special.logsumexp` gives it.

    Nothing overflows; where all elements are infinite, so is the result, and of no elements it is
    minus infinity. Types and errors are those of `softmax`.

    >>> logsumexp([1000.0, 1000.0])
    np.float64(1000.6931471805599)
    """
    elements, dtype = _wide("logsumexp", x)
    value = logsumexp_of(elements, axis).astype(dtype)
    if not flag("keepdims", keepdims):
        value = np.squeeze(value, axis)  # type: ignore[call-overload]
    return value.evaluate(out)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@with_call_cache
def layer_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    axis: Axis = -1,
    eps: float = 1e-5,
    out: Array | None = None,
) -> Array:
    """Elements less their mean, divided by the root of their variance plus `eps`, along axes.

    The result is multiplied by `weight`, and `bias` is added; both broadcast against `x`. Types
    and errors are those of `softmax`, and DTypeError for an `eps` that is no number.

    >>> layer_norm([[1.0, 3.0], [2.0, 6.0]], eps=0.0)
    array([[-1.,  1.],
           [-1.,  1.]])
    """
    elements, dtype = _wide("layer_norm", x)
    distances = elements - elements.mean(axis, keepdims=True)
    variances = np.square(distances).mean(axis, keepdims=True)
    value = distances / np.sqrt(variances + real("eps", eps))
    value = value if weight is None else value * lazy(weight).astype(elements.dtype)
    value = value if bias is None else value + lazy(bias).astype(elements.dtype)
    return value.astype(dtype).evaluate(out)


@with_call_cache
def rms_norm(
    x: Any,
    weight: Any = None,
    *,
    axis: Axis = -1,
    eps: float = 1e-5,
    out: Array | None = None,
) -> Array:
    """Elements divided by the root of the mean of their squares plus `eps`, along axes.

    The result is multiplied by `weight`, which broadcasts against `x`. Types and errors are those
    of `layer_norm`.

    >>> rms_norm([[3.0, 3.0], [-2.0, 2.0]], eps=0.0)
    array([[ 1.,  1.],
           [-1.,  1.]])
    """
    elements, dtype = _wide("rms_norm", x)
    squares: Any = np.square(elements)
    value = elements / np.sqrt(squares.mean(axis, keepdims=True) + real("eps", eps))
    value = value if weight is None else value * lazy(weight).astype(elements.dtype)
    return value.astype(dtype).evaluate(out)


def softmax_of(elements: LazyArray, axis: Axis) -> LazyArray:
    """The softmax of elements in their own type."""
    powers: Any = np.exp(elements - _largest(elements, axis))
    return powers / powers.sum(axis, keepdims=True)


def log_softmax_of(elements: LazyArray, axis: Axis) -> LazyArray:
    """The logarithm of the softmax of elements in their own type."""
    below: Any = elements - _largest(elements, axis)
    return below - np.log(np.exp(below).sum(axis, keepdims=True))


def logsumexp_of(elements: LazyArray, axis: Axis) -> LazyArray:
    """The logarithm of the sum of exponentials in the elements' own type; the axes are kept."""
    largest = _largest(elements, axis)
    shift: Any = np.where(np.isfinite(largest), largest, 0.0)
    return np.log(np.exp(elements - shift).sum(axis, keepdims=True)) + shift


def _largest(elements: LazyArray, axis: Axis) -> LazyArray:
    """The largest elements along axes, kept with extent 1; zeros where there are no elements."""
    if elements.size:
        return elements.max(axis, keepdims=True)
    return elements.sum(axis, keepdims=True)


def _wide(name: str, x: Any) -> tuple[LazyArray, np.dtype]:
    """The elements in the type of the computation, and the result's type."""
    elements = lazy(x)
    if elements.dtype.kind == "c":
        raise DTypeError(f"{name} takes no complex numbers")
    dtype = elements.dtype if kind_of(elements.dtype) == "f" else np.dtype("f8")
    return elements.astype(np.result_type(dtype, "f4")), dtype
