"""Contractions: sums of products of two operands, by NumPy's `matmul`."""

from __future__ import annotations

import atexit
import math
import threading
from collections.abc import Sequence
from typing import cast

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.evaluator.blas_threads import threads_for
from mdtensor.forks import keep_over_forks
from mdtensor.originals import original
from mdtensor.process_end import FOR_KERNELS_S, seconds_left, stay_unless_main
from mdtensor.specs import kind_of
from mdtensor.translate.combine import Concat, Pointwise
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.scalar import Expr

Axes = tuple[int, ...]
_matmul = original("numpy.matmul")  # no import is possible at the end of the process
_LINE = 64  # bytes that come from memory together

# OpenBLAS ends its threads as the process forks or ends; where another thread computes by them,
# neither would go on.
_in_blas = threading.RLock()
keep_over_forks(_in_blas, innermost=True)
_ended: list[None] = []  # an element once no thread but the main one may begin a product


@atexit.register
def _end() -> None:
    """At exit, wait for another thread's BLAS call, and keep its lock so that none begins."""
    _ended.append(None)
    _in_blas.acquire(timeout=seconds_left(FOR_KERNELS_S, spare=0.0))


def held(dtype: np.dtype) -> np.dtype:
    """The type in which kernels compute a type: float32 for 16-bit floats, else itself."""
    return np.dtype(np.float32) if kind_of(dtype) == "f" and dtype.itemsize == 2 else dtype


@dataclass(frozen=True, slots=True)
class BatchedMatmul:
    """A sum of products of two operands as a batched `matmul`, by the roles of its dims.

    `sides` are positions in the input view. Along `alone` dims only one side is added up. What
    remains are matrices: `batch` dims of both, `rows` of the left side, `columns` of the right
    one, `inner` dims that both are added up along. The others of `rank` dims are of neither.
    """

    dtype: np.dtype
    sides: tuple[int, int]
    alone: tuple[Axes, Axes]
    batch: Axes
    rows: Axes
    columns: Axes
    inner: Axes
    rank: int

    def __call__(self, operands: Sequence[np.ndarray]) -> np.ndarray:
        """The contraction of two views with an axis for each dim; reduced ones get extent 1."""
        lhs, rhs = [
            self._summed(array.astype(self.dtype, copy=False), axes)
            for array, axes in zip(operands, self.alone, strict=True)
        ]
        inner = _as_it_lies(rhs if _overlaps(lhs) else lhs, self.inner)
        a = _matrix(lhs, self.batch, self.rows, inner)
        b = _matrix(rhs, self.batch, inner, self.columns)
        order = (*self.batch, *self.rows, *self.columns)
        others = tuple([axis for axis in range(self.rank) if axis not in order])
        extents = [max(lhs.shape[axis], rhs.shape[axis]) for axis in order]
        if _ended:
            stay_unless_main()
        with _in_blas, threads_for(a.shape[-2] * a.shape[-1] * b.shape[-1]):
            product = _matmul(a, b)
        result = product.reshape(*extents, *[1] * len(others))
        return result.transpose(np.argsort((*order, *others)))

    def _summed(self, array: np.ndarray, axes: Axes) -> np.ndarray:
        return np.add.reduce(array, axis=axes, dtype=self.dtype, keepdims=True) if axes else array


def _overlaps(view: np.ndarray) -> bool:
    """Whether elements of a view share memory, as overlapping windows do."""
    reach = 0
    for stride, extent in sorted(zip(map(abs, view.strides), view.shape, strict=True)):
        if extent > 1:
            if stride <= reach:
                return True
            reach += stride * (extent - 1)
    return False


def _as_it_lies(array: np.ndarray, axes: Axes) -> Axes:
    """Axes in the order of an array's memory layout, by descending stride.

    In this order, an array may be reshaped to a matrix without a copy.
    """
    return tuple(sorted(axes, key=lambda axis: -abs(array.strides[axis])))


