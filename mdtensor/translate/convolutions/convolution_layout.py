"""Layouts, strides and padding of convolutions, checked against the shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import ShapeError, SubscriptError, shown
from mdtensor.specs import TensorSpec, common_dtype
from mdtensor.translate.convolutions.convolution_axes import SpatialAxis, strided, transposed
from mdtensor.translate.convolutions.md_hom_from_convolution import (
    Convolution,
    ConvolutionOperand,
    Term,
)
from mdtensor.translate.einsum.md_hom_from_einsum import accumulation_dtype
from mdtensor.translate.views import AffineIndex

# Letters of spatial axes, from the outermost to the innermost, of image, filter and result.
_SPATIAL = ("DHW", "DTHRWS", "DZHPWQ")
_LIST = "'NHWC,KRSC->NPQK', 'NCHW,KCRS->NKPQ', 'NHWC,HWIO->NHWC', 'NCW,KCS->NKQ'"

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ConvolutionLayout:
    """The axes of image, filter and result: letters, or numbers for spatial axes.

    >>> parse_layout("NHWC,KRSC->NPQK")
    ConvolutionLayout(image=('N', 0, 1, 'C'), filter=('K', 0, 1, 'C'), result=('N', 0, 1, 'K'))
    """

    image: tuple[str | int, ...]
    filter: tuple[str | int, ...]
    result: tuple[str | int, ...]

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return sum(isinstance(axis, int) for axis in self.image)

    def result_order(self, image: TensorSpec) -> tuple[int, ...] | None:
        """The result's axes from the outermost, as those of an image lie; None for C order.

        Also where the image has gaps.
        """
        order = image.axis_order
        if order is None or image.is_contiguous:
            return None
        axes = [self.image[axis] for axis in order]
        return tuple([self.result.index("K" if axis == "C" else axis) for axis in axes])


@dataclass(frozen=True, slots=True)
class Geometry:
    """Strides, paddings, dilations and groups, per spatial axis.

    `padding` is also "valid" or "same". `output_padding` counts for transposed convolutions only.
    """

    stride: tuple[int, ...]
    padding: tuple[Pair, ...] | str
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False
    output_padding: tuple[int, ...] = ()


def parse_layout(text: str) -> ConvolutionLayout:
    """Parse a layout such as 'NHWC,KRSC->NPQK'.

    D, H, W are the spatial axes of the image, T, R, S or D, H, W those of the filter, Z, P, Q or
    D, H, W those of the result; each term's are paired in this order. All other letters are dims
    as in an einsum string: those that the result lacks are summed over. I and O are C and K of
    the filter, and C of the result is K where the filter has a K, so that JAX's
    'NHWC,HWIO->NHWC' is understood.

    Raises SubscriptError where the string is no such layout.
    """
    if not isinstance(cast("object", text), str):
        raise SubscriptError(
            f"a layout names image, filter and result by capital letters, not as {shown(text)}",
            hint=f"such as {_LIST}",
        )
    return _parsed(text)


@lru_cache(1024)
def _parsed(text: str) -> ConvolutionLayout:
    match = re.fullmatch(r"([A-Z]+),([A-Z]+)->([A-Z]+)", text.replace(" ", ""))
    if match is None:
        raise SubscriptError(
            "a layout names image, filter and result by capital letters",
            text=text,
            hint=f"such as {_LIST}",
        )
    image, taps, result = match.groups()
    if "K" not in taps and "C" not in taps:
        taps = taps.replace("I", "C").replace("O", "K")
    if "K" in taps and "K" not in result:
        result = result.replace("C", "K")
    terms = [
        _numbered(text, term, letters)
        for term, letters in zip((image, taps, result), _SPATIAL, strict=True)
    ]
    ranks = [sum(isinstance(axis, int) for axis in term) for term in terms]
    if len(set(ranks)) > 1 or not ranks[0]:
        raise SubscriptError(
            f"image, filter and result have {ranks[0]}, {ranks[1]} and {ranks[2]} spatial axes",
            text=text,
            hint="D, H, W of the image go with T, R, S of the filter and Z, P, Q of the result",
        )
    _check_letters(text, *terms)
    return ConvolutionLayout(*terms)


def _numbered(text: str, term: str, letters: str) -> tuple[str | int, ...]:
    if len(set(term)) < len(term):
        raise SubscriptError(f"{term!r} repeats a letter", text=text)
    spatial = sorted((letter for letter in term if letter in letters), key=letters.index)
    return tuple(spatial.index(letter) if letter in spatial else letter for letter in term)


def _check_letters(text: str, *terms: tuple[str | int, ...]) -> None:
    names = ("image", "filter", "result")
    for name, term in zip(names, terms, strict=True):
        for letter in term:
            if isinstance(letter, str) and sum(letter in other for other in terms) < 2:
                raise SubscriptError(
                    f"{letter!r} occurs in the {name} only",
                    text=text,
                    hint="C is in image and filter, K in filter and result, N in image and result",
                )


def convolution_from_layout(
    layout: ConvolutionLayout,
    geometry: Geometry,
    specs: Sequence[TensorSpec],
    *,
    dtype: np.dtype | None = None,
    acc_dtype: np.dtype | None = None,
) -> Convolution:
    """The convolution of an image and a filter of the given specs.

    `dtype` is the type of the result, by default the operands' common type; `acc_dtype` that of
    products and sums, by default float32 for floats of 16 bits and `dtype` for all others.

    Raises ShapeError where shapes, groups and geometry do not fit.
    """
    image, taps = specs[:2]
    _check_ranks(layout, specs)
    channels = _channels(layout, geometry, image.shape, taps.shape)
    extents = _extents(layout, channels, image.shape, taps.shape)
    axes = tuple(_axis(layout, geometry, n, image.shape, taps.shape) for n in range(layout.rank))
    common = common_dtype([spec.dtype for spec in specs]) if dtype is None else dtype
    whole = channels.whole
    shape = [
        axes[axis].result if isinstance(axis, int) else whole.get(axis, extents[axis])
        for axis in layout.result
    ]
    kept = [name for name in extents if name in (*layout.result, "g")]

    def operand(of: str, term: tuple[str | int, ...], spec: TensorSpec) -> ConvolutionOperand:
        return ConvolutionOperand(spec, tuple(channels.index(axis, of) for axis in term))

    return Convolution(
        axes,
        tuple((name, extents[name]) for name in kept),
        tuple((name, extent) for name, extent in extents.items() if name not in kept),
        operand("image", layout.image, image),
        operand("filter", layout.filter, taps),
        operand("result", layout.result, TensorSpec.of(shape, common)),
        accumulation_dtype(common) if acc_dtype is None else acc_dtype,
    )


@dataclass(frozen=True, slots=True)
class _Channels:
    """Channels of grouped convolutions: extents per group, and which operands have all groups.

    Without groups the filter's axes are plain dims.
    """

    groups: int
    inner: Mapping[str, int]
    split: Mapping[str, tuple[str, ...]]

    @property
    def whole(self) -> dict[str, int]:
        """Extents of C and K over all groups."""
        return {name: self.groups * extent for name, extent in self.inner.items()}

    def index(self, axis: str | int, of: str) -> Term:
        """The index of an axis of the operand called `of`."""
        if isinstance(axis, int):
            return axis
        if axis in self.split[of]:
            return AffineIndex((("g", self.inner[axis]), (axis, 1)))
        return AffineIndex.of(axis)


def _check_ranks(layout: ConvolutionLayout, specs: Sequence[TensorSpec]) -> None:
    for name, term, spec in zip(("image", "filter"), (layout.image, layout.filter), specs):  # noqa: B905
        if len(term) != len(spec.shape):
            raise ShapeError(
                f"the {name} has {len(spec.shape)} axes but the layout gives it {len(term)}",
                notes=[f"{name}: {spec.shape}"],
                hint=f"layout=, such as {_LIST}",
            )


def _channels(
    layout: ConvolutionLayout, geometry: Geometry, image: tuple[int, ...], taps: tuple[int, ...]
) -> _Channels:
    groups = geometry.groups
    if groups == 1:
        return _Channels(1, {}, dict.fromkeys(("image", "filter", "result"), ()))
    for letter, terms in {"C": (layout.image, layout.filter), "K": (layout.filter,)}.items():
        if any(letter not in term for term in terms) or "C" in layout.result:
            raise ShapeError(f"groups={groups} needs C in image and filter, and K in the filter")
    given = image[layout.image.index("C")]
    of_taps, results = (taps[layout.filter.index(letter)] for letter in "CK")
    wanted = given if geometry.transposed else given // groups
    divided = given if geometry.transposed else results
    if given % groups or divided % groups or of_taps != wanted:
        raise ShapeError(
            f"groups={groups} with {given} channels of the image, {of_taps} channels and"
            f" {results} results of the filter",
            hint="the filter of a transposed convolution has all channels, and the results of one"
            " group"
            if geometry.transposed
            else "the filter has image channels / groups channels, and results divisible by groups",
        )
    split = ("C",) if geometry.transposed else ("K",)
    inner = {"C": given // groups, "K": results if geometry.transposed else results // groups}
    return _Channels(groups, inner, {"image": ("C",), "filter": split, "result": ("K",)})


def _extents(
    layout: ConvolutionLayout, channels: _Channels, image: tuple[int, ...], taps: tuple[int, ...]
) -> dict[str, int]:
    """Extents of all non-spatial dims."""
    extents: dict[str, int] = {"g": channels.groups} if channels.groups > 1 else {}
    pairs = [*zip(layout.image, image, strict=True), *zip(layout.filter, taps, strict=True)]
    for name, extent in pairs:
        if isinstance(name, int):
            continue
        known = extents.setdefault(name, channels.inner.get(name, extent))
        if name not in channels.inner and known != extent:
            raise ShapeError(
                f"axis {name} has extent {known} in the image but {extent} in the filter",
                notes=[f"image: {image}    filter: {taps}"],
                hint=f"layout= says which axis is which: {_LIST}",
            )
    return extents


def _axis(
    layout: ConvolutionLayout,
    geometry: Geometry,
    number: int,
    image: tuple[int, ...],
    taps: tuple[int, ...],
) -> SpatialAxis:
    extent = image[layout.image.index(number)]
    length = taps[layout.filter.index(number)]
    if not length:
        raise ShapeError(f"spatial axis {number} of the filter is empty", notes=[f"filter: {taps}"])
    stride, dilation = geometry.stride[number], geometry.dilation[number]
    window = dilation * (length - 1) + 1
    make = _transposed_extent if geometry.transposed else _strided_extent
    result, before = make(geometry, number, extent, window)
    if result <= 0:
        padding = geometry.padding
        shown = padding if isinstance(padding, str) else f"{padding[number]}"
        raise ShapeError(
            f"along spatial axis {number} no window fits: the image has {extent} elements and"
            f" padding {shown}, a window {window}",
            notes=[f"image: {image}    filter: {taps}    dilation: {dilation}    stride: {stride}"],
            hint="more padding, less dilation, or a smaller filter",
        )
    axis = transposed if geometry.transposed else strided
    return axis(extent, length, result, stride=stride, dilation=dilation, before=before)


def _strided_extent(geometry: Geometry, number: int, extent: int, window: int) -> Pair:
    """Extent of the result of a strided convolution, and the padding before the image."""
    stride = geometry.stride[number]
    if geometry.padding == "same":
        result = -(-extent // stride)
        return result, max(0, (result - 1) * stride + window - extent) // 2
    before, after = _pair(geometry, number)
    return (extent + before + after - window) // stride + 1, before


def _transposed_extent(geometry: Geometry, number: int, extent: int, window: int) -> Pair:
    """Extent of the result of a transposed convolution, and what padding crops before it."""
    stride = geometry.stride[number]
    more = geometry.output_padding[number]
    if more and more >= max(stride, geometry.dilation[number]):
        raise ShapeError(
            f"output_padding {more} of spatial axis {number} is not smaller than its stride"
            f" {stride} or dilation {geometry.dilation[number]}"
        )
    if geometry.padding == "same":
        return extent * stride + more, max(0, window - stride) // 2
    before, after = _pair(geometry, number)
    return (extent - 1) * stride + window - before - after + more, before


def _pair(geometry: Geometry, number: int) -> Pair:
    if isinstance(geometry.padding, str):
        return 0, 0
    return geometry.padding[number]
