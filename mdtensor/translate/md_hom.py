"""The formal object `md_hom(f, (⊗1, …, ⊗D))` with its views.

Definitions: 002, section 4.2.2, Definition 4 (`md_hom`), section 4.2.3 (views), Figure 12.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.translate.combine import Combine, Concat, Operator, Pointwise
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import dims_in, renaming
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec


@dataclass(frozen=True, slots=True)
class Dim:
    """A dim of the index space: name, extent and combine operator."""

    name: str
    extent: int
    combine: Combine

    def __repr__(self) -> str:
        return f"{self.name}:{self.extent}"


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A scalar function applied once to every finished result tuple.

    Its parameters are the elements of the tuple, then the elements of input buffers that `view`
    reads; the accesses of `view` are affine, on dims that remain in the result.
    """

    function: ScalarFunction
    view: tuple[BufferAccess, ...] = ()


@dataclass(frozen=True, slots=True)
class MDHom:
    """A multi-dimensional homomorphism with its views.

    For every point of the index space `dims`, the elements that `inp_view` reads go through
    `scalar`; along each dim the results are combined by its operator; what remains goes through
    the `epilogue`, if there is one, and is written through `out_view`, whose access number n takes
    element n of the tuple.

    Raises TranslationError where a view leaves its buffer, an output is written twice, or the
    types do not fit.

    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> from mdtensor.specs import TensorSpec
    >>> md_hom_from_einsum("ij,jk->ik", (TensorSpec.of((64, 32)), TensorSpec.of((32, 128))))
    md_hom[i:64, j:32, k:128](mul, (cc, pw(add), cc))
    """

    dims: tuple[Dim, ...]
    scalar: ScalarFunction
    inputs: tuple[BufferSpec, ...]
    outputs: tuple[BufferSpec, ...]
    inp_view: tuple[BufferAccess, ...]
    out_view: tuple[BufferAccess, ...]
    epilogue: Epilogue | None = None

    def __hash__(self) -> int:
        # An `md_hom` is looked up in every first call; few are alike in these.
        extents = [(dim.name, dim.extent) for dim in self.dims]
        return hash((self.scalar.digest, *extents, *[buffer.spec for buffer in self.inputs]))

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
        """The dims that point-wise combination reduces."""
        return tuple(dim for dim in self.dims if not _stays(dim))

    @property
    def accesses(self) -> tuple[BufferAccess, ...]:
        """All accesses: of the input view, of the epilogue, of the output view."""
        between = () if self.epilogue is None else self.epilogue.view
        return (*self.inp_view, *between, *self.out_view)

    @property
    def written_dtypes(self) -> tuple[np.dtype, ...]:
        """Element types of the results, after the epilogue."""
        last = self.scalar if self.epilogue is None else self.epilogue.function
        return last.result_dtypes

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The distinct operators of the dims, in the order of the dims."""
        found: list[Operator] = []
        for dim in self.dims:
            if not isinstance(dim.combine, Concat) and dim.combine.op not in found:
                found.append(dim.combine.op)
        return tuple(found)

    @property
    def points(self) -> int:
        """Number of points of the index space."""
        return math.prod(dim.extent for dim in self.dims)

    def canonical(self) -> MDHom:
        """The canonical form: dims numbered by first use, buffers by position.

        `ij,jk->ik` and `ab,bc->ac` have one canonical form, so they meet in one cache row.
        """
        order = [name for access in self.accesses for name in access.dims]
        order += [dim.name for dim in self.dims]
        names = {name: f"d{n}" for n, name in enumerate(dict.fromkeys(order))}
        by_name = {dim.name: dim for dim in self.dims}
        epilogue = self.epilogue
        if epilogue is not None:
            view = tuple(access.renamed(names) for access in epilogue.view)
            epilogue = Epilogue(_renamed(epilogue.function, names), view)
        return MDHom(
            tuple(replace(by_name[old], name=new) for old, new in names.items()),
            _renamed(self.scalar, names),
            tuple(replace(buffer, name=f"I{n}") for n, buffer in enumerate(self.inputs)),
            tuple(replace(buffer, name=f"O{n}") for n, buffer in enumerate(self.outputs)),
            tuple(access.renamed(names) for access in self.inp_view),
            tuple(access.renamed(names) for access in self.out_view),
            epilogue,
        )

    def describe(self) -> str:
        """The whole definition in the notation of the theory, on three lines."""

        def view(buffers: tuple[BufferSpec, ...], accesses: tuple[BufferAccess, ...]) -> str:
            dims = ", ".join(dim.name for dim in self.dims)
            parts = [
                f"{buffer!r} ({dims}) -> "
                + ", ".join(repr(access) for access in accesses if access.buffer == number)
                for number, buffer in enumerate(buffers)
            ]
            return "; ".join(parts)

        after = ""
        if self.epilogue is not None:
            read = view(self.inputs, self.epilogue.view) if self.epilogue.view else ""
            after = f"epilogue({self.epilogue.function!r})({read})\n"
        return (
            f"out_view({view(self.outputs, self.out_view)})\n"
            f"{after}"
            f"{self!r}\n"
            f"inp_view({view(self.inputs, self.inp_view)})"
        )

    def __repr__(self) -> str:
        dims = ", ".join(map(repr, self.dims))
        combines = ", ".join(repr(dim.combine) for dim in self.dims)
        after = "" if self.epilogue is None else f", epilogue {self.epilogue.function!r}"
        return f"md_hom[{dims}]({self.scalar!r}, ({combines}){after})"


def _stays(dim: Dim) -> bool:
    return not isinstance(dim.combine, Pointwise)


def _renamed(function: ScalarFunction, names: dict[str, str]) -> ScalarFunction:
    return function.rewritten(renaming(names))


def _check_names(md_hom: MDHom) -> None:
    names = [dim.name for dim in md_hom.dims]
    if len(set(names)) != len(names):
        raise TranslationError(f"dims {names} repeat a name")
    for dim in md_hom.dims:
        if dim.extent < 0:
            raise TranslationError(f"dim {dim.name!r} has extent {dim.extent}")
    for access in md_hom.accesses:
        for name in access.dims:
            if name not in names:
                raise TranslationError(
                    f"a view uses dim {name!r}, which is none of {', '.join(names)}"
                )


def _check_types(md_hom: MDHom) -> None:
    _check_params("scalar function", md_hom.scalar, _accessed(md_hom, md_hom.inp_view))
    results = md_hom.scalar.result_dtypes
    if md_hom.epilogue is not None:
        read = _accessed(md_hom, md_hom.epilogue.view)
        _check_params("epilogue", md_hom.epilogue.function, (*results, *read))
    if len(md_hom.written_dtypes) != len(md_hom.out_view):
        raise TranslationError(
            f"{len(md_hom.written_dtypes)} values are computed but the output view writes"
            f" {len(md_hom.out_view)}"
        )
    for op in md_hom.operators:
        if op.dtypes != results:
            raise TranslationError(
                f"operator {op!r} combines {_types(op.dtypes)} but the scalar function returns"
                f" {_types(results)}"
            )


def _accessed(md_hom: MDHom, view: tuple[BufferAccess, ...]) -> tuple[np.dtype, ...]:
    return tuple(md_hom.inputs[access.buffer].spec.dtype for access in view)


def _check_params(what: str, function: ScalarFunction, given: tuple[np.dtype, ...]) -> None:
    if given != function.params:
        raise TranslationError(
            f"the {what} takes {_types(function.params)} but is given {_types(given)}"
        )


def _types(dtypes: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, dtypes))})"


def _check_views(md_hom: MDHom) -> None:
    for position, access in enumerate(md_hom.inp_view):
        _check_access(md_hom, md_hom.inputs, access, position)
    kept = {dim.name for dim in md_hom.kept}
    extents = md_hom.extents
    if md_hom.epilogue is not None:
        _check_epilogue(md_hom.epilogue, kept)
        for access in md_hom.epilogue.view:
            _check_access(md_hom, md_hom.inputs, access, 0)
            _check_kept(md_hom, "the epilogue", access)
    for access in md_hom.out_view:
        _check_access(md_hom, md_hom.outputs, access, 0)
        _check_kept(md_hom, "the output view", access)
        if missing := {n for n in kept.difference(access.dims) if extents[n] > 1}:
            raise TranslationError(
                f"the output view {access!r} lacks {sorted(missing)}: several elements would be"
                " written to one place"
            )


def _check_epilogue(epilogue: Epilogue, kept: set[str]) -> None:
    used = {dim for result in epilogue.function.results for dim in dims_in(result)}
    if gone := sorted(used - kept):
        raise TranslationError(f"the epilogue takes the indices {gone}, which are combined before")


def _check_kept(md_hom: MDHom, what: str, access: BufferAccess) -> None:
    reduced = {dim.name for dim in md_hom.reduced}
    if not access.is_affine:
        raise TranslationError(f"{what} {access!r} computes an index; only input views can")
    if used := reduced.intersection(access.dims):
        raise TranslationError(
            f"{what} {access!r} uses {sorted(used)}, which point-wise combination reduces"
        )


def _check_access(
    md_hom: MDHom, buffers: tuple[BufferSpec, ...], access: BufferAccess, position: int
) -> None:
    """Checks one access; computed indices take elements of accesses before `position`."""
    extents = md_hom.extents
    buffer = buffers[access.buffer]
    shape = buffer.spec.shape
    if len(access.index) != len(shape):
        raise TranslationError(
            f"access {access!r} has {len(access.index)} indices for buffer {buffer!r}"
        )
    if late := [n for n in access.elements if n >= position]:
        raise TranslationError(
            f"access {access!r} is computed from elements {late}, which are not read before it"
        )
    empty = any(extent == 0 for extent in extents.values())
    for axis, (index, extent) in enumerate(zip(access.index, shape, strict=True)):
        if not isinstance(index, AffineIndex):
            if not empty and extent == 0:
                raise TranslationError(f"access {access!r} reads from {buffer!r}, which is empty")
            continue
        low, high = index.bounds(extents)
        if not empty and (low < 0 or high >= extent):
            raise TranslationError(
                f"index {index!r} of buffer {buffer.name!r} runs from {low} to {high}, but"
                f" axis {axis} has extent {extent}",
                notes=[f"access {access!r} of {buffer!r}"],
                hint="shrink the dims' extents or pad the buffer",
            )
