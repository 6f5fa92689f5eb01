"""Convolutions as `md_hom`s: sums of products over taps and channels.

Definitions: 002, section 4.2.4, Figure 20, subfigure 2 (MCC and MCC_Capsule).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product as combinations

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Combine, Pointwise, named
from mdtensor.translate.convolutions.convolution_axes import (
    AxisPart,
    SpatialAxis,
    exact_runs,
    guarded_runs,
)
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.program_builder import ProgramBuilder
from mdtensor.translate.scalar import Expr, const, index_of, select
from mdtensor.translate.scalar_function import ScalarFunction, product
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex

# Products per element of a padded copy that are worth the copy: of all windows, and of those at
# borders, whose blocks have few neighbouring points (docs/adr/0079-what-runs-once-is-evaluated.md).
WORTH_COPY, WORTH_COPY_OF_BORDERS = 200, 1
# Borders with taps of their own are worth as many times the blocks that guarded borders take.
WORTH_BLOCKS = 2

Term = AffineIndex | int


@dataclass(frozen=True, slots=True)
class ConvolutionOperand:
    """An array of a convolution: its spec, and an index or a spatial axis' number per axis."""

    spec: TensorSpec
    index: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution along `axes`, on operands of any layout.

    `kept` and `summed` are the other dims and their extents: batch, groups, channels. The product
    of an element of the image and one of the filter has the type `accumulated`, as their sum has;
    hardware may round such factors in float32 to a `precision`.
    `finish` is applied to every sum and the elements of `extras`, which are indexed as the result
    is.
    """

    axes: tuple[SpatialAxis, ...]
    kept: tuple[tuple[str, int], ...]
    summed: tuple[tuple[str, int], ...]
    image: ConvolutionOperand
    filter: ConvolutionOperand
    result: ConvolutionOperand
    accumulated: np.dtype
    finish: ScalarFunction | None = None
    extras: tuple[ConvolutionOperand, ...] = ()
    precision: str | None = None

    def whole(self) -> MDHom | None:
        """One guarded `md_hom` of the whole; None for several phases or an empty image."""
        wholes = _wholes(self)
        if len(wholes) != 1 or not self.image.spec.nbytes:
            return None
        return _md_hom(self, *wholes)

    def affine(self) -> Program:
        """A program with affine indices only, on a zero-padded copy of the image."""
        return on_padded_copy(self)

    def on(self, specs: Sequence[TensorSpec]) -> Convolution:
        """The convolution with other specs of operands, such as other strides."""
        operands = zip((self.image, self.filter, *self.extras), specs, strict=True)
        image, taps, *extras = [replace(operand, spec=spec) for operand, spec in operands]
        return replace(self, image=image, filter=taps, extras=tuple(extras))


@dataclass(frozen=True, slots=True)
class ConvolutionParts:
    """The `md_hom`s of a convolution, which write disjoint parts of the result.

    Their inputs are image, filter and extras. `uncut` is the convolution where windows leave the
    image. Where they are of a copy of the image, `copied` is the program that makes it first.
    """

    md_homs: tuple[MDHom, ...]
    uncut: Convolution | None = None
    copied: Program | None = None

    @property
    def whole(self) -> MDHom | None:
        """One `md_hom` of `uncut`, for devices with free bounds checks; None if there is none."""
        return self.uncut and self.uncut.whole()


def program_from_convolution(convolution: Convolution) -> Program:
    """The program of a convolution, whose operands are image, filter and extras."""
    blocks = md_homs_from_convolution(convolution)
    return replace(blocks.copied or Program.of(*blocks.md_homs), alternatives=blocks.uncut)


def md_homs_from_convolution(convolution: Convolution) -> ConvolutionParts:
    """The `md_hom`s of a convolution, by the cheapest of four treatments of borders.

    Windows that lie inside the image are one `md_hom` with affine indices, whatever the padding.
    For those that leave it there are four ways; the first that applies is taken:

    1. The image is copied with zeros around it, where each element of the copy is in so many
       products that they take ten times as long as the copy, or where border windows have at least
       as many products as the copy has elements. Then there is one block.
    2. Positions at a border take only the taps that meet the image. They are affine too; the
       borders of both sides, or of all remainders by a stride, are one `md_hom` where their
       indices are equally far apart. This is done where it takes at most twice the blocks of
       way 3: a 3×3 filter with padding 1 has 4 blocks.
    3. Each axis has one more `md_hom` for both of its borders, which reads the nearest element
       instead of one outside, and selects zero for it. This is done where at least half of the
       work is inside.
    4. One `md_hom` of that kind computes all.

    >>> from mdtensor.translate.convolutions.convolution_axes import strided
    >>> image = ConvolutionOperand(TensorSpec.of((64, 64)), (0, 1))
    >>> taps = ConvolutionOperand(TensorSpec.of((3, 3)), (0, 1))
    >>> axes = (strided(64, 3, 64, before=1),) * 2
    >>> result = ConvolutionOperand(TensorSpec.of((64, 64)), (0, 1))
    >>> same = Convolution(axes, (), (), image, taps, result, np.dtype("f4"))
    >>> for md_hom in md_homs_from_convolution(same).md_homs:
    ...     print(md_hom)
    md_hom[p0_0:2, p0:1, p1_0:2, p1:1, r0:2, r1:2](mul, (cc, cc, cc, cc, pw(add), pw(add)))
    md_hom[p0_0:2, p0:1, p1:62, r0:2, r1:3](mul, (cc, cc, cc, pw(add), pw(add)))
    md_hom[p0:62, p1_0:2, p1:1, r0:3, r1:2](mul, (cc, cc, cc, pw(add), pw(add)))
    md_hom[p0:62, p1:62, r0:3, r1:3](mul, (cc, cc, pw(add), pw(add)))
    """
    if not any(any(axis.margins) for axis in convolution.axes):
        return ConvolutionParts(_md_homs(convolution, _wholes(convolution)))
    padded = _padded(convolution)
    copied_elements = max(1, padded.image.spec.size)
    if (
        _products(padded, _wholes(padded)) >= WORTH_COPY * copied_elements
        or _border_products(convolution) >= WORTH_COPY_OF_BORDERS * copied_elements
    ):
        copied = on_padded_copy(convolution)
        return ConvolutionParts(
            tuple([step.md_hom for step in copied.steps[2:]]), convolution, copied
        )
    guarded = _guarded(convolution)
    exact = _exact(convolution, WORTH_BLOCKS * len(guarded))
    blocks = guarded if exact is None else exact
    return ConvolutionParts(_md_homs(convolution, blocks), convolution)


def on_padded_copy(convolution: Convolution) -> Program:
    """The program of a convolution on a zero-padded copy of the image.

    All indices are affine, whatever the padding; there are as many `md_hom`s of the copy as phases
    of the axes go together.
    """
    padded = _padded(convolution)
    operands = convolution.image, convolution.filter, *convolution.extras
    builder = ProgramBuilder([operand.spec for operand in operands])
    around = [
        convolution.axes[term].margins if isinstance(term, int) else (0, 0)
        for term in convolution.image.index
    ]
    image = builder.padded(0, around, 0)
    result = builder.new(convolution.result.spec)
    for md_hom in _md_homs(padded, _wholes(padded)):
        builder.add(md_hom, (image, *range(1, builder.operands)), (result,))
    return builder.program([result])


Block = tuple[AxisPart, ...]
# The coefficients of a run's dims in the index of an operand, and the offset.
Numbers = Callable[[AxisPart], tuple[int, ...]]


def _wholes(convolution: Convolution) -> list[Block]:
    return list(combinations(*(guarded_runs(axis).whole for axis in convolution.axes)))


def _exact(convolution: Convolution, most: int) -> list[Block] | None:
    runs = [exact_runs(axis, most) for axis in convolution.axes]
    found = [of_axis for of_axis in runs if of_axis is not None]
    if len(found) < len(runs) or math.prod(map(len, found)) > most:
        return None
    return list(combinations(*found))


def _guarded(convolution: Convolution) -> list[Block]:
    """Interior and border blocks if the interior is at least half of the work, else the whole."""
    axes = [guarded_runs(axis) for axis in convolution.axes]
    interior, wholes = _interior(convolution), _wholes(convolution)
    if 2 * _points(interior) < _points(wholes):
        return wholes
    borders: list[Block] = []
    for number, axis in enumerate(axes):
        before = [other.interior for other in axes[:number]]
        after = [other.whole for other in axes[number + 1 :]]
        borders += combinations(*before, axis.border, *after)
    return [*interior, *borders]


def _products(convolution: Convolution, blocks: list[Block]) -> int:
    """The number of multiplications of some blocks of a convolution."""
    others = math.prod(extent for _, extent in (*convolution.kept, *convolution.summed))
    return others * _points(blocks)


def _border_products(convolution: Convolution) -> int:
    """The number of multiplications of windows that leave the image."""
    wholes, interior = _wholes(convolution), _interior(convolution)
    return _products(convolution, wholes) - _products(convolution, interior)


def _interior(convolution: Convolution) -> list[Block]:
    return list(combinations(*(guarded_runs(axis).interior for axis in convolution.axes)))


def _points(blocks: list[Block]) -> int:
    return sum(math.prod(run.points for run in block) for block in blocks)


def _padded(convolution: Convolution) -> Convolution:
    """The convolution of a zero-padded image."""
    axes = tuple(axis.padded() for axis in convolution.axes)
    spec = convolution.image.spec
    shape = [
        axes[term].image if isinstance(term, int) else extent
        for term, extent in zip(convolution.image.index, spec.shape, strict=True)
    ]
    image = replace(convolution.image, spec=spec.packed(shape))
    return replace(convolution, axes=axes, image=image)


def _is_inside(index: Expr, extent: int) -> Expr:
    return (index >= 0) & (index < extent)


def _zero_outside(inside: list[Expr], value: Expr) -> Expr:
    if not inside:
        return value
    return select(reduce(lambda a, b: a & b, inside), value, const(0, value.dtype))


def _md_homs(convolution: Convolution, blocks: list[Block]) -> tuple[MDHom, ...]:
    return tuple(_md_hom(convolution, block) for block in blocks)


def _md_hom(convolution: Convolution, block: Block) -> MDHom:
    """The `md_hom` of a block, one run per axis; sums are zero if a run has no taps."""
    accumulated = convolution.accumulated
    image, taps = convolution.image, convolution.filter
    adds = Pointwise(named("add", [accumulated]))
    types = (image.spec.dtype, taps.spec.dtype)
    scalar = product(types, accumulated, convolution.precision)
    accesses: tuple[BufferAccess, ...]
    if all(run.taps for run in block):
        accesses = (_image_access(image, block), _access(1, taps, block, lambda run: run.filter))
        inside = [
            _is_inside(_index(axis, run), convolution.axes[axis].image)
            for axis, run in enumerate(block)
            if run.guarded
        ]
        scalar = replace(scalar, results=(_zero_outside(inside, scalar.results[0]),))
        summed = [*_dims(convolution.summed, adds), *_tap_dims(block, adds)]
    else:
        accesses, summed = (), []
        scalar = ScalarFunction((), (const(0, accumulated),), "zero")
    extras = enumerate(convolution.extras, start=2)

    def result(buffer: int, operand: ConvolutionOperand) -> BufferAccess:
        return _access(buffer, operand, block, lambda run: run.result)

    return MDHom(
        (*_dims(convolution.kept, CC), *_position_dims(block), *summed),
        scalar,
        (
            BufferSpec("image", image.spec),
            BufferSpec("filter", taps.spec),
            *(BufferSpec(f"extra{n}", extra.spec) for n, extra in enumerate(convolution.extras)),
        ),
        (BufferSpec("out", convolution.result.spec),),
        accesses,
        (result(0, convolution.result),),
        convolution.finish
        and Epilogue(convolution.finish, tuple(result(n, extra) for n, extra in extras)),
    )


def _dims(named_extents: tuple[tuple[str, int], ...], combine: Combine) -> Iterator[Dim]:
    return (Dim(name, extent, combine) for name, extent in named_extents)


def _names(axis: int, run: AxisPart) -> tuple[str, ...]:
    """Names of a run's dims: p0_0, …, p0 for positions and r0 for taps."""
    counts = range(len(run.extents) - 2)
    return (*(f"p{axis}_{n}" for n in counts), f"p{axis}", f"r{axis}")


