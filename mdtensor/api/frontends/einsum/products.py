"""`matmul`, `dot`, `inner`, `vdot` and `outer` with NumPy's signatures and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import (
    Array,
    array_module,
    as_arrays,
    as_output,
    computed_by_numpy,
    read_only,
    reason_of_classes,
    reason_of_types,
)
from mdtensor.api.arrays.unaligned_arrays import copy_into
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.frontends.einsum.einsum import count_for_numpy, einsum
from mdtensor.api.frontends.einsum.einsum_options import checked_casting, checked_order
from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, ShapeError
from mdtensor.originals import original
from mdtensor.specs import as_dtype, common_dtype
from mdtensor.translate.einsum.product_strings import (
    check_summed,
    letters,
    text_of_dot,
    text_of_inner,
    text_of_matmul,
)
from mdtensor.translate.scalar import Expr

_numpy = {name: original(f"numpy.{name}") for name in ("matmul", "dot", "inner", "vdot", "outer")}
_Shape = tuple[int, ...]


@with_call_cache
def matmul(
    a: Any,
    b: Any,
    /,
    out: Array | None = None,
    *,
    casting: str = "same_kind",
    order: str | None = "K",
    dtype: object = None,
) -> Array:
    """The product of two matrices, or of stacks of them, as `numpy.matmul` computes it.

    The last two axes are those of matrices, those before them broadcast. An operand of one axis is
    a row on the left and a column on the right, and the result lacks that axis. `dtype` is the
    type of products and sums, by default the operands' common one; `casting` says what may be
    converted to it, and from it to `out`. `order` is "C" or "F"; all others mean "C".

    Raises ShapeError (a ValueError) for numbers, for shapes that do not fit and for an `out` of
    another shape; DTypeError (a TypeError) for types that `casting` forbids.

    >>> matmul([[1, 2], [3, 4]], [[1, 0], [1, 1]])
    array([[3, 2],
           [7, 4]])
    >>> matmul(np.ones((5, 2, 3)), np.ones(3)).shape
    (5, 2)
    """
    checked_casting(casting)
    column_major = checked_order(order) == "F"
    given = Given.of(a, b, out)
    if given.reason:
        return given.by_numpy(
            _numpy["matmul"], a, b, out=out, casting=casting, order=order, dtype=dtype
        )
    text = text_of_matmul(*given.shapes)
    computed = given.common if dtype is None else as_dtype(dtype)
    options: dict[str, Any] = {"dtype": dtype, "casting": casting}
    options["order"] = "F" if column_major else "C"
    target = as_output("out", out, given.xp) if out is not None else None
    if target is None or target.dtype == computed:
        return _whole(einsum(text, *given.arrays, out=out, **options), out)
    if not np.can_cast(computed, target.dtype, casting):  # pyright: ignore[reportArgumentType]
        raise DTypeError(f"the result is {computed}, which does not go into {target.dtype}")
    if given.xp is np and not target.flags.writeable:
        raise read_only("out")
    result = einsum(text, *given.arrays, **options)
    if np.shape(result) != tuple(target.shape):
        raise _other_shape(target, np.shape(result))
    copy_into(target, result, given.xp, casting)
    return out


@with_call_cache
def dot(a: Any, b: Any, out: Array | None = None) -> Array:
    """The dot product of two arrays, as `numpy.dot` computes it.

    Sums products over the last axis of `a` and the last but one of `b`, or its only one. With a
    number it multiplies. `out` is in C order and has the type and the shape of the result.

    Raises ShapeError (a ValueError) where extents differ, and for another `out`.

    >>> dot([1, 2, 3], [4, 5, 6])
    np.int64(32)
    >>> dot(np.ones((2, 3)), np.ones((5, 3, 4))).shape
    (2, 5, 4)
    """
    given = Given.of(a, b, out)
    if given.reason:
        return given.by_numpy(_numpy["dot"], a, b, out=out)
    left, right = given.shapes
    text = text_of_dot(left, right)
    summed = bool(left and right)
    of_right = right[:-2] + right[-1:] if len(right) > 1 else ()
    given.check_out(out, (*left[: len(left) - summed], *(of_right if summed else right)))
    return _whole(einsum(text, *given.arrays, out=out, order="C"), out)


@with_call_cache
def inner(a: Any, b: Any, /) -> Array:
    """Sums products over the last axes of two arrays, as `numpy.inner` does.

    With a number it multiplies. Raises ShapeError (a ValueError) where the last extents differ.

    >>> inner(np.ones((2, 3)), np.ones((4, 3))).shape
    (2, 4)
    """
    given = Given.of(a, b)
    if given.reason:
        return given.by_numpy(_numpy["inner"], a, b)
    text = text_of_inner(*given.shapes)
    return einsum(text, *given.arrays, order="C")


@with_call_cache
def vdot(a: Any, b: Any, /) -> Any:
    """The dot product of all elements, those of `a` conjugated, as `numpy.vdot` computes it.

    Arrays of several axes are taken as one axis in C order. Raises ShapeError (a ValueError) where
    they have different numbers of elements.

    >>> vdot([1 + 2j, 3], [1j, 1])
    np.complex128(5+1j)
    """
    given = Given.of(a, b)
    if given.reason:
        return given.by_numpy(_numpy["vdot"], a, b)
    left, right = given.arrays
    if left.shape != right.shape:
        check_summed("vdot", left.shape, right.shape, left.size, right.size)
        left, right = left.reshape(-1), right.reshape(-1)
    axes = letters(left.ndim)
    if given.common.kind != "c":
        return einsum(f"{axes},{axes}->", left, right)
    return einsum(f"{axes},{axes}->", left, right, f=_conjugated_product, combine="add")


def _conjugated_product(x: Expr, y: Expr) -> Expr:
    return x.conjugate() * y


@with_call_cache
def outer(a: Any, b: Any, out: Array | None = None) -> Array:
    """All products of an element of `a` and one of `b`, as `numpy.outer` computes them.

    Arrays of several axes are taken as one axis in C order; `out` has the shape
    `(a.size, b.size)`, and a type that takes the result. Raises ShapeError (a ValueError) or
    DTypeError (a TypeError) for another one.

    >>> outer([1, 2], [3, 4, 5])
    array([[ 3,  4,  5],
           [ 6,  8, 10]])
    """
    given = Given.of(a, b, out)
    if given.reason:
        return given.by_numpy(_numpy["outer"], a, b, out)
    left, right = (array if array.ndim == 1 else array.reshape(-1) for array in given.arrays)
    return _whole(einsum("i,j->ij", left, right, out=out, casting="same_kind", order="C"), out)


@dataclass(frozen=True, slots=True)
class Given:
    """The two operands of a product, with the reason for a fallback to NumPy, if any."""

    arrays: Sequence[Array]
    types: Sequence[np.dtype]
    reason: str
    xp: Any

    @classmethod
    def of(cls, a: Any, b: Any, out: Any = None) -> Given:
        """The operands of a call, converted, or the reason for a fallback."""
        written = () if out is None else (out,)
        xp = array_module((a, b, *written))
        if reason := reason_of_classes((a, b, *written), optimized=False):
            return cls((a, b), (), reason, xp)
        arrays = as_arrays((a, b), xp)
        types: list[Any] = [getattr(array, "dtype", None) for array in (*arrays, *written)]
        known: list[np.dtype] = [dtype for dtype in types if isinstance(dtype, np.dtype)]
        return cls(arrays, known, reason_of_types(known), xp)

    @property
    def shapes(self) -> tuple[_Shape, _Shape]:
        """The operands' shapes."""
        left, right = self.arrays
        return tuple(left.shape), tuple(right.shape)

    @property
    def common(self) -> np.dtype:
        """The common type of the operands; raises DTypeError where there is none."""
        return common_dtype([array.dtype for array in self.arrays])

    def by_numpy(self, own: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Fall back to NumPy's own function, and count the call."""
        count_for_numpy(self.types, self.reason)
        return computed_by_numpy(lambda: own(*args, **options), self.reason, self.arrays)

    def check_out(self, out: Any, shape: _Shape) -> None:
        """Raises ShapeError or DTypeError for an `out` that NumPy's dot does not take."""
        if out is None:
            return
        target = as_output("out", out, self.xp)
        if tuple(target.shape) != shape:
            raise _other_shape(target, shape)
        if target.dtype != self.common:
            raise DTypeError(f"out is {target.dtype}, but the result {self.common}")
        if not target.flags.c_contiguous:
            raise ShapeError("out is not in C order", hint="numpy.matmul and einsum take any order")
        if self.xp is np and not target.flags.writeable:
            raise read_only("out")


def _other_shape(out: Array, shape: _Shape) -> ShapeError:
    return ShapeError(f"out has shape {tuple(out.shape)} but the result {shape}")


def _whole(result: Array, out: Any) -> Array:
    return result if out is None else out
