"""From a stencil, a function of the elements around a point, to `md_hom`s.

The inside of the result, where every element exists, is one affine `md_hom`. The border is cut
into blocks, by the axes along which a point lies near an end; each block is an `md_hom` of its
own, which computes its indices. So the inside pays nothing for the border.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mdtensor.errors import DTypeError, ShapeError, TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.python_source import traced
from mdtensor.translate.scalar import (
    Expr,
    Number,
    ScalarFunction,
    apply,
    as_expr,
    cast,
    const,
    index_of,
    param,
    params_in,
    select,
    substitute,
)
from mdtensor.translate.views import Access, AffineIndex, Buffer, ComputedIndex

MODES = ("valid", "constant", "nearest", "reflect", "mirror", "wrap")


@dataclass(frozen=True, slots=True)
class Border:
    """What lies outside of an array, in the words of scipy.ndimage; `cval` is for `constant`.

    With a, b, c, d in the array: `nearest` a a | a b c d | d d, `reflect` b a | a b c d | d c,
    `mirror` c b | a b c d | c b, `wrap` c d | a b c d | a b. With `valid` nothing lies there, and
    the result is smaller.

    Raises TranslationError for other words.
    """

    mode: str
    cval: Number = 0.0

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise TranslationError(
                f"unknown border {self.mode!r}", hint=f"one of {', '.join(MODES)}"
            )


@dataclass(frozen=True, slots=True)
class Stencil:
    """A scalar function of elements around a point, perhaps combined over the dims of a window.

    The indices of `reads` are functions of the dims of the window; on the inputs `fields`, which
    all have the result's shape, they count from the point. `scalar.params` are the types in which
    the elements are taken: buffers of other types are converted, and so is what lies outside.
    """

    shape: tuple[int, ...]
    scalar: ScalarFunction
    inputs: tuple[Buffer, ...]
    fields: frozenset[int]
    reads: tuple[Access, ...]
    window: tuple[Dim, ...] = ()
    epilogue: Epilogue | None = None

    @property
    def reach(self) -> tuple[tuple[int, int], ...]:
        """For each axis, how far below (at most 0) and above (at least 0) elements are read."""
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
    """The shape of the results: that of the fields, less what `valid` takes.

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
    """The `md_hom`s that write the whole result: the inside first, then the blocks of the border.

    All have the stencil's inputs, and one output for each result, by default of its type and in C
    order. Where the inside is not more than half of the result, one `md_hom` computes all.

    Raises ShapeError where `valid` leaves nothing.

    >>> u = TensorSpec.of((100, 100))
    >>> mean = stencil_from_function(lambda u: (u[0, -1] + u[0, 1]) / 2, [u])
    >>> for md_hom in md_homs_from_stencil(mean, Border("nearest")):
    ...     print(md_hom)
    md_hom[i0:100, i1:98](f, (cc, cc))
    md_hom[i0:100, s1:2, i1:1](f, (cc, cc, cc))
    """
    shape = result_shape(stencil, border)
    if outputs is None:
        outputs = [TensorSpec.of(shape, dtype) for dtype in stencil.written_dtypes]
    return tuple(
        _md_hom(stencil, border, block, outputs) for block in _blocks(stencil, border, shape)
    )


def stencil_from_function(
    function: Callable[..., object], arguments: Sequence[TensorSpec | Number]
) -> Stencil:
    """The stencil of a function whose arrays are read at relative indices.

    Specs are arrays, all of one shape, or, without axes, single elements; numbers are constants.
    The function returns one value or a tuple of several.

    Raises ShapeError where the arrays' shapes differ, TranslationError for a wrong index.
    """
    shape = _common_shape(arguments)
    reads: dict[Access, Expr] = {}
    inputs: list[Buffer] = []
    fields: set[int] = set()
    symbols: list[object] = []
    for position, argument in enumerate(arguments):
        if not isinstance(argument, TensorSpec):
            symbols.append(argument)
            continue
        number = len(inputs)
        inputs.append(Buffer(f"u{position}", argument))
        if argument.shape:
            fields.add(number)
            symbols.append(Field(number, argument, reads))
        else:
            symbols.append(_read(reads, Access(number, ()), argument.dtype))
    returned = traced(function, *symbols)
    listed: tuple[Any, ...] = returned if isinstance(returned, tuple) else (returned,)  # pyright: ignore[reportUnknownVariableType]
    results = tuple(map(_as_expr, listed))
    used = sorted({n for result in results for n in params_in(result)})
    return Stencil(
        shape,
        _only(used, [expr.dtype for expr in reads.values()], results),
        tuple(inputs),
        frozenset(fields),
        tuple(list(reads)[n] for n in used),
    )


