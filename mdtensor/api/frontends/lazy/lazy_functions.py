"""Lazy implementations of NumPy's functions."""

# The functions are a part of lazy arrays, in a module of its own.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from mdtensor.api.arrays.array_spec import spec
from mdtensor.api.arrays.operands import array_module
from mdtensor.api.frontends.lazy import lazy_blocks, lazy_products
from mdtensor.api.frontends.lazy.interning import Rounded
from mdtensor.api.frontends.lazy.lazy_array import (
    Axis,
    LazyArray,
    as_lazy,
    axes_of,
    elementwise,
    into,
)
from mdtensor.errors import DTypeError, ShapeError
from mdtensor.options import whole
from mdtensor.originals import original
from mdtensor.translate.scalar import Expr, const, select, truth
from mdtensor.translate.stencils.slices import broadcast


def _where(condition: Any, x: Any, y: Any) -> LazyArray:
    return elementwise(_chosen, condition, x, y)


def _chosen(holds: Expr, then: Expr, otherwise: Expr) -> Expr:
    return select(truth(holds), then, otherwise)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **more: Any) -> Any:
    low, high = more.pop("min", None), more.pop("max", None)
    if more:
        raise TypeError(f"_clip() got an unexpected keyword argument {next(iter(more))!r}")
    if low is None and high is None:
        low, high = a_min, a_max
    elif a_min is not None or a_max is not None:
        raise DTypeError("np.clip takes a_min and a_max, or min and max, and not both")
    if isinstance(a, LazyArray) and a.dtype.kind in "iu":
        limits = np.iinfo(a.dtype)  # what is beyond limits nothing, and would not fit
        low = None if isinstance(low, int) and low <= limits.min else low
        high = None if isinstance(high, int) and high >= limits.max else high
    raised = a if low is None else np.maximum(a, low)
    return into(as_lazy(raised if high is None else np.minimum(raised, high)), out)


def _round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    if a.dtype.kind in "biu" and decimals >= 0:
        return into(a, out)
    return into(elementwise(Rounded(decimals), a), out)


def _swapaxes(a: LazyArray, axis1: int, axis2: int) -> LazyArray:
    (first,), (second,) = axes_of((axis1,), a.ndim), axes_of((axis2,), a.ndim)
    order = list(range(a.ndim))
    order[first], order[second] = second, first
    return a.transpose(order)


