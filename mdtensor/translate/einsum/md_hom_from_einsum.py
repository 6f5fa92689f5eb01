"""Einsums as `md_hom`s: output dims concatenate, all others are summed."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from mdtensor.specs import TensorSpec, as_dtype, common_dtype, computed_dtype
from mdtensor.translate.combine import CC, Combine, Pointwise, named
from mdtensor.translate.einsum.contraction import Contraction, resolve
from mdtensor.translate.einsum.index_space import IndexSpace, index_space
from mdtensor.translate.einsum.subscripts import parse
from mdtensor.translate.einsum.views_from_index_space import views_from_index_space
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.scalar import BOOL, F32, Expr, apply, cast, param
from mdtensor.translate.scalar_function import ScalarFunction, factor
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec


def md_hom_from_einsum(
    text: str,
    specs: Sequence[TensorSpec],
    *,
    dtype: object = None,
    acc_dtype: object = None,
    precision: str | None = None,
    out: TensorSpec | None = None,
) -> MDHom:
    """The `md_hom` of an einsum string on operands of the given specs.

    `dtype` is the type of the computation and of its result, by default the operands' common
    type; `acc_dtype` is the type of products and sums, by default float32 for float16 and `dtype`
    for all others. `precision` "tf32" lets hardware round factors in float32 to ten bits. `out` is
    the spec of the result, by default in C order.

    Raises SubscriptError where string and shapes do not fit.

    Strings may have sums for indices, which `index_space` explains.

    >>> a, b = TensorSpec.of((64, 32), "f2"), TensorSpec.of((32, 128), "f2")
    >>> print(md_hom_from_einsum("ij,jk->ki", (a, b)).describe())
    out_view(out: float16[128, 64] (i, j, k) -> (k, i))
    md_hom[i:64, j:32, k:128](mul, (cc, pw(add), cc))
    inp_view(A: float16[64, 32] (i, j, k) -> (i, j); B: float16[32, 128] (i, j, k) -> (j, k))
    """
    subscripts = parse(text)
    if subscripts.is_affine:
        space = index_space(subscripts, specs)
        return md_hom_from_index_space(
            space, specs, dtype=dtype, acc_dtype=acc_dtype, precision=precision, out=out
        )
    contraction = resolve(subscripts, specs, out)
    common = common_dtype([spec.dtype for spec in specs]) if dtype is None else dtype
    return md_hom_from_contraction(
        contraction, specs, dtype=common, acc_dtype=acc_dtype, precision=precision, out=out
    )


def md_hom_from_index_space(
    space: IndexSpace,
    specs: Sequence[TensorSpec],
    *,
    dtype: object = None,
    acc_dtype: object = None,
    precision: str | None = None,
    out: TensorSpec | None = None,
) -> MDHom:
    """The sum of products over an index space; index operands are no factors.

    >>> from mdtensor.translate.einsum.index_space import index_space
    >>> specs = TensorSpec.of((8, 3)), TensorSpec.of((3, 3))
    >>> md_hom_from_index_space(index_space(parse("2h+r c, r c -> h"), specs), specs)
    md_hom[h:3, r:3, c:3](mul, (cc, pw(add), pw(add)))
    """
    view = views_from_index_space(space, specs)
    factors = [n for n, access in enumerate(view) if access.buffer not in space.index_operands]
    if dtype is None:
        dtype = common_dtype([specs[view[n].buffer].dtype for n in factors])
    return _sum_of_products(
        space,
        specs,
        view,
        factors,
        as_dtype(dtype),
        acc_dtype=acc_dtype,
        precision=precision,
        out=out,
    )


def md_hom_from_contraction(
    contraction: Contraction,
    specs: Sequence[TensorSpec],
    *,
    dtype: object,
    acc_dtype: object = None,
    precision: str | None = None,
    out: TensorSpec | None = None,
) -> MDHom:
    """The `md_hom` of a resolved contraction; see `md_hom_from_einsum`."""
    operands = enumerate(zip(contraction.inputs, specs, strict=True))
    view = [_access(n, names, spec, contraction.extents) for n, (names, spec) in operands]
    factors, result = range(len(specs)), as_dtype(dtype)
    return _sum_of_products(
        contraction, specs, view, factors, result, acc_dtype=acc_dtype, precision=precision, out=out
    )


def _sum_of_products(
    dims: Contraction | IndexSpace,
    specs: Sequence[TensorSpec],
    view: Sequence[BufferAccess],
    factors: Sequence[int],
    result: np.dtype,
    *,
    acc_dtype: object,
    precision: str | None,
    out: TensorSpec | None,
) -> MDHom:
    """The `md_hom` that sums products of the accesses whose positions are `factors`."""
    extents, output = dims.extents, dims.output
    accumulated = accumulation_dtype(result) if acc_dtype is None else as_dtype(acc_dtype)
    read = tuple([specs[access.buffer].dtype for access in view])
    if out is None:
        out = TensorSpec.of([extents[name] for name in output], result)
    return MDHom(
        _dims(extents, output, accumulated),
        _product(read, tuple(factors), result, accumulated, precision),
        buffers(specs),
        (BufferSpec("out", out),),
        tuple(view),
        (_access(0, output, out, extents),),
    )


@lru_cache(256)
def accumulation_dtype(dtype: np.dtype) -> np.dtype:
    """The default type of products and sums of `dtype` elements.

    Floats of 16 bits are computed in float32. Bytes are computed in 16 bits, which processors
    multiply faster; what is stored, the lower byte, is the same.
    """
    if dtype.kind in "iu" and dtype.itemsize == 1:
        return np.dtype(f"{dtype.kind}2")
    return computed_dtype(dtype)


def buffers(specs: Sequence[TensorSpec]) -> tuple[BufferSpec, ...]:
    """Operands as buffers named A, B, C and so on."""
    letters = string.ascii_uppercase
    names = (letters[n] if n < len(letters) else f"A{n}" for n in range(len(specs)))
    return tuple(BufferSpec(name, spec) for name, spec in zip(names, specs, strict=True))


def _dims(
    extents: Mapping[str, int], output: Sequence[str], accumulated: np.dtype
) -> tuple[Dim, ...]:
    """Dims with their combine operators: concatenation in the output, else addition."""
    adds = Pointwise(named("add", [accumulated]))
    combines: dict[str, Combine] = dict.fromkeys(extents, adds)
    combines |= dict.fromkeys(output, CC)
    return tuple(Dim(name, extents[name], combines[name]) for name in extents)


def _access(
    buffer: int, names: Sequence[str], spec: TensorSpec, extents: Mapping[str, int]
) -> BufferAccess:
    """An access by dim names; axes of extent 1 broadcast at index 0."""
    return BufferAccess(
        buffer,
        tuple(
            _walked(name) if extent == extents[name] else AffineIndex()
            for name, extent in zip(names, spec.shape, strict=True)
        ),
    )


@lru_cache(1024)
def _walked(name: str) -> AffineIndex:
    return AffineIndex.of(name)


@lru_cache(1024)
def _product(
    params: tuple[np.dtype, ...],
    positions: tuple[int, ...],
    dtype: np.dtype,
    accumulated: np.dtype,
    precision: str | None,
) -> ScalarFunction:
    """The product of the elements at some positions in the type `accumulated`.

    Each is brought to `dtype` before; hardware may round float32 to a `precision`.
    """
    if len(positions) == 1 or accumulated != F32:
        precision = None
    factors: list[Expr] = []
    for position in positions:
        given = params[position]
        element = param(position, given)
        exact = accumulated == dtype or np.can_cast(given, dtype)
        brought = cast(element if exact else cast(element, dtype), accumulated)
        factors.append(factor(brought, precision))
    product = factors[0]
    for other in factors[1:]:
        product = apply("and" if accumulated == BOOL else "mul", product, other)
    return ScalarFunction(params, (product,), "mul" if len(positions) > 1 else "id")
