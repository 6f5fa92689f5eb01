"""Filters, which combine a window around every point, as stencils."""

from __future__ import annotations

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec, kind_of
from mdtensor.translate.combine import Pointwise, named
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.scalar import BOOL, I64, Expr, apply, cast, const, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_stencil import Stencil, md_homs_from_stencil
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec


@dataclass(frozen=True, slots=True)
class Filter:
    """A window and the operator that combines its elements: `add`, `min` or `max`.

    The window has `sizes` elements along the axes, the first of them at `starts` from the point.
    With `weighted`, a second operand of the window's shape gives factors for `add`, and for `min`
    and `max` which elements count. A sum is divided by `divisor`.
    """

    combine: str
    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    border: Border
    weighted: bool = False
    divisor: int = 1


def md_homs_from_filter(
    given: Filter, field: TensorSpec, out: TensorSpec, weights: TensorSpec | None = None
) -> tuple[MDHom, ...]:
    """The `md_hom`s of a filter on an array; the weights are a second input.

    Sums are computed in the type of the weights, means in double; those that go to integers lose
    their fraction.

    >>> mean = Filter("add", (1, 3), (0, -1), Border("wrap"), divisor=3)
    >>> spec = TensorSpec.of((64, 64))
    >>> for md_hom in md_homs_from_filter(mean, spec, spec):
    ...     print(md_hom)
    md_hom[i0:64, i1:62, r1:3](f, (cc, cc, pw(add)), epilogue g)
    md_hom[i0:64, s1:2, i1:1, r1:3](f, (cc, cc, cc, pw(add)), epilogue g)
    """
    dtype = _combined_dtype(given, field.dtype, weights)
    inputs = [BufferSpec("u", field)]
    reads = [
        BufferAccess(0, tuple(map(_index, range(len(given.sizes)), given.sizes, given.starts)))
    ]
    params, element = [dtype], param(0, dtype)
    operator = named(given.combine, [dtype])
    if weights is not None:
        inputs.append(BufferSpec("w", weights))
        place = (_index(axis, size, 0) for axis, size in enumerate(given.sizes))
        reads.append(BufferAccess(1, tuple(place)))
        params.append(weights.dtype)
        weight = param(1, weights.dtype)
        if given.combine == "add":
            element = element * weight
        else:
            assert operator.identity is not None
            element = select(weight, element, const(operator.identity[0], dtype))
    stencil = Stencil(
        field.shape,
        ScalarFunction(tuple(params), (element,)),
        tuple(inputs),
        frozenset([0]),
        tuple(reads),
        tuple(
            Dim(f"r{axis}", size, Pointwise(operator))
            for axis, size in enumerate(given.sizes)
            if size > 1
        ),
        _epilogue(given, dtype, out.dtype),
    )
    return md_homs_from_stencil(stencil, given.border, [out])


def weights_dtype(field: np.dtype, out: np.dtype, *, is_complex: bool) -> np.dtype:
    """The type of weights and sums: float64, or float32 if array and result are narrow.

    Sums of weighted elements in double, which scipy has, take up to twice as long as in single.
    """
    narrow = all(
        kind_of(dtype) in "fc" and np.result_type(dtype, np.complex64) == np.complex64
        for dtype in (field, out)
    )
    if is_complex:
        return np.dtype(np.complex64 if narrow else np.complex128)
    return np.dtype(np.float32 if narrow else np.float64)


def stored(value: Expr, dtype: np.dtype) -> Expr:
    """Convert a float result to an integer type: truncated, modulo the type's width."""
    if kind_of(value.dtype) != "f" or kind_of(dtype) == "f":
        return value
    if dtype == BOOL:
        return apply("ne", cast(value, I64), 0)
    if dtype == np.uint64:
        return select(value > -1, cast(value, dtype), -cast(-value, dtype))
    return cast(cast(value, I64), dtype)


def taken_dtype(border: Border, field: np.dtype) -> np.dtype:
    """The type of compared elements: theirs, or float64 for a `cval` outside of it."""
    held = np.asarray(border.cval).astype(field)
    fits = border.mode != "constant" or kind_of(field) == "f" or held == border.cval
    return field if fits else np.dtype(np.float64)


def _combined_dtype(given: Filter, field: np.dtype, weights: TensorSpec | None) -> np.dtype:
    if given.combine == "add":
        if weights is not None:
            return weights.dtype
        return np.dtype(np.complex128 if field.kind == "c" else np.float64)
    return taken_dtype(given.border, field)


def _index(axis: int, size: int, start: int) -> AffineIndex:
    return AffineIndex.of(*([f"r{axis}"] if size > 1 else []), offset=start)


def _epilogue(given: Filter, dtype: np.dtype, out: np.dtype) -> Epilogue | None:
    combined = param(0, dtype)
    value = combined if given.divisor == 1 else combined / given.divisor
    result = stored(value, out)
    return None if result is combined else Epilogue(ScalarFunction((dtype,), (result,), "g"))