def _moveaxis(a: LazyArray, source: Any, destination: Any) -> LazyArray:
    moved, places = axes_of(source, a.ndim), axes_of(destination, a.ndim)
    if len(moved) != len(places):
        raise ShapeError(f"axes {moved} do not move to {places}", hint="one place for each axis")
    order = [axis for axis in range(a.ndim) if axis not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return a.transpose(order)


def _expand_dims(a: LazyArray, axis: Any) -> LazyArray:
    ndim = a.ndim + (len(axis) if isinstance(axis, tuple) else 1)  # pyright: ignore[reportUnknownArgumentType]
    added = axes_of(axis, ndim)
    return a[tuple(None if n in added else slice(None) for n in range(ndim))]


def _squeeze(a: LazyArray, axis: Axis = None) -> LazyArray:
    gone = [n for n, extent in enumerate(a.shape) if extent == 1] if axis is None else axis
    axes = axes_of(gone, a.ndim)
    if any(a.shape[n] != 1 for n in axes):
        raise ShapeError(f"axes {axes} of shape {a.shape} are not all of extent 1")
    return a[tuple(0 if n in axes else slice(None) for n in range(a.ndim))]


def _flip(m: LazyArray, axis: Axis = None) -> LazyArray:
    axes = axes_of(axis, m.ndim)
    return m[tuple(slice(None, None, -1 if n in axes else None) for n in range(m.ndim))]


def _broadcast_to(array: LazyArray, shape: Any) -> LazyArray:
    return array._like(broadcast(array._value, spec(shape).shape))


def _diff(a: Any, n: Any = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> LazyArray:
    """Differences of neighbours along an axis, `n` times; for booleans, whether they differ."""
    value, times = as_lazy(a), whole("n", n)
    if times < 0 or not value.ndim:
        raise ShapeError(f"{times} differences of an array with {value.ndim} axes")
    (along,) = axes_of((axis,), value.ndim)
    if not times:
        return value
    ends = [_end(value, along, end) for end in (prepend, append)]
    if any(end is not None for end in ends):
        before, after = ends
        value = lazy_blocks.concatenate(
            [part for part in (before, value, after) if part is not None], along
        )
    whole_axes = (slice(None),) * along
    differ: Any = np.not_equal if value.dtype.kind == "b" else np.subtract
    for _ in range(min(times, value.shape[along])):
        value = differ(value[(*whole_axes, slice(1, None))], value[(*whole_axes, slice(None, -1))])
    return value


def _end(value: LazyArray, axis: int, given: Any) -> LazyArray | None:
    """The `prepend` or `append` array of `diff`; a scalar is broadcast to a slice."""
    if given is None:
        return None
    end = as_lazy(given)
    if end.ndim:
        return end
    shape = (*value.shape[:axis], 1, *value.shape[axis + 1 :])
    return end._like(broadcast(end._value, shape))


def _tril(m: Any, k: Any = 0) -> LazyArray:
    """The elements on and below a diagonal of the last two axes, zeros elsewhere."""
    value, below = _below(m, whole("k", k))
    return elementwise(_kept, below, value)


def _triu(m: Any, k: Any = 0) -> LazyArray:
    """The elements on and above a diagonal of the last two axes, zeros elsewhere."""
    value, below = _below(m, whole("k", k) - 1)
    return elementwise(_dropped, below, value)


def _below(m: Any, k: int) -> tuple[LazyArray, Any]:
    value = as_lazy(m)
    if not value.ndim:
        raise ShapeError("an array without axes has no triangle")
    rows, columns = value.shape[-2:] if value.ndim > 1 else (value.shape[0],) * 2
    k = max(min(k, columns), -rows - 1)
    return value, array_module(value._arrays).asarray(np.tri(rows, columns, k, dtype=bool))


def _kept(holds: Expr, element: Expr) -> Expr:
    return select(holds, element, const(0, element.dtype))


def _dropped(holds: Expr, element: Expr) -> Expr:
    return select(holds, const(0, element.dtype), element)


def _method(name: str) -> Callable[..., Any]:
    def called(a: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(as_lazy(a), name)(*args, **kwargs)

    return called


FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.round: _round,
    np.around: _round,
    np.swapaxes: _swapaxes,
    np.moveaxis: _moveaxis,
    np.expand_dims: _expand_dims,
    np.squeeze: _squeeze,
    np.flip: _flip,
    np.broadcast_to: _broadcast_to,
    np.transpose: _method("transpose"),
    np.sum: _method("sum"),
    np.prod: _method("prod"),
    np.max: _method("max"),
    np.amax: _method("max"),
    np.min: _method("min"),
    np.amin: _method("min"),
    np.any: _method("any"),
    np.all: _method("all"),
    np.mean: _method("mean"),
    np.cumsum: partial(lazy_products.running, "cumsum"),
    np.cumprod: partial(lazy_products.running, "cumprod"),
    np.argmax: partial(lazy_products.position, "max"),
    np.argmin: partial(lazy_products.position, "min"),
    np.concatenate: lazy_blocks.concatenate,
    np.stack: lazy_blocks.stack,
    np.roll: lazy_blocks.roll,
    np.pad: lazy_blocks.pad,
    np.diff: _diff,
    np.tril: _tril,
    np.triu: _triu,
    np.take: lazy_blocks.take,
    np.reshape: lazy_blocks.reshape,
    np.ravel: lazy_blocks.ravel,
    original("numpy.einsum"): lazy_products.einsum,
    original("numpy.tensordot"): lazy_products.tensordot,
    original("numpy.matmul"): lazy_products.matmul,
    original("numpy.dot"): lazy_products.dot,
    original("numpy.vdot"): lazy_products.vdot,
    original("numpy.inner"): lazy_products.inner,
    original("numpy.outer"): lazy_products.outer,
    np.var: _method("var"),
    np.std: _method("std"),
    np.real: operator.attrgetter("real"),
    np.imag: operator.attrgetter("imag"),
    np.shape: operator.attrgetter("shape"),
    np.ndim: operator.attrgetter("ndim"),
    np.size: operator.attrgetter("size"),
}
