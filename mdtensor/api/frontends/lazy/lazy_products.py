"""Products of lazy arrays: `einsum`, `tensordot`, `matmul`, `dot`, `inner` and `outer`."""

# The products are a part of lazy arrays, in a module of its own.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import array_module, split
from mdtensor.api.frontends.lazy import interning
from mdtensor.api.frontends.lazy.interning import Converted
from mdtensor.api.frontends.lazy.lazy_array import LazyArray, as_lazy, axes_of, elementwise, into
from mdtensor.errors import DTypeError, ShapeError, SubscriptError
from mdtensor.options import MOST_AXES, beginning, one_of
from mdtensor.specs import TensorSpec, as_dtype, common_dtype
from mdtensor.translate.einsum.contraction import resolve
from mdtensor.translate.einsum.md_hom_from_einsum import accumulation_dtype
from mdtensor.translate.einsum.product_strings import (
    letters,
    text_of_dot,
    text_of_inner,
    text_of_matmul,
)
from mdtensor.translate.einsum.subscripts import parse
from mdtensor.translate.scalar import Expr, select


def einsum(
    *operands: Any,
    out: Any = None,
    dtype: object = None,
    order: Any = "K",
    casting: Any = "safe",
    optimize: Any = False,
) -> Any:
    """The sum of products for an einsum string; several operands are contracted left to right.

    An operand that is computed, and read more than once, is computed once. The result is in C
    order.
    """
    _check_order("einsum", order)
    text, given = split(operands)
    factors = [as_lazy(each) for each in given]
    made = common_dtype([f.dtype for f in factors]) if dtype is None else as_dtype(dtype)
    for factor in factors:
        if not np.can_cast(factor.dtype, made, _checked_casting(casting)):
            raise DTypeError(f"{factor.dtype} does not go into {made} by casting={casting!r}")
    subscripts = parse(text)
    if subscripts.is_affine:
        raise SubscriptError(
            "lazy arrays have no sums for indices",
            text=text,
            hint="mdtensor.einsum computes them of arrays",
        )
    specs = [TensorSpec.of(factor.shape, factor.dtype) for factor in factors]
    found = resolve(subscripts, specs)
    value, names = factors[0].astype(made), tuple(found.inputs[0])
    if len(factors) == 1:
        value, names = _contracted(value, names, None, (), found.output, found.extents)
    for number in range(1, len(factors)):
        needed = {*found.output}.union(*found.inputs[number + 1 :])
        is_last = number == len(factors) - 1
        kept = [n for n in dict.fromkeys((*names, *found.inputs[number])) if n in needed]
        other = factors[number].astype(made)
        value, names = _contracted(
            value,
            names,
            other,
            found.inputs[number],
            found.output if is_last else tuple(kept),
            found.extents,
        )
    return into(value.astype(made), out)


def _contracted(
    left: LazyArray,
    of_left: Sequence[str],
    right: LazyArray | None,
    of_right: Sequence[str],
    kept: tuple[str, ...],
    extents: Any,
) -> tuple[LazyArray, tuple[str, ...]]:
    """The product of one or two values, summed over all indices that are not kept.

    What is multiplied and added up is converted to the type for that, and the result is of it.
    """
    used = dict.fromkeys((*of_left, *of_right))
    # An index of the result that no operand has yet comes with a later one.
    kept = tuple(name for name in kept if name in used)
    every = (*kept, *(name for name in used if name not in kept))
    wide = accumulation_dtype(left.dtype)
    shape = tuple(extents[name] for name in every)

    def spread(factor: LazyArray, names: Sequence[str]) -> LazyArray:
        value = factor._value
        if any(name not in names and extents[name] > 1 for name in every):
            value = interning.stored(value)
        dims = tuple(every.index(name) for name in names)
        return factor._like(interning.spread(value, shape, dims)).astype(wide)

    product = spread(left, of_left)
    if right is not None:
        product = elementwise(_product, product, spread(right, of_right))
    if len(every) > len(kept):
        op = "or" if product.dtype.kind == "b" else "add"
        summed = tuple(range(len(kept), len(every)))
        product = product._like(interning.reduced(product._value, op, summed, False))
    return product, kept


def _product(x: Expr, y: Expr) -> Expr:
    return x & y if x.dtype.kind == "b" else x * y


def matmul(
    a: Any,
    b: Any,
    out: Any = None,
    *,
    casting: Any = "same_kind",
    order: Any = "K",
    dtype: object = None,
) -> Any:
    """The product of matrices or of stacks of them."""
    _check_order("matmul", order)
    left, right = as_lazy(a), as_lazy(b)
    text = text_of_matmul(left.shape, right.shape)
    return einsum(text, left, right, out=out, dtype=dtype, casting=casting)


