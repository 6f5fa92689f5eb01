"""One spatial axis of a convolution, cut into affine runs of positions and filter taps.

An axis is cut into runs. Within a run, result, image and filter are indexed by affine functions,
so that the product of one run per axis is one `md_hom`; nothing is padded for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.errors import ShapeError

# Long filters have as many runs as taps; looking for runs ends where so many can't become few.
_MOST_FOLDED = 8
_MOST_PHASES = 1024  # of a transposed convolution, which are md_homs of their own


@dataclass(frozen=True, slots=True)
class Phase:
    """Result positions with a common stride whose taps have a common stride.

    Position u is element `result[0]·u + result[1]` of the result, tap v is element
    `filter[0]·v + filter[1]` of the filter, and they meet element `image[0]·u + image[1]·v +
    image[2]` of the image, which counts as zero where it lies outside. `image[0]` is positive.
    """

    positions: int
    taps: int
    result: tuple[int, int]
    filter: tuple[int, int]
    image: tuple[int, int, int]

    def reach(self) -> tuple[int, int]:
        """The first and last image element that any tap reads; may be out of bounds."""
        step, tap, offset = self.image
        span = tap * (self.taps - 1)
        last = offset + step * (self.positions - 1)
        return offset + min(0, span), last + max(0, span)

    def inside(self, image: int) -> tuple[int, int]:
        """The half-open range of positions whose taps are all within the image."""
        step, tap, offset = self.image
        span = tap * (self.taps - 1)
        first = -((offset + min(0, span)) // step)
        end = (image - 1 - offset - max(0, span)) // step + 1
        first = min(max(first, 0), self.positions)
        return first, min(max(end, first), self.positions)

    def outside(self, image: int) -> tuple[int, int]:
        """The first position with a tap in the image, and the first after the last such."""
        step, tap, offset = self.image
        span = tap * (self.taps - 1)
        before = -((offset + max(0, span)) // step)
        behind = (image - 1 - offset - min(0, span)) // step + 1
        return min(before, self.positions), behind

    def taps_at(self, position: int, image: int) -> tuple[int, int]:
        """The first tap within the image at a position, and the number of these."""
        step, tap, offset = self.image
        base = step * position + offset
        low, high = (-base, image - 1 - base) if tap > 0 else (base - image + 1, base)
        first = max(0, -(-low // abs(tap)))
        end = min(self.taps, high // abs(tap) + 1)
        return (first, end - first) if end > first else (0, 0)


@dataclass(frozen=True, slots=True)
class AxisPart:
    """A part of an axis as a block of an index space.

    `extents` are those of the block's dims: positions, the last one taps. `result`, `image` and
    `filter` hold a coefficient for every dim, then an offset. `guarded` runs meet elements outside
    of the image, which count as zero.
    """

    extents: tuple[int, ...]
    result: tuple[int, ...]
    image: tuple[int, ...]
    filter: tuple[int, ...]
    guarded: bool = False

    @property
    def taps(self) -> int:
        """Number of taps."""
        return self.extents[-1]

    @property
    def points(self) -> int:
        """Number of pairs of position and tap."""
        return math.prod(self.extents)

    @property
    def offsets(self) -> tuple[int, int, int]:
        """The run's offsets in result, image and filter."""
        return self.result[-1], self.image[-1], self.filter[-1]


@dataclass(frozen=True, slots=True)
class SpatialAxis:
    """A spatial axis: extents of image and result, and its phases."""

    image: int
    result: int
    phases: tuple[Phase, ...]

    @property
    def margins(self) -> tuple[int, int]:
        """The padding, in elements, that the taps need before and after the image."""
        reaches = [phase.reach() for phase in self.phases if phase.taps and phase.positions]
        first = min((low for low, _ in reaches), default=0)
        last = max((high for _, high in reaches), default=0)
        return max(0, -first), max(0, last - self.image + 1)

    def padded(self) -> SpatialAxis:
        """The axis of a zero-padded image, where all taps are in bounds."""
        before, after = self.margins
        phases = (
            replace(phase, image=(*phase.image[:2], phase.image[2] + before))
            for phase in self.phases
        )
        return SpatialAxis(before + self.image + after, self.result, tuple(phases))


def strided(
    image: int,
    taps: int,
    result: int,
    *,
    stride: int = 1,
    dilation: int = 1,
    before: int = 0,
    flipped: bool = False,
    backwards: bool = False,
) -> SpatialAxis:
    """The axis of a strided convolution: p and r read element `stride·p + dilation·r - before`.

    With `flipped` the filter is taken from its end, with `backwards` the result is.

    >>> strided(8, 3, 8, before=1).phases
    (Phase(positions=8, taps=3, result=(1, 0), filter=(1, 0), image=(1, 1, -1)),)
    """
    phase = Phase(
        result,
        taps,
        (-1, result - 1) if backwards else (1, 0),
        (-1, taps - 1) if flipped else (1, 0),
        (stride, dilation, -before),
    )
    return SpatialAxis(image, result, (phase,))


