"""The formal object at the centre: `md_hom(f, (⊗1, …, ⊗D))` with its views.

Definitions: 002, section 4.2.2, Definition 4 (`md_hom`), section 4.2.3 (views), Figure 12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mdtensor.errors import TranslationError
from mdtensor.translate.combine import Combine, Concat, Operator, Pointwise
from mdtensor.translate.scalar import Expr, ScalarFunction, index_of
from mdtensor.translate.views import Access, Buffer


@dataclass(frozen=True, slots=True)
class Dim:
    """A dim of the index space: its name, its extent, and the operator that combines along it."""

    name: str
    extent: int
    combine: Combine

    def __repr__(self) -> str:
        return f"{self.name}:{self.extent}"


@dataclass(frozen=True, slots=True)
class MDHom:
    """A multi-dimensional homomorphism with its views.

    For every point of the index space `dims`, the elements that `inp_view` reads go through
    `scalar`; along each dim the results are combined by its operator; what remains is written
    through `out_view`, whose access number n takes element n of the result tuple.

    Raises TranslationError where a view leaves its buffer, an output is written twice, or the
    types do not fit.

    >>> from mdtensor.translate.md_hom_from_einsum import md_hom_from_einsum
    >>> from mdtensor.specs import TensorSpec
    >>> md_hom_from_einsum("ij,jk->ik", (TensorSpec.of((64, 32)), TensorSpec.of((32, 128))))
    md_hom[i:64, j:32, k:128](mul, (cc, pw(add), cc))
    """

    dims: tuple[Dim, ...]
    scalar: ScalarFunction
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    inp_view: tuple[Access, ...]
    out_view: tuple[Access, ...]

    def __post_init__(self) -> None:
        _check_names(self)
        _check_types(self)
        _check_views(self)

    @property
    def extents(self) -> dict[str, int]:
        """Extent of every dim by name."""
        return {dim.name: dim.extent for dim in self.dims}

    @property
    def kept(self) -> tuple[Dim, ...]:
        """The dims that remain in the result: concatenated ones and prefix sums."""
        return tuple(dim for dim in self.dims if _stays(dim))

    @property
    def reduced(self) -> tuple[Dim, ...]:
        """The dims that are combined point-wise and vanish."""
        return tuple(dim for dim in self.dims if not _stays(dim))

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The distinct operators of the dims, in the order of the dims."""
        found = (dim.combine.op for dim in self.dims if not isinstance(dim.combine, Concat))
        return tuple(dict.fromkeys(found))

    @property
    def points(self) -> int:
        """Number of points of the index space."""
        return math.prod(dim.extent for dim in self.dims)

    def canonical(self) -> MDHom:
        """The same computation with dims numbered by first use and buffers by position.

        `ij,jk->ik` and `ab,bc->ac` have one canonical form, so they meet in one cache row.
        """
        order = [name for access in (*self.inp_view, *self.out_view) for name in access.dims]
        order += [dim.name for dim in self.dims]
        names = {name: f"d{n}" for n, name in enumerate(dict.fromkeys(order))}
        by_name = {dim.name: dim for dim in self.dims}
        scalar = replace(
            self.scalar, results=tuple(_renamed(expr, names) for expr in self.scalar.results)
        )
        return MDHom(
            tuple(replace(by_name[old], name=new) for old, new in names.items()),
            scalar,
            tuple(replace(buffer, name=f"I{n}") for n, buffer in enumerate(self.inputs)),
            tuple(replace(buffer, name=f"O{n}") for n, buffer in enumerate(self.outputs)),
            tuple(access.renamed(names) for access in self.inp_view),
            tuple(access.renamed(names) for access in self.out_view),
        )

    def describe(self) -> str:
        """The whole definition in the words of the theory, on three lines."""

        def view(buffers: tuple[Buffer, ...], accesses: tuple[Access, ...]) -> str:
            dims = ", ".join(dim.name for dim in self.dims)
            parts = [
                f"{buffer!r} ({dims}) -> "
                + ", ".join(repr(access) for access in accesses if access.buffer == number)
                for number, buffer in enumerate(buffers)
            ]
            return "; ".join(parts)

        return (
            f"out_view({view(self.outputs, self.out_view)})\n"
            f"{self!r}\n"
            f"inp_view({view(self.inputs, self.inp_view)})"
        )

    def __repr__(self) -> str:
        dims = ", ".join(map(repr, self.dims))
        combines = ", ".join(repr(dim.combine) for dim in self.dims)
        return f"md_hom[{dims}]({self.scalar!r}, ({combines}))"