def vdot(a: Any, b: Any, /) -> Any:
    """The dot product of all elements, those of `a` conjugated."""
    left, right = as_lazy(a), as_lazy(b)
    return einsum("i,i->", np.conj(left).reshape(-1), right.reshape(-1))


def _check_order(name: str, order: Any) -> None:
    if one_of("order", order, ("C", "F", "A", "K")) == "F":
        raise DTypeError(
            f"{name} of lazy arrays gives C order",
            hint="np.asfortranarray(np.asarray(y)) copies the result y",
        )


def _checked_casting(casting: Any) -> Any:
    return one_of("casting", casting, ("no", "equiv", "safe", "same_kind", "unsafe"))


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Sums products over the last axis of `a` and the last but one of `b`."""
    left, right = as_lazy(a), as_lazy(b)
    return einsum(text_of_dot(left.shape, right.shape), left, right, out=out)


def inner(a: Any, b: Any) -> Any:
    """Sums products over the last axes."""
    left, right = as_lazy(a), as_lazy(b)
    return einsum(text_of_inner(left.shape, right.shape), left, right)


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """All products of an element of `a` and one of `b`, which have one axis each."""
    left, right = as_lazy(a), as_lazy(b)
    if left.ndim != 1 or right.ndim != 1:
        raise ShapeError(
            f"outer of lazy arrays takes one axis each, not {left.ndim} and {right.ndim}",
            hint="np.asarray(y) evaluates a lazy array y first",
        )
    return einsum("i,j->ij", left, right, out=out)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sums products over pairs of axes: a number of them, or two lists."""
    left, right = as_lazy(a), as_lazy(b)
    if isinstance(axes, int):
        axes = range(left.ndim - axes, left.ndim), range(axes)
    of_left, of_right = (
        axes_of((side,) if isinstance(side, int) else beginning(side, MOST_AXES), array.ndim)
        for side, array in zip(axes, (left, right), strict=True)
    )
    if [left.shape[n] for n in of_left] != [right.shape[n] for n in of_right]:
        raise ShapeError(
            f"axes {of_left} of a and {of_right} of b differ in extent",
            notes=[f"a: {left.shape}    b: {right.shape}"],
        )
    names = letters(left.ndim + right.ndim)
    first, second = names[: left.ndim], list(names[left.ndim :])
    for one, other in zip(of_left, of_right, strict=True):
        second[other] = first[one]
    summed = {first[n] for n in of_left}
    kept = "".join(name for name in (*first, *second) if name not in summed)
    return einsum(f"{first},{''.join(second)}->{kept}", left, right)


def running(name: str, a: Any, axis: Any = None, dtype: object = None, out: Any = None) -> Any:
    """The inclusive scan by sums or products along an axis."""
    a = as_lazy(a)
    if axis is None and a.ndim == 0:
        a = a.reshape(1)
    if axis is None and a.ndim != 1:
        raise ShapeError(
            f"{name} of a lazy array with {a.ndim} axes has an axis", hint="axis=-1, for instance"
        )
    (along,) = axes_of(axis, a.ndim)
    made: np.dtype = getattr(np, name)(np.ones(1, a.dtype), dtype=dtype).dtype
    elements = interning.combined(Converted((made, accumulation_dtype(made))), a._value)
    op = "add" if name == "cumsum" else "mul"
    return into(a._like(interning.scanned(elements, op, along)).astype(made), out)


def position(
    extreme: str, a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False
) -> Any:
    """The position of the first largest or smallest element along an axis."""
    a = as_lazy(a)
    if axis is None and a.ndim == 0:
        a, keepdims = a.reshape(1), False
    if axis is None and a.ndim != 1:
        raise ShapeError(
            f"arg{extreme} of a lazy array with {a.ndim} axes has an axis",
            hint="axis=-1, for instance",
        )
    (along,) = axes_of(axis, a.ndim)
    extent = a.shape[along]
    best = getattr(a, extreme)(along, keepdims=True)
    places = array_module(a._arrays).arange(extent).reshape([-1] + [1] * (a.ndim - 1 - along))
    found = elementwise(_place, a, best, places)
    return into(found.min(along, keepdims=keepdims), out)


def _place(element: Any, best: Any, place: Expr) -> Expr:
    # `==` of expressions asks whether they are the same; a NaN is the first extreme.
    is_best: Any = np.equal(element, best) | np.not_equal(element, element)
    return select(is_best, place, place * 0 + np.iinfo(np.intp).max)