def transposed(
    image: int, taps: int, result: int, *, stride: int = 1, dilation: int = 1, before: int = 0
) -> SpatialAxis:
    """The axis of a transposed convolution: i and r add to `stride·i + dilation·r - before`.

    Seen from the result: positions that leave the same remainder by `stride` meet the same taps.

    >>> for phase in transposed(4, 3, 8, stride=2, before=1).phases:
    ...     print(phase)
    Phase(positions=4, taps=1, result=(2, 0), filter=(2, 1), image=(1, -1, 0))
    Phase(positions=4, taps=2, result=(2, 1), filter=(2, 0), image=(1, -1, 1))
    """
    common = math.gcd(stride, dilation)
    period, leap = stride // common, dilation // common
    if min(stride, result) > _MOST_PHASES:
        raise ShapeError(
            f"stride is {stride}; that of a transposed convolution is {_MOST_PHASES} at most"
        )
    phases: list[Phase] = []
    for remainder in range(min(stride, result)):
        positions = -(-(result - remainder) // stride)
        shifted = remainder + before
        first = shifted // common * pow(leap, -1, period) % period
        found = 0 if shifted % common else max(0, -(-(taps - first) // period))
        offset = (shifted - first * dilation) // stride
        phases.append(
            Phase(positions, found, (stride, remainder), (period, first), (1, -leap, offset))
        )
    return SpatialAxis(image, result, tuple(phases))


def exact_runs(axis: SpatialAxis, most: int) -> tuple[AxisPart, ...] | None:
    """Runs without guards: border positions have only the taps within the image.

    None where that makes more than `most` runs.
    """
    runs: list[AxisPart] = []
    for phase in axis.phases:
        for first, count, tap, taps in _segments(phase, axis.image):
            runs.append(_run(phase, first, count, tap, taps))
            if len(runs) > _MOST_FOLDED * most:
                return None
    folded = _folded(runs)
    return folded if len(folded) <= most else None


@dataclass(frozen=True, slots=True)
class Guarded:
    """An axis in three variants: runs of its interior, of its borders, and of the whole."""

    interior: tuple[AxisPart, ...]
    border: tuple[AxisPart, ...]
    whole: tuple[AxisPart, ...]


def guarded_runs(axis: SpatialAxis) -> Guarded:
    """An interior run per phase, and a guarded run for both borders."""
    interior: list[AxisPart] = []
    border: list[AxisPart] = []
    whole: list[AxisPart] = []
    for phase in axis.phases:
        first, end = phase.inside(axis.image)
        if not phase.taps:
            first, end = 0, phase.positions
        sides = max(first, phase.positions - end)
        if first and end < phase.positions and 2 * sides <= phase.positions:
            # Borders of one size are one run; a guard does no harm to positions inside.
            first, end = sides, phase.positions - sides
        parts = [(0, first), (end, phase.positions - end)]
        border += [_run(phase, p, n, 0, phase.taps, guarded=True) for p, n in parts if n]
        interior += [_run(phase, first, end - first, 0, phase.taps)] if end > first else []
        outside = (first, end) != (0, phase.positions)
        whole += [_run(phase, 0, phase.positions, 0, phase.taps, guarded=outside)]
    return Guarded(_folded(interior), _folded(border), _folded(whole))


def _segments(phase: Phase, image: int) -> Iterator[tuple[int, int, int, int]]:
    """Maximal ranges of positions with equal taps: first position, count, first tap, taps."""
    first, end = phase.inside(image) if phase.taps else (phase.positions, phase.positions)
    before, behind = phase.outside(image) if phase.taps else (phase.positions, phase.positions)
    position = 0
    while position < phase.positions:
        if position == first < end:
            yield first, end - first, 0, phase.taps
            position = end
            continue
        tap, taps = phase.taps_at(position, image) if phase.taps else (0, 0)
        start = position
        while position < phase.positions and not first <= position < end:
            if phase.taps and phase.taps_at(position, image) != (tap, taps):
                break
            # Padding may be longer than the image by far.
            position = before if position < before else position + 1
            position = phase.positions if position > behind else position
        yield start, position - start, tap, taps


def _run(
    phase: Phase, first: int, count: int, tap: int, taps: int, *, guarded: bool = False
) -> AxisPart:
    """The run of `count` positions and `taps` taps of a phase."""
    step, leap, offset = phase.image
    return AxisPart(
        (count, taps),
        (phase.result[0], 0, phase.result[0] * first + phase.result[1]),
        (step, leap, step * first + leap * tap + offset),
        (0, phase.filter[0], phase.filter[0] * tap + phase.filter[1]),
        guarded,
    )


def _folded(runs: Sequence[AxisPart]) -> tuple[AxisPart, ...]:
    """Merge runs at equal distances into one with another dim, such as both borders."""
    alike: list[tuple[AxisPart, list[AxisPart]]] = []
    for run in runs:
        if run.points or not run.taps:
            here = _moved(run, (0, 0, 0))
            group = next((others for there, others in alike if there == here), None)
            if group is None:
                alike.append((here, group := []))
            group.append(run)
    folded: list[AxisPart] = []
    for _, group in alike:
        waiting = sorted(group, key=lambda run: run.offsets)
        while waiting:
            count = _evenly(waiting)
            folded.append(_together(waiting[:count]))
            del waiting[:count]
    return tuple(folded)


def _moved(run: AxisPart, offsets: tuple[int, int, int]) -> AxisPart:
    result, image, taps = offsets
    return replace(
        run,
        result=(*run.result[:-1], result),
        image=(*run.image[:-1], image),
        filter=(*run.filter[:-1], taps),
    )


def _distance(one: AxisPart, other: AxisPart) -> tuple[int, int, int]:
    result, image, taps = (b - a for a, b in zip(one.offsets, other.offsets, strict=True))
    return result, image, taps


def _evenly(runs: Sequence[AxisPart]) -> int:
    """The number of leading runs at equal distances."""
    count = min(2, len(runs))
    while count < len(runs) and _distance(runs[count - 1], runs[count]) == _distance(*runs[:2]):
        count += 1
    return count


def _together(runs: Sequence[AxisPart]) -> AxisPart:
    """Merge runs at equal distances; the new dim comes first."""
    if len(runs) == 1:
        return runs[0]
    result, image, taps = _distance(runs[0], runs[1])
    run = runs[0]
    return replace(
        run,
        extents=(len(runs), *run.extents),
        result=(result, *run.result),
        image=(image, *run.image),
        filter=(taps, *run.filter),
    )