def _position_dims(block: Block) -> Iterator[Dim]:
    for axis, run in enumerate(block):
        for name, extent in zip(_names(axis, run)[:-1], run.extents, strict=False):
            yield Dim(name, extent, CC)


def _tap_dims(block: Block, adds: Combine) -> Iterator[Dim]:
    return (Dim(f"r{axis}", run.taps, adds) for axis, run in enumerate(block))


def _access(
    buffer: int, operand: ConvolutionOperand, block: Block, numbers: Numbers
) -> BufferAccess:
    """An affine access, with the coefficients and offsets `numbers` of each spatial axis' run."""
    index = (
        term if isinstance(term, AffineIndex) else _affine(term, block[term], numbers)
        for term in operand.index
    )
    return BufferAccess(buffer, tuple(index))


def _affine(axis: int, run: AxisPart, numbers: Numbers) -> AffineIndex:
    *coefficients, offset = numbers(run)
    pairs = zip(_names(axis, run), coefficients, strict=True)
    return AffineIndex(tuple(pair for pair in pairs if pair[1]), offset)


def _image_access(image: ConvolutionOperand, block: Block) -> BufferAccess:
    index: list[AffineIndex | ComputedIndex] = []
    for term in image.index:
        if isinstance(term, AffineIndex):
            index.append(term)
        elif block[term].guarded:
            index.append(ComputedIndex(_index(term, block[term])))
        else:
            index.append(_affine(term, block[term], lambda run: run.image))
    return BufferAccess(0, tuple(index))


def _index(axis: int, run: AxisPart) -> Expr:
    """The index into the image along an axis, as an expression."""
    parts = zip(_names(axis, run), run.extents, run.image, strict=False)
    terms = [
        index_of(name) if step == 1 else index_of(name) * step
        for name, extent, step in parts
        if extent > 1 and step
    ]
    if not terms:
        return const(run.image[-1], np.int64)
    total = reduce(lambda a, b: a + b, terms)
    return total + run.image[-1] if run.image[-1] else total
