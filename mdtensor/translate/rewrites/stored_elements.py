"""Sparse operands: rewriting an `md_hom` over the stored elements.

Dims that walk a sparse buffer become one, along the stored elements; what they were is read from
arrays of coordinates. Elements that are not stored take no part: they give the operator's identity.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import Concat, Pointwise, PrefixSum
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.rewrites.places_of_dims import DimReplacement, stored_index, unused_name
from mdtensor.translate.scalar import I64, Expr, apply, cast, const, equal, index_of, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec

_DENSE = "a.toarray() stores all elements of a sparse array a"


def over_coordinates(
    md_hom: MDHom, buffer: int, values: TensorSpec, coordinates: Sequence[TensorSpec]
) -> MDHom:
    """Rewrite an `md_hom` to an input in COO format: `values` and their `coordinates`.

    `coordinates` become inputs behind the others. Where a dim of the input remains in the result,
    an element counts at its coordinate, which is a scatter.

    Raises TranslationError where the input is not walked by dims of its own, where two of them
    remain, and for operators without identity or for which the order of elements matters.

    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> dense = md_hom_from_einsum("ij,jk->ik", (TensorSpec.of((64, 32)), TensorSpec.of((32, 8))))
    >>> at = TensorSpec.of((100,), "i4")
    >>> sparse = over_coordinates(dense, 0, TensorSpec.of((100,)), (at, at))
    >>> sparse
    md_hom[i:64, e:100, k:8](mul, (cc, pw(add), cc))
    >>> sparse.scalar.results, sparse.inp_view
    ((select((i == int64(uint32(p0))), (p2 * p3), 0),), ((e), (e), (e), (int64(uint32(p1)), k)))
    """
    _, walked = _walked(md_hom, buffer)
    kept, combine = _combined(md_hom, walked)
    along = Dim(unused_name("e", md_hom.extents), values.shape[0], combine)
    places = {
        name: stored_index(n, coordinates[axis].dtype)
        for n, (name, axis) in enumerate(walked.items())
    }
    count = len(md_hom.inputs)
    first = [BufferAccess(count + axis, (AffineIndex.of(along.name),)) for axis in walked.values()]
    here = None if kept is None else equal(index_of(kept), places[kept])
    more = [BufferSpec(f"at{axis}", spec) for axis, spec in enumerate(coordinates)]
    inputs = _with_values(md_hom, buffer, values, more)
    return _over(md_hom, along, buffer, inputs, first, places, here)


def over_ranges(
    md_hom: MDHom,
    buffer: int,
    axis: int,
    values: TensorSpec,
    indices: TensorSpec,
    pointers: TensorSpec,
) -> MDHom:
    """Rewrite an `md_hom` to an input compressed along an axis (CSR or CSC).

    Elements from `pointers[n]` up to `pointers[n + 1]` are those at index n of this axis, whose dim
    remains in the result; `indices` are theirs along the other one. Both become inputs behind the
    others.

    Raises what `over_coordinates` raises.

    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> dense = md_hom_from_einsum("ij,jk->ik", (TensorSpec.of((64, 32)), TensorSpec.of((32, 8))))
    >>> stored = [TensorSpec.of((n,), dtype) for n, dtype in ((100, "f4"), (100, "i4"), (65, "i4"))]
    >>> sparse = over_ranges(dense, 0, 0, *stored)
    >>> sparse.scalar.results[0].args[0], sparse.inp_view
    (((int64(p1) <= e) & (e < int64(p2))), ((e), (i), (i+1), (e), (int64(uint32(p0)), k)))
    """
    access, walked = _walked(md_hom, buffer)
    kept, combine = _combined(md_hom, walked)
    along = Dim(unused_name("e", md_hom.extents), values.shape[0], combine)
    at, count = access.index[axis], len(md_hom.inputs)
    assert isinstance(at, AffineIndex)
    behind = AffineIndex(at.coefficients, at.offset + 1)
    first = [BufferAccess(count, (AffineIndex.of(along.name),))]
    first += [BufferAccess(count + 1, (at,)), BufferAccess(count + 1, (behind,))]
    begin, end = (cast(param(n, pointers.dtype), I64) for n in (1, 2))
    element = index_of(along.name)
    here = apply("and", apply("le", begin, element), apply("lt", element, end))
    places = {name: stored_index(0, indices.dtype) for name, n in walked.items() if n != axis}
    if {name for name, n in walked.items() if n == axis} - {kept}:
        raise TranslationError("the compressed dim of a sparse operand is combined", hint=_DENSE)
    more = [BufferSpec("at", indices), BufferSpec("ptr", pointers)]
    inputs = _with_values(md_hom, buffer, values, more)
    return _over(md_hom, along, buffer, inputs, first, places, here)


def axes_of_results(md_hom: MDHom, buffer: int) -> tuple[int | None, bool]:
    """The axis of a sparse input whose dim is kept, and whether other dims are kept.

    Raises what `over_coordinates` raises.
    """
    _, walked = _walked(md_hom, buffer)
    kept, _ = _combined(md_hom, walked)
    others = [dim for dim in md_hom.kept if dim.name != kept and dim.extent > 1]
    return (None if kept is None else walked[kept]), bool(others)


def _with_values(
    md_hom: MDHom, buffer: int, values: TensorSpec, more: Sequence[BufferSpec]
) -> tuple[BufferSpec, ...]:
    given = [replace(b, spec=values) if n == buffer else b for n, b in enumerate(md_hom.inputs)]
    return (*given, *more)


def _over(
    md_hom: MDHom,
    along: Dim,
    buffer: int,
    inputs: tuple[BufferSpec, ...],
    first: Sequence[BufferAccess],
    places: Mapping[str, Expr],
    here: Expr | None,
) -> MDHom:
    """The `md_hom` along stored elements; `places` are expressions in place of dims.

    An element counts where the condition `here` holds.
    """
    moved = DimReplacement(places, len(first))
    element = BufferAccess(buffer, (AffineIndex.of(along.name),))
    view = [*first]
    view += [element if a.buffer == buffer else moved.access(a) for a in md_hom.inp_view]
    results = md_hom.scalar.rewritten(moved).results
    if here is not None:
        assert isinstance(along.combine, Pointwise)
        nothing = zip(results, along.combine.op.identity or (), strict=True)
        results = tuple([select(here, r, const(none, r.dtype)) for r, none in nothing])
    types = tuple([inputs[access.buffer].spec.dtype for access in view])
    gone = {name for name in places if name not in {d.name for d in md_hom.kept}}
    return replace(
        md_hom,
        dims=_dims(md_hom, along, gone),
        scalar=ScalarFunction(types, results, md_hom.scalar.name),
        inputs=inputs,
        inp_view=tuple(view),
    )


def _walked(md_hom: MDHom, buffer: int) -> tuple[BufferAccess, dict[str, int]]:
    """The access of a sparse input, and the dims that index it by axis, except at extent 1."""
    between = () if md_hom.epilogue is None else md_hom.epilogue.view
    found = [access for access in (*md_hom.inp_view, *between) if access.buffer == buffer]
    if len(found) != 1 or found[0] in between:
        raise TranslationError("a sparse operand is an operand of the function", hint=_DENSE)
    spec, extents = md_hom.inputs[buffer].spec, md_hom.extents
    walked: dict[str, int] = {}
    for axis, index in enumerate(found[0].index):
        if spec.shape[axis] == 1 and not index.dims:
            continue
        name = index.dims[0] if index.dims else ""
        is_whole = index == AffineIndex.of(name) and extents[name] == spec.shape[axis]
        if not is_whole or name in walked:
            raise TranslationError(
                f"index {index!r} of a sparse operand is no dim of its own", hint=_DENSE
            )
        walked[name] = axis
    return found[0], walked


def _combined(md_hom: MDHom, walked: Collection[str]) -> tuple[str | None, Pointwise]:
    """The kept dim of a sparse operand (None without one), and the reduction of the others."""
    kept = [d.name for d in md_hom.dims if d.name in walked and isinstance(d.combine, Concat)]
    reducing = [dim.combine for dim in md_hom.dims if isinstance(dim.combine, Pointwise)]
    if any(isinstance(dim.combine, PrefixSum) for dim in md_hom.dims):
        raise TranslationError("sparse operands are not scanned", hint=_DENSE)
    if not reducing:
        raise TranslationError("all dims of a sparse operand remain in the result", hint=_DENSE)
    if len(kept) > 1:
        raise TranslationError(
            f"dims {', '.join(map(repr, kept))} of a sparse operand remain in the result",
            hint=f"one of them may; {_DENSE}",
        )
    if len(md_hom.operators) > 1:
        raise TranslationError(
            f"a sparse operand is combined by one operator, not by {md_hom.operators}",
            hint="reduce the result of one by the next",
        )
    operator = reducing[0].op
    if operator.identity is None or not operator.commutative:
        lack = "has no identity" if operator.identity is None else "minds the order of elements"
        raise TranslationError(
            f"operator {operator!r} {lack}, and elements that are not stored give nothing",
            hint="mdtensor.operator(identity=…, commutative=True) declares both",
        )
    return (kept[0] if kept else None), reducing[0]


def _dims(md_hom: MDHom, along: Dim, gone: Collection[str]) -> tuple[Dim, ...]:
    """The dims with `along` in place of the first removed one."""
    first = next((n for n, dim in enumerate(md_hom.dims) if dim.name in gone), len(md_hom.dims))
    before, behind = md_hom.dims[:first], md_hom.dims[first:]
    return (*before, along, *(dim for dim in behind if dim.name not in gone))