def _stays(dim: Dim) -> bool:
    return not isinstance(dim.combine, Pointwise)


def _renamed(expr: Expr, names: dict[str, str]) -> Expr:
    if expr.op == "index":
        assert isinstance(expr.value, str)
        return index_of(names[expr.value])
    return Expr(expr.op, tuple(_renamed(a, names) for a in expr.args), expr.dtype, expr.value)


def _check_names(md_hom: MDHom) -> None:
    names = [dim.name for dim in md_hom.dims]
    if len(set(names)) != len(names):
        raise TranslationError(f"dims {names} repeat a name")
    for dim in md_hom.dims:
        if dim.extent < 0:
            raise TranslationError(f"dim {dim.name!r} has extent {dim.extent}")
    for access in (*md_hom.inp_view, *md_hom.out_view):
        for name in access.dims:
            if name not in names:
                raise TranslationError(
                    f"a view uses dim {name!r}, which is none of {', '.join(names)}"
                )


def _check_types(md_hom: MDHom) -> None:
    accessed = tuple(md_hom.inputs[a.buffer].spec.dtype for a in md_hom.inp_view)
    if accessed != md_hom.scalar.params:
        raise TranslationError(
            f"the scalar function takes {_types(md_hom.scalar.params)} but the input view reads"
            f" {_types(accessed)}"
        )
    results = md_hom.scalar.result_dtypes
    if len(results) != len(md_hom.out_view):
        raise TranslationError(
            f"the scalar function returns {len(results)} values but the output view writes"
            f" {len(md_hom.out_view)}"
        )
    for op in md_hom.operators:
        if op.dtypes != results:
            raise TranslationError(
                f"operator {op!r} combines {_types(op.dtypes)} but the scalar function returns"
                f" {_types(results)}"
            )


def _types(dtypes: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, dtypes))})"


def _check_views(md_hom: MDHom) -> None:
    extents = md_hom.extents
    empty = any(extent == 0 for extent in extents.values())
    sides = ((md_hom.inputs, md_hom.inp_view), (md_hom.outputs, md_hom.out_view))
    for buffers, accesses in sides:
        for access in accesses:
            buffer = buffers[access.buffer]
            if len(access.index) != len(buffer.spec.shape):
                raise TranslationError(
                    f"access {access!r} has {len(access.index)} indices for buffer {buffer!r}"
                )
            for axis, (index, extent) in enumerate(
                zip(access.index, buffer.spec.shape, strict=True)
            ):
                low, high = index.bounds(extents)
                if not empty and (low < 0 or high >= extent):
                    raise TranslationError(
                        f"index {index!r} of buffer {buffer.name!r} runs from {low} to {high}, but"
                        f" axis {axis} has extent {extent}",
                        notes=[f"access {access!r} of {buffer!r}"],
                        hint="shrink the dims' extents or pad the buffer",
                    )
    reduced = {dim.name for dim in md_hom.reduced}
    kept = {dim.name for dim in md_hom.kept}
    for access in md_hom.out_view:
        if used := reduced.intersection(access.dims):
            raise TranslationError(
                f"the output view {access!r} uses {sorted(used)}, which point-wise combination"
                " reduces"
            )
        if missing := {n for n in kept.difference(access.dims) if extents[n] > 1}:
            raise TranslationError(
                f"the output view {access!r} lacks {sorted(missing)}: several elements would be"
                " written to one place"
            )
