"""Border handling of stencils, along each axis of a block of points."""

from __future__ import annotations

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, TranslationError, shown
from mdtensor.options import is_one_of
from mdtensor.specs import kind_of
from mdtensor.translate.combine import CC
from mdtensor.translate.md_hom import Dim
from mdtensor.translate.scalar import Expr, Number, apply, const, index_of, select
from mdtensor.translate.views import AffineIndex, ComputedIndex

MODES = ("valid", "fixed", "constant", "nearest", "reflect", "mirror", "wrap")

Index = AffineIndex | ComputedIndex


@dataclass(frozen=True, slots=True)
class Border:
    """A border mode of scipy.ndimage; `cval` is the value of `constant`.

    With a, b, c, d in the array: `nearest` a a | a b c d | d d, `reflect` b a | a b c d | d c,
    `mirror` c b | a b c d | c b, `wrap` c d | a b c d | a b. With `valid` and `fixed` nothing lies
    there: the result is smaller, or it keeps elements of the array where more would be needed.

    Raises TranslationError for other words, DTypeError for a `cval` that is no number.
    """

    mode: str
    cval: Number = 0.0

    def __post_init__(self) -> None:
        if not is_one_of(self.mode, MODES):
            raise TranslationError(
                f"unknown border {shown(self.mode)}", hint=f"one of {', '.join(MODES)}"
            )
        if not _is_number(self.cval):
            raise DTypeError(
                f"the border's value is {shown(self.cval)}, which is no number", hint="cval=0.0"
            )


def _is_number(value: object) -> bool:
    """Whether a value is a single number of a NumPy type."""
    try:
        held = np.asarray(value)
    except (RecursionError, RuntimeError, TypeError, ValueError):  # lists in lists of other lengths
        return False
    return held.ndim == 0 and kind_of(held.dtype) in "biufc"


def outside(border: Border, dtype: np.dtype) -> Expr:
    """The value outside of an array, as a constant of the elements' type."""
    given = np.asarray(border.cval)
    if kind_of(dtype) in "fc" and np.can_cast(given.dtype, dtype, "same_kind"):
        return const(border.cval, dtype)
    value = np.real(given).astype(dtype)
    if value != given:
        raise DTypeError(
            f"the border's value {shown(border.cval)} does not go into {dtype.name}",
            hint="convert the array, or give another cval=",
        )
    return const(value.item(), dtype)


@dataclass(frozen=True, slots=True)
class Inside:
    """Points of an axis, from `start` on, whose neighbours all exist."""

    start: int
    extent: int
    written_from: int

    def dims(self, axis: int) -> tuple[Dim, ...]:
        """The dims of these points along an axis."""
        return (Dim(f"i{axis}", self.extent, CC),)

    def written(self, axis: int) -> AffineIndex:
        """The index of the point in the result."""
        return AffineIndex.of(f"i{axis}", offset=self.written_from)

    def index(
        self, axis: int, relative: AffineIndex, border: Border, reach: tuple[int, int]
    ) -> tuple[Index, Expr | None]:
        """The index of a neighbour, and the condition for it to exist (None: always).

        `reach` are the smallest and the largest value of the relative index.
        """
        terms = ((f"i{axis}", 1), *relative.coefficients)
        return AffineIndex(terms, self.start + relative.offset), None


@dataclass(frozen=True, slots=True)
class BorderStrips:
    """The first and the last `width` points of an axis, as dims for the end and the point.

    Indices count from the nearer end, below zero from the upper one as computed indices do, so
    that no expression holds the extent: one kernel serves all shapes.
    """

    width: int
    extent: int

    def dims(self, axis: int) -> tuple[Dim, ...]:
        """The dims of these points along an axis."""
        return Dim(f"s{axis}", 2, CC), Dim(f"i{axis}", self.width, CC)

    def written(self, axis: int) -> AffineIndex:
        """The index of the point in the result."""
        return AffineIndex(((f"s{axis}", self.extent - self.width), (f"i{axis}", 1)))

    def index(
        self, axis: int, relative: AffineIndex, border: Border, reach: tuple[int, int]
    ) -> tuple[Index, Expr | None]:
        """The index of a neighbour, and the condition for it to exist (None: always).

        `reach` are the smallest and the largest value of the relative index.
        """
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
        # Not as minima and maxima of `place`: Intel's compiler for processors, which vectorises
        # those of several points together, read other rows where a border reflects.
        is_outside = apply("eq", place < 0, at_low)
        folded = {
            "nearest": select(at_low, const(0, np.int64), const(-1, np.int64)),
            "reflect": -1 - place,
            "mirror": select(at_low, -place, -2 - place),
        }[border.mode]
        return ComputedIndex(select(is_outside, folded, place)), None


@dataclass(frozen=True, slots=True)
class WholeAxis:
    """All points of an axis that may be shorter than the neighbourhood."""

    extent: int

    def dims(self, axis: int) -> tuple[Dim, ...]:
        """The dims of these points along an axis."""
        return (Dim(f"i{axis}", self.extent, CC),)

    def written(self, axis: int) -> AffineIndex:
        """The index of the point in the result."""
        return AffineIndex.of(f"i{axis}")

    def index(
        self, axis: int, relative: AffineIndex, border: Border, reach: tuple[int, int]
    ) -> tuple[Index, Expr | None]:
        """The index of a neighbour, and the condition for it to exist (None: always).

        `reach` are the smallest and the largest value of the relative index.
        """
        if reach == (0, 0):
            return AffineIndex(((f"i{axis}", 1), *relative.coefficients)), None
        place, last = _place(axis, relative), self.extent - 1
        if border.mode in ("nearest", "constant"):
            # Computed indices beyond the upper end are moved to it anyway.
            within = ComputedIndex(apply("max", place, 0))
            is_there = (place >= 0) & (place <= last) if border.mode == "constant" else None
            return within, is_there
        if border.mode == "wrap":
            return ComputedIndex(apply("mod", place, self.extent)), None
        # The array and its mirror image, again and again; `mirror` shares the elements at the ends.
        end = 2 * last + 1 if border.mode == "reflect" else 2 * last
        period = max(1, 2 * self.extent if border.mode == "reflect" else 2 * last)
        there = apply("mod", place, period)
        return ComputedIndex(apply("min", there, end - there)), None


Part = Inside | BorderStrips | WholeAxis
"""The points of one axis that a block has."""


def _place(axis: int, relative: AffineIndex) -> Expr:
    """The absolute index of a neighbour, as an expression."""
    place = index_of(f"i{axis}")
    for dim, coefficient in relative.coefficients:
        place = place + coefficient * index_of(dim)
    return place + relative.offset if relative.offset else place