@dataclass(frozen=True, slots=True)
class Field:
    """An array as a stencil function sees it: `u[-1, 0]` is the element above the point."""

    buffer: int
    spec: TensorSpec
    reads: dict[Access, Expr] = field(repr=False)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.spec.shape)

    @property
    def dtype(self) -> np.dtype:
        """Type of an element."""
        return self.spec.dtype

    def __getitem__(self, index: object) -> Expr:
        offsets: tuple[Any, ...] = index if isinstance(index, tuple) else (index,)  # pyright: ignore
        try:
            whole = [operator.index(offset) for offset in offsets]
        except TypeError:
            raise TranslationError(
                f"a stencil reads at {index!r}, which is no relative index",
                hint="whole numbers, one for each axis: u[-1, 0] is the element above the point",
            ) from None
        if len(whole) != self.ndim:
            raise TranslationError(
                f"a stencil reads at {len(whole)} indices from an array of {self.ndim} axes",
                hint=f"u[{', '.join(['0'] * self.ndim)}] is the point itself",
            )
        place = tuple(AffineIndex.of(offset=offset) for offset in whole)
        return _read(self.reads, Access(self.buffer, place), self.spec.dtype)


def _read(reads: dict[Access, Expr], access: Access, dtype: np.dtype) -> Expr:
    return reads.setdefault(access, param(len(reads), dtype))


def _common_shape(arguments: Sequence[TensorSpec | Number]) -> tuple[int, ...]:
    shapes = [a.shape for a in arguments if isinstance(a, TensorSpec) and a.shape]
    if not shapes:
        raise ShapeError("a stencil needs an array with at least one axis")
    if len(set(shapes)) > 1:
        raise ShapeError(
            f"the arrays of a stencil have shapes {', '.join(map(str, shapes))}",
            hint="all have one shape; np.broadcast_to stretches the smaller ones",
        )
    return shapes[0]


def _as_expr(value: object) -> Expr:
    try:
        expr = as_expr(value)
    except TranslationError:
        raise TranslationError(
            f"a stencil returns {value!r}",
            hint="return an expression of elements such as u[0, 0], or a tuple of several",
        ) from None
    return cast(expr, expr.dtype)


def _only(
    used: Sequence[int], types: Sequence[np.dtype], results: Sequence[Expr]
) -> ScalarFunction:
    """The scalar function of the parameters that are used."""
    renumbered = [param(used.index(n) if n in used else 0, dtype) for n, dtype in enumerate(types)]
    return ScalarFunction(
        tuple(types[n] for n in used),
        tuple(substitute(result, renumbered) for result in results),
    )


def _affine(index: AffineIndex | ComputedIndex) -> AffineIndex:
    assert isinstance(index, AffineIndex), "a stencil's reads are affine"
    return index


@dataclass(frozen=True, slots=True)
class _Inside:
    """Points from `start` on along an axis, all of whose neighbours exist."""

    start: int
    extent: int
    written_from: int

    def dims(self, axis: int) -> tuple[Dim, ...]:
        return (Dim(f"i{axis}", self.extent, CC),)

    def written(self, axis: int) -> AffineIndex:
        return AffineIndex.of(f"i{axis}", offset=self.written_from)

    def index(
        self, axis: int, relative: AffineIndex, border: Border, reach: tuple[int, int]
    ) -> tuple[AffineIndex | ComputedIndex, Expr | None]:
        terms = ((f"i{axis}", 1), *relative.coefficients)
        return AffineIndex(terms, self.start + relative.offset), None


@dataclass(frozen=True, slots=True)
class _Sides:
    """The first and the last `width` points of an axis, as two dims: which end, and which point.

    Indices count from the nearer end, below zero from the upper one as computed indices do, so
    that no expression holds the extent: one kernel serves all shapes.
    """

    width: int
    extent: int

    def dims(self, axis: int) -> tuple[Dim, ...]:
        return Dim(f"s{axis}", 2, CC), Dim(f"i{axis}", self.width, CC)

    def written(self, axis: int) -> AffineIndex:
        return AffineIndex(((f"s{axis}", self.extent - self.width), (f"i{axis}", 1)))

    def index(
        self, axis: int, relative: AffineIndex, border: Border, reach: tuple[int, int]
    ) -> tuple[AffineIndex | ComputedIndex, Expr | None]:
        if reach == (0, 0):
            written = self.written(axis)
            return AffineIndex((*written.coefficients, *relative.coefficients)), None
        side = index_of(f"s{axis}")
        place = _place(axis, relative) - (side if self.width == 1 else self.width * side)
        at_low = side < 1
        if border.mode == "wrap":
            return ComputedIndex(place), None
        if border.mode == "constant":
            return ComputedIndex(place), select(at_low, place >= 0, place < 0)
        low, high = {
            "nearest": (const(0, np.int64), const(-1, np.int64)),
            "reflect": (-1 - place, -1 - place),
            "mirror": (-place, -2 - place),
        }[border.mode]
        within = select(at_low, apply("max", place, low), apply("min", place, high))
        return ComputedIndex(within), None


