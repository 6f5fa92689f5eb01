"""NumPy's functions of lazy arrays: what each of them becomes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from mdtensor.api.arrays.array_spec import spec
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
from mdtensor.originals import original
from mdtensor.translate.scalar import Expr, select, truth
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
    return array._like(broadcast(array._value, spec(shape).shape))  # pyright: ignore[reportPrivateUsage]


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
    np.diff: lazy_blocks.diff,
    np.tril: lazy_blocks.tril,
    np.triu: lazy_blocks.triu,
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