def _cost_of_copy(array: np.ndarray, axes: Axes) -> float:
    """Estimated nanoseconds per element of a copy whose innermost loop is the last of `axes`.

    A loop takes some to begin, and elements that lie apart in memory a line each.
    """
    along = [axis for axis in axes if array.shape[axis] > 1]
    if not along:
        return math.inf
    return 10 / array.shape[along[-1]] + min(abs(array.strides[along[-1]]), _LINE) / 16


def _matrix(array: np.ndarray, batch: Axes, rows: Axes, columns: Axes) -> np.ndarray:
    """The view reshaped to a stack of matrices, copied only where NumPy must copy it."""
    if _cost_of_copy(array, rows) < _cost_of_copy(array, columns):
        return _matrix(array, batch, columns, rows).swapaxes(-1, -2)
    shape = array.shape
    extents = [math.prod([shape[axis] for axis in axes]) for axes in (batch, rows, columns)]
    order = (*batch, *rows, *columns)
    rest = [axis for axis in range(array.ndim) if axis not in order]
    return array.transpose(*order, *rest).reshape(extents)


def batched_matmul_of(md_hom: MDHom) -> BatchedMatmul | None:
    """The `matmul` that computes an `md_hom` before its epilogue; None where none does.

    None without rows and columns, too: BLAS adds up one term after the other, NumPy pairwise.
    """
    factors = _factors(md_hom)
    if factors is None or not all(
        isinstance(dim.combine, Concat)
        or (isinstance(dim.combine, Pointwise) and dim.combine.op.name == "add")
        for dim in md_hom.dims
    ):
        return None
    used = [frozenset(md_hom.inp_view[n].dims) for n in factors]
    found: dict[tuple[bool, bool, bool], list[int]] = {}
    for axis, dim in enumerate(md_hom.dims):
        is_reduced = not isinstance(dim.combine, Concat)
        found.setdefault((is_reduced, dim.name in used[0], dim.name in used[1]), []).append(axis)

    def axes(*of: bool) -> Axes:
        return tuple(found.get(cast("tuple[bool, bool, bool]", of), ()))

    inner, rows, columns = (
        axes(True, True, True),
        axes(False, True, False),
        axes(False, False, True),
    )
    if not inner or not (rows or columns) or axes(True, False, False):
        return None
    alone = axes(True, True, False), axes(True, False, True)
    if _innermost(md_hom) in rows:  # so that results are written in runs of memory
        factors, alone = (factors[1], factors[0]), (alone[1], alone[0])
        rows, columns = columns, rows
    dtype = held(md_hom.scalar.results[0].dtype)
    batch = axes(False, True, True)
    return BatchedMatmul(dtype, factors, alone, batch, rows, columns, inner, len(md_hom.dims))


def _innermost(md_hom: MDHom) -> int | None:
    """The axis along which the result is contiguous in memory; None if there is none."""
    [access] = md_hom.out_view
    strides = md_hom.outputs[access.buffer].spec.strides
    near = [
        axis
        for axis, dim in enumerate(md_hom.dims)
        for index, stride in zip(access.index, strides, strict=True)
        if dim.extent > 1 and abs(stride) == 1 and dim.name in index.dims
    ]
    return near[0] if near else None


def _factors(md_hom: MDHom) -> tuple[int, int] | None:
    """The positions of the two accesses that the scalar function multiplies; None for others."""
    if len(md_hom.scalar.results) != 1:
        return None
    [product] = md_hom.scalar.results
    if product.op != "mul" or kind_of(product.dtype) not in "fc":
        return None
    found = tuple([_position(factor) for factor in product.args])
    if None in found or not all(md_hom.inp_view[n or 0].is_affine for n in found):
        return None
    return cast("tuple[int, int]", found)


def _position(factor: Expr) -> int | None:
    """The input access that a factor reads, through conversions; None for other expressions."""
    while factor.op in ("cast", "tf32"):
        [factor] = factor.args
    return factor.number if factor.op == "param" else None
