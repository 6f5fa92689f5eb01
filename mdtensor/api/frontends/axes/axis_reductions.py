"""`sum`, `prod`, `max`, `min`, `mean`, `var`, `std`, `argmax` and `argmin` along axes."""

from __future__ import annotations

from typing import Any

from mdtensor.api.arrays.operands import Array, array_module, as_array
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.frontends.lazy.lazy import lazy
from mdtensor.api.frontends.lazy.lazy_array import Axis, axes_of
from mdtensor.api.frontends.reduce import reduce
from mdtensor.errors import DTypeError, shown
from mdtensor.options import flag


@with_call_cache
def sum(  # noqa: A001
    a: Any,
    axis: Axis = None,
    dtype: object = None,
    out: Array | None = None,
    keepdims: bool = False,
) -> Array:
    """The sum of elements along axes, by default all, as `numpy.sum` adds them up.

    `axis` is a number or several, or names of a DataArray's dims. Small integers are added up in
    64 bits, or in the type `dtype`; floats of 16 bits in float32. `keepdims` leaves the axes with
    extent 1.

    Raises AxisError (an IndexError too) for axes that are not there, DTypeError (a TypeError) for
    types without kernels; so do all functions along axes.

    >>> sum([[1, 2], [3, 4]], axis=0)
    array([4, 6])
    >>> sum([[1.0, 2.0], [3.0, 4.0]], keepdims=True)
    array([[10.]])
    """
    return lazy(a).sum(axis, dtype, None, flag("keepdims", keepdims)).evaluate(out)


@with_call_cache
def prod(
    a: Any,
    axis: Axis = None,
    dtype: object = None,
    out: Array | None = None,
    keepdims: bool = False,
) -> Array:
    """The product of elements along axes, by default all; arguments are those of `sum`.

    >>> prod([[1, 2], [3, 4]], axis=1)
    array([ 2, 12])
    """
    return lazy(a).prod(axis, dtype, None, flag("keepdims", keepdims)).evaluate(out)


@with_call_cache
def max(  # noqa: A001
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False
) -> Array:
    """The largest element along axes, by default all; NaN if any element is.

    Raises ShapeError (a ValueError) where there is nothing to choose from.

    >>> max([[1, 5], [3, 4]], axis=1)
    array([5, 4])
    """
    return lazy(a).max(axis, None, flag("keepdims", keepdims)).evaluate(out)


@with_call_cache
def min(  # noqa: A001
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False
) -> Array:
    """The smallest element along axes, by default all; NaN if any element is.

    Raises ShapeError (a ValueError) where there is nothing to choose from.

    >>> min([[1, 5], [3, 4]], axis=1)
    array([1, 3])
    """
    return lazy(a).min(axis, None, flag("keepdims", keepdims)).evaluate(out)


@with_call_cache
def mean(
    a: Any,
    axis: Axis = None,
    dtype: object = None,
    out: Array | None = None,
    keepdims: bool = False,
) -> Array:
    """The mean of elements along axes, by default all; that of integers is float64.

    >>> mean([[1, 2], [3, 4]], axis=0)
    array([2., 3.])
    """
    return lazy(a).mean(axis, dtype, None, flag("keepdims", keepdims)).evaluate(out)


@with_call_cache
def var(
    a: Any,
    axis: Axis = None,
    dtype: object = None,
    out: Array | None = None,
    ddof: int = 0,
    keepdims: bool = False,
) -> Array:
    """The variance of elements along axes: the mean of the squared distances from their mean.

    The sum is divided by the number of elements less `ddof`.

    >>> var([[1.0, 3.0], [2.0, 8.0]], axis=1)
    array([1., 9.])
    """
    return lazy(a).var(axis, dtype, None, ddof, flag("keepdims", keepdims)).evaluate(out)


@with_call_cache
def std(
    a: Any,
    axis: Axis = None,
    dtype: object = None,
    out: Array | None = None,
    ddof: int = 0,
    keepdims: bool = False,
) -> Array:
    """The standard deviation of elements along axes: the square root of their variance.

    >>> std([[1.0, 3.0], [2.0, 8.0]], axis=1)
    array([1., 3.])
    """
    return lazy(a).std(axis, dtype, None, ddof, flag("keepdims", keepdims)).evaluate(out)


@with_call_cache
def argmax(
    a: Any, axis: int | str | None = None, out: Array | None = None, *, keepdims: bool = False
) -> Any:
    """The position of the first largest element along an axis, or in C order among all.

    >>> argmax([[1, 5], [3, 4]], axis=0)
    array([1, 0])
    """
    return _position("argmax", a, axis, out, flag("keepdims", keepdims))


@with_call_cache
def argmin(
    a: Any, axis: int | str | None = None, out: Array | None = None, *, keepdims: bool = False
) -> Any:
    """The position of the first smallest element along an axis, or in C order among all.

    >>> argmin([[1, 5], [3, 4]])
    np.int64(0)
    """
    return _position("argmin", a, axis, out, flag("keepdims", keepdims))


def _position(name: str, a: Any, axis: int | str | None, out: Array | None, keepdims: bool) -> Any:
    if isinstance(axis, tuple | list):
        raise DTypeError(f"{name} takes one axis, not {shown(axis)}", hint="None is all of them")
    array = as_array("a", a, array_module([a]))
    gone = axes_of(axis, array.ndim)
    letters = [f"i{n}" for n in range(array.ndim)]
    units = {f"one{n}": 1 for n in gone} if keepdims else {}
    kept = [f"one{n}" if n in gone else letter for n, letter in enumerate(letters)]
    kept = [letter for n, letter in enumerate(kept) if keepdims or n not in gone]
    text = f"{' '.join(letters)} -> {' '.join(kept)}"
    return reduce(text, array, combine=name, out=out, extents=units)
