"""From a stencil, a function of the elements around a point, to `md_hom`s.

The inside of the result, where every element exists, is one affine `md_hom`. The border is cut
into blocks, by the axes along which a point lies near an end; each block is an `md_hom` of its
own, which computes its indices. So the inside pays nothing for the border.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, ShapeError, TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.scalar import Expr, cast, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.stencils.borders import (
    Border,
    BorderStrips,
    Inside,
    Part,
    WholeAxis,
    outside,
)
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex


@dataclass(frozen=True, slots=True)
class Stencil:
    """A scalar function of neighbours of a point, optionally reduced over a window.

    The indices of `reads` are functions of the dims of the window; on the inputs `fields`, which
    all have the result's shape, they count from the point. `scalar.params` are the types in which
    the elements are taken: buffers of other types are converted, and so is what lies outside.
    """

    shape: tuple[int, ...]
    scalar: ScalarFunction
    inputs: tuple[BufferSpec, ...]
    fields: frozenset[int]
    reads: tuple[BufferAccess, ...]
    window: tuple[Dim, ...] = ()
    epilogue: Epilogue | None = None

    @property
    def reach(self) -> tuple[tuple[int, int], ...]:
        """Per axis, the smallest (at most 0) and largest (at least 0) relative index read."""
        extents = {dim.name: dim.extent for dim in self.window}
        bounds = [
            [_affine(axis).bounds(extents) for axis in read.index]
            for read in self.reads
            if read.buffer in self.fields
        ]
        return tuple(
            (
                min([0, *(read[axis][0] for read in bounds)]),
                max([0, *(read[axis][1] for read in bounds)]),
            )
            for axis in range(len(self.shape))
        )

    @property
    def written_dtypes(self) -> tuple[np.dtype, ...]:
        """Types of the results."""
        last = self.scalar if self.epilogue is None else self.epilogue.function
        return last.result_dtypes


def result_shape(stencil: Stencil, border: Border) -> tuple[int, ...]:
    """The shape of the results: the fields' shape, smaller for `valid`.

    Raises ShapeError where nothing would be left.
    """
    if border.mode != "valid":
        return stencil.shape
    spans = [high - low + 1 for low, high in stencil.reach]
    for axis, (extent, span) in enumerate(zip(stencil.shape, spans, strict=True)):
        if extent < span:
            raise ShapeError(
                f"the stencil spans {span} elements along axis {axis}, which has {extent}",
                hint="another border than 'valid' gives a result of the array's shape",
            )
    return tuple(n - span + 1 for n, span in zip(stencil.shape, spans, strict=True))


def md_homs_from_stencil(
    stencil: Stencil, border: Border, outputs: Sequence[TensorSpec] | None = None
) -> tuple[MDHom, ...]:
    """The `md_hom`s of the whole result: the inside first, then border blocks.

    All have the stencil's inputs, and one output for each result, by default of its type and in C
    order. Where the inside is not more than half of the result, one `md_hom` computes all.

    With `fixed`, the blocks take over what arrays have there.

    Raises ShapeError where `valid` leaves nothing; TranslationError or DTypeError where `fixed`
    finds no array, or one of another kind, in the place of a result.

    >>> u = TensorSpec.of((100, 100))
    >>> from mdtensor.translate.stencils.stencil_from_function import stencil_from_function
    >>> mean = stencil_from_function(lambda u: (u[0, -1] + u[0, 1]) / 2, [u])
    >>> for md_hom in md_homs_from_stencil(mean, Border("nearest")):
    ...     print(md_hom)
    md_hom[i0:100, i1:98](f, (cc, cc))
    md_hom[i0:100, s1:2, i1:1](f, (cc, cc, cc))
    """
    shape = result_shape(stencil, border)
    if outputs is None:
        outputs = [TensorSpec.of(shape, dtype) for dtype in stencil.written_dtypes]
    if border.mode == "fixed":
        kept = _kept(stencil)
        inside, *ends = _fixed_blocks(stencil)
        computed = _md_hom(stencil, border, inside, outputs)
        unchanged = (_md_hom(kept, border, block, outputs) for block in ends)
        return tuple(m for m in (computed, *unchanged) if m.points) or (computed,)
    return tuple(
        _md_hom(stencil, border, block, outputs) for block in _blocks(stencil, border, shape)
    )


def _blocks(stencil: Stencil, border: Border, shape: Sequence[int]) -> list[tuple[Part, ...]]:
    """The blocks of the result: one part of every axis each."""
    if border.mode == "valid":
        starts = (-low for low, _ in stencil.reach)
        return [tuple(Inside(s, n, 0) for s, n in zip(starts, shape, strict=True))]
    widths = [max(-low, high) for low, high in stencil.reach]
    inside = math.prod(max(0, n - 2 * w) for n, w in zip(shape, widths, strict=True))
    if 2 * inside <= math.prod(shape):
        return [tuple(WholeAxis(n) for n in shape)]
    parts = [
        [Inside(w, n - 2 * w, w), *([BorderStrips(w, n)] if w else [])]
        for n, w in zip(shape, widths, strict=True)
    ]
    return list(itertools.product(*parts))


def _fixed_blocks(stencil: Stencil) -> list[tuple[Part, ...]]:
    """The inside block, then the disjoint blocks of the ends of every axis.

    The blocks of an axis lie between the ends of those before it.
    """
    within: list[Part] = []
    ends: list[list[Part]] = []
    for extent, (low, high) in zip(stencil.shape, stencil.reach, strict=True):
        before, after = min(-low, extent), min(high, max(0, extent + low))
        within.append(Inside(before, extent - before - after, before))
        if before == after:
            ends.append([BorderStrips(before, extent)] if before else [])
            continue
        pairs = ((0, before), (extent - after, after))
        ends.append([Inside(start, width, start) for start, width in pairs if width])
    whole = [Inside(0, extent, 0) for extent in stencil.shape]
    blocks = [
        (*within[:axis], part, *whole[axis + 1 :]) for axis, p in enumerate(ends) for part in p
    ]
    return [tuple(within), *blocks]


def _kept(stencil: Stencil) -> Stencil:
    """The stencil that copies the first fields to the results, for fixed borders."""
    results = stencil.written_dtypes
    fields = sorted(stencil.fields)[: len(results)]
    if len(fields) < len(results):
        raise TranslationError(
            f"a stencil with a fixed border returns {len(results)} values, more than it has arrays",
            hint="a result keeps the border of the array in its place",
        )
    here = (AffineIndex.of(),) * len(stencil.shape)
    types = tuple(stencil.inputs[field].spec.dtype for field in fields)
    for given, wanted in zip(types, results, strict=True):
        if not np.can_cast(given, wanted, "same_kind"):
            raise DTypeError(
                f"a fixed border keeps elements of {given}, which do not go into {wanted}",
                hint="convert the array, or the values that the stencil returns",
            )
    pairs = enumerate(zip(types, results, strict=True))
    elements = tuple(cast(param(n, given), wanted) for n, (given, wanted) in pairs)
    return Stencil(
        stencil.shape,
        ScalarFunction(types, elements, "kept"),
        stencil.inputs,
        stencil.fields,
        tuple(BufferAccess(field, here) for field in fields),
    )


def _md_hom(
    stencil: Stencil, border: Border, block: Sequence[Part], outputs: Sequence[TensorSpec]
) -> MDHom:
    extents = {dim.name: dim.extent for dim in stencil.window}
    view: list[BufferAccess] = []
    elements: list[Expr] = []
    for number, (read, taken) in enumerate(zip(stencil.reads, stencil.scalar.params, strict=True)):
        element = cast(param(number, stencil.inputs[read.buffer].spec.dtype), taken)
        if read.buffer in stencil.fields:
            access, inside = _placed(read, border, block, extents)
            if inside is not None:
                element = select(inside, element, outside(border, taken))
            view.append(access)
        else:
            view.append(read)
        elements.append(element)
    types = [stencil.inputs[read.buffer].spec.dtype for read in view]
    dims = [dim for axis, part in enumerate(block) for dim in part.dims(axis)]
    written = tuple(part.written(axis) for axis, part in enumerate(block))
    return MDHom(
        (*dims, *stencil.window),
        stencil.scalar.after(types, elements),
        stencil.inputs,
        tuple(BufferSpec(f"v{n}", spec) for n, spec in enumerate(outputs)),
        tuple(view),
        tuple(BufferAccess(n, written) for n in range(len(outputs))),
        stencil.epilogue,
    )


def _placed(
    read: BufferAccess, border: Border, block: Sequence[Part], extents: Mapping[str, int]
) -> tuple[BufferAccess, Expr | None]:
    """The access at a point of a block, and the condition under which its element exists."""
    inside: Expr | None = None
    index: list[AffineIndex | ComputedIndex] = []
    for axis, (part, relative) in enumerate(zip(block, map(_affine, read.index), strict=True)):
        place, here = part.index(axis, relative, border, relative.bounds(extents))
        index.append(place)
        if here is not None:
            inside = here if inside is None else inside & here
    return BufferAccess(read.buffer, tuple(index)), inside


def _affine(index: AffineIndex | ComputedIndex) -> AffineIndex:
    assert isinstance(index, AffineIndex), "a stencil's reads are affine"
    return index