@dataclass(frozen=True, slots=True)
class _Whole:
    """All points of an axis that may be shorter than the neighbourhood."""

    extent: int

    def dims(self, axis: int) -> tuple[Dim, ...]:
        return (Dim(f"i{axis}", self.extent, CC),)

    def written(self, axis: int) -> AffineIndex:
        return AffineIndex.of(f"i{axis}")

    def index(
        self, axis: int, relative: AffineIndex, border: Border, reach: tuple[int, int]
    ) -> tuple[AffineIndex | ComputedIndex, Expr | None]:
        if reach == (0, 0):
            return AffineIndex(((f"i{axis}", 1), *relative.coefficients)), None
        place, last = _place(axis, relative), self.extent - 1
        if border.mode in ("nearest", "constant"):
            within = apply("min", apply("max", place, 0), last)
            if border.mode == "nearest":
                return ComputedIndex(within), None
            return ComputedIndex(within), (place >= 0) & (place <= last)
        if border.mode == "wrap":
            return ComputedIndex(apply("mod", place, self.extent)), None
        # The array and its mirror image, again and again; `mirror` shares the elements at the ends.
        end = 2 * last + 1 if border.mode == "reflect" else 2 * last
        period = max(1, 2 * self.extent if border.mode == "reflect" else 2 * last)
        there = apply("mod", place, period)
        return ComputedIndex(apply("min", there, end - there)), None


_Part = _Inside | _Sides | _Whole


def _place(axis: int, relative: AffineIndex) -> Expr:
    """The index that a relative one leads to from the point of a dim."""
    place = index_of(f"i{axis}")
    for dim, coefficient in relative.coefficients:
        place = place + coefficient * index_of(dim)
    return place + relative.offset if relative.offset else place


def _blocks(stencil: Stencil, border: Border, shape: Sequence[int]) -> list[tuple[_Part, ...]]:
    """The blocks that the result is computed in: a part of every axis each."""
    if border.mode == "valid":
        starts = (-low for low, _ in stencil.reach)
        return [tuple(_Inside(s, n, 0) for s, n in zip(starts, shape, strict=True))]
    widths = [max(-low, high) for low, high in stencil.reach]
    inside = math.prod(max(0, n - 2 * w) for n, w in zip(shape, widths, strict=True))
    if 2 * inside <= math.prod(shape):
        return [tuple(_Whole(n) for n in shape)]
    parts = [
        [_Inside(w, n - 2 * w, w), *([_Sides(w, n)] if w else [])]
        for n, w in zip(shape, widths, strict=True)
    ]
    return list(itertools.product(*parts))


def _md_hom(
    stencil: Stencil, border: Border, block: Sequence[_Part], outputs: Sequence[TensorSpec]
) -> MDHom:
    extents = {dim.name: dim.extent for dim in stencil.window}
    view: list[Access] = []
    elements: list[Expr] = []
    for number, (read, taken) in enumerate(zip(stencil.reads, stencil.scalar.params, strict=True)):
        element = cast(param(number, stencil.inputs[read.buffer].spec.dtype), taken)
        if read.buffer in stencil.fields:
            access, inside = _placed(read, border, block, extents)
            if inside is not None:
                element = select(inside, element, _outside(border, taken))
            view.append(access)
        else:
            view.append(read)
        elements.append(element)
    scalar = replace(
        stencil.scalar,
        params=tuple(stencil.inputs[read.buffer].spec.dtype for read in view),
        results=tuple(substitute(result, elements) for result in stencil.scalar.results),
    )
    dims = [dim for axis, part in enumerate(block) for dim in part.dims(axis)]
    written = tuple(part.written(axis) for axis, part in enumerate(block))
    return MDHom(
        (*dims, *stencil.window),
        scalar,
        stencil.inputs,
        tuple(Buffer(f"v{n}", spec) for n, spec in enumerate(outputs)),
        tuple(view),
        tuple(Access(n, written) for n in range(len(outputs))),
        stencil.epilogue,
    )


def _placed(
    read: Access, border: Border, block: Sequence[_Part], extents: Mapping[str, int]
) -> tuple[Access, Expr | None]:
    """The access at a point of a block, and the condition under which its element exists."""
    inside: Expr | None = None
    index: list[AffineIndex | ComputedIndex] = []
    for axis, (part, relative) in enumerate(zip(block, map(_affine, read.index), strict=True)):
        place, here = part.index(axis, relative, border, relative.bounds(extents))
        index.append(place)
        if here is not None:
            inside = here if inside is None else inside & here
    return Access(read.buffer, tuple(index)), inside


def _outside(border: Border, dtype: np.dtype) -> Expr:
    """The value outside of an array, in the type in which its elements are taken."""
    if np.can_cast(np.asarray(border.cval).dtype, dtype, "same_kind"):
        return const(border.cval, dtype)
    value = np.asarray(border.cval).astype(dtype)
    if value != border.cval:
        raise DTypeError(
            f"the border's value {border.cval!r} does not go into {dtype.name}",
            hint="convert the array, or give another cval=",
        )
    return const(value.item(), dtype)
