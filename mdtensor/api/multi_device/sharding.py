"""Shardings: the cuts of an array along an axis, and the device of each shard."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from mdtensor.api.multi_device.shares import Shares
from mdtensor.api.parts.cuts import Edges, allowed, pieces_along, points_of, ranges_of
from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.translate.combine import Concat
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.rewrites.parts import Box, MDHomPart, Range, part_of
from mdtensor.translate.views import AffineIndex

T = TypeVar("T")
# Of the indices of a part, so many times those next to its ends are computed apart from the rest.
_INSIDE = 2


@dataclass(frozen=True, slots=True)
class Sharding:
    """The cut points of an array along an axis, and the device number of each shard.

    Without an axis each device has a replica of the whole.

    >>> Sharding(0, (0, 340, 512), (0, 1)), Sharding(None, (), (0, 1))
    (axis 0: 0:340 on 0, 340:512 on 1, replicas on 0, 1)
    """

    axis: int | None
    edges: Edges
    devices: tuple[int, ...]

    def __repr__(self) -> str:
        if self.axis is None:
            return f"replicas on {', '.join(map(str, self.devices))}"
        pairs = zip(ranges_of(self.edges), self.devices, strict=True)
        said = ", ".join(f"{low}:{high} on {device}" for (low, high), device in pairs)
        return f"axis {self.axis}: {said}"

    def shapes(self, shape: Sequence[int]) -> list[tuple[int, ...]]:
        """The shapes of an array's shards.

        >>> Sharding(1, (0, 2, 5), (0, 1)).shapes((3, 5))
        [(3, 2), (3, 3)]
        """
        if self.axis is None:
            return [tuple(shape)] * len(self.devices)
        before, after = tuple(shape[: self.axis]), tuple(shape[self.axis + 1 :])
        return [(*before, high - low, *after) for low, high in ranges_of(self.edges)]

    def pieces(self, box: Box) -> Iterator[tuple[int, Box, Box]]:
        """The shards that intersect a box: each number, the box in the shard, the place in the box.

        >>> box = (slice(0, 3, 1), slice(1, 5, 1))
        >>> for piece in Sharding(1, (0, 2, 5), (0, 1)).pieces(box):
        ...     print(piece[0], piece[1][1], piece[2][1])
        0 slice(1, 2, 1) slice(0, 1, 1)
        1 slice(0, 3, 1) slice(1, 4, 1)
        """
        whole = tuple(slice(0, len(range(s.start, s.stop, s.step)), 1) for s in box)
        if self.axis is None:
            yield from ((number, box, whole) for number in range(len(self.devices)))
            return
        found = list(pieces_along(box[self.axis], self.edges))
        for number, shard, inside in found or [(0, slice(0, 0, 1), slice(0, 0, 1))]:
            yield number, _replaced(box, self.axis, shard), _replaced(whole, self.axis, inside)

    def device_at(self, index: int) -> int:
        """The device that holds an index of the sharded axis."""
        ranges = zip(ranges_of(self.edges), self.devices, strict=True)
        return next(device for (_, high), device in ranges if index < high)

    def has(self, device: int, box: Box) -> bool:
        """Whether a device holds all of a box in one shard."""
        if self.axis is None:
            return device in self.devices
        first, last = box[self.axis].start, box[self.axis].stop
        ranges = zip(ranges_of(self.edges), self.devices, strict=True)
        return any(low <= first and last <= high and each == device for (low, high), each in ranges)


def shares_of_shards(
    md_hom: MDHom, inputs: Sequence[Sharding | None], outputs: Sequence[Sharding | None] = ()
) -> Shares | None:
    """The shares with which each device computes on its own shards; None where there are none.

    The dim is cut that leads along the axis of the largest sharded input, else of an output. Where
    windows reach over the ends of shards, the indices next to these are parts of their own, so that
    the others read what lies on the device.

    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> product = md_hom_from_einsum("ij,jk->ik", [TensorSpec.of((4, 6)), TensorSpec.of((6, 2))])
    >>> shares_of_shards(product, [Sharding(0, (0, 1, 4), (0, 1)), None])
    i: 0:1 on 0, 1:4 on 1
    """
    if 0 in md_hom.extents.values():
        return None
    sizes = [buffer.spec.nbytes for buffer in md_hom.inputs]
    order = sorted(range(len(inputs)), key=lambda n: -sizes[n])
    for number in order:
        sharding = inputs[number]
        shares = None if sharding is None else _shares_along(md_hom, number, sharding)
        if shares is not None:
            return _with_ends_apart(md_hom, shares, inputs)
    for number, sharding in enumerate(outputs):
        shares = None if sharding is None else _shares_of_output(md_hom, number, sharding)
        if shares is not None:
            return shares
    return None


def sharding_of(md_hom: MDHom, number: int, shares: Shares) -> Sharding | None:
    """The sharding of an output whose parts stay where they are computed; None where it has none.

    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> rows = md_hom_from_einsum("ij->i", [TensorSpec.of((4, 6))])
    >>> sharding_of(rows, 0, Shares("i", (0, 1, 2, 4), (0, 0, 1)))
    axis 0: 0:2 on 0, 2:4 on 1
    """
    if shares.dim is None:
        return None
    shape = md_hom.outputs[number].spec.shape
    boxes = [_part(md_hom, shares, span).writes[number] for span in ranges_of(shares.edges)]
    apart = [axis for axis in range(len(shape)) if len({_key(box[axis]) for box in boxes}) > 1]
    if len(apart) != 1:
        return None
    [axis] = apart
    placed = sorted(
        (box[axis].start, box[axis].stop, device)
        for box, device in zip(boxes, shares.devices, strict=True)
    )
    if any(stop > start for (_, stop, _), (start, _, _) in itertools.pairwise(placed)):
        return None
    edges, devices = [0], [placed[0][2]]
    for start, _, device in placed[1:]:
        if device != devices[-1]:
            edges.append(start)
            devices.append(device)
    return Sharding(axis, (*edges, shape[axis]), tuple(devices))


def _shares_along(md_hom: MDHom, number: int, sharding: Sharding) -> Shares | None:
    """The shares that read an input in place, except where windows cross a shard's end.

    The dim is cut that leads farthest along the axis.
    """
    axis = sharding.axis
    if axis is None:
        return None

    def middle(dim: str, index: int) -> int:
        """Twice the centre of the indices that are read for an index of a dim."""
        box = _part(md_hom, Shares(dim, (), ()), (index, index + 1)).reads[number]
        return box[axis].start + box[axis].stop - 1

    led: list[tuple[int, str, int]] = []
    for dim, extent in md_hom.extents.items():
        if extent > 1:
            try:
                led.append((middle(dim, extent - 1) - middle(dim, 0), dim, extent))
            except TranslationError:
                continue
    for length, dim, extent in sorted(led, key=lambda each: -abs(each[0])):
        if not length:
            break
        ends: list[int] = []
        for edge in sharding.edges[1:-1]:

            def is_beyond(index: int, dim: str = dim, edge: int = edge, up: int = length) -> bool:
                return (middle(dim, index) >= 2 * edge) == (up > 0)

            ends.append(bisect.bisect_left(range(extent), True, key=is_beyond))
        edges = (0, *sorted({end for end in ends if 0 < end < extent}), extent)
        found = Shares(dim, edges, (0,) * (len(edges) - 1))
        cuts = found.cuts(md_hom)
        if allowed(md_hom, cuts) != cuts:
            continue
        devices: list[int] = []
        for span in ranges_of(edges):
            box = _part(md_hom, found, span).reads[number][axis]
            devices.append(sharding.device_at((box.start + box.stop - 1) // 2))
        return Shares(dim, edges, tuple(devices))
    return None


def _shares_of_output(md_hom: MDHom, number: int, sharding: Sharding) -> Shares | None:
    """The shares with which each device computes its own shard of an output."""
    if sharding.axis is None:
        return None
    [access] = [access for access in md_hom.out_view if access.buffer == number]
    index = access.index[sharding.axis]
    extent = sharding.edges[-1]
    for dim in index.dims if isinstance(index, AffineIndex) else ():
        if md_hom.extents[dim] == extent:
            shares = Shares(dim, sharding.edges, sharding.devices)
            cuts = shares.cuts(md_hom)
            if allowed(md_hom, cuts) == cuts and sharding_of(md_hom, number, shares) == sharding:
                return shares
    return None


def _with_ends_apart(md_hom: MDHom, shares: Shares, inputs: Sequence[Sharding | None]) -> Shares:
    """The shares with the indices that need other devices' elements split off into parts."""
    dims = {dim.name: dim for dim in md_hom.dims}
    if not isinstance(dims[str(shares.dim)].combine, Concat):
        return shares
    edges, devices = [0], list[int]()
    for (low, high), device in zip(ranges_of(shares.edges), shares.devices, strict=True):

        def fits(first: int, last: int, device: int = device) -> bool:
            boxes = _part(md_hom, shares, (first, last)).reads
            return all(
                sharding is None
                or sharding.axis is None
                or not points_of(box)
                or not _moves(md_hom, number, str(shares.dim), sharding.axis)
                or sharding.has(device, box)
                for number, (box, sharding) in enumerate(zip(boxes, inputs, strict=False))
            )

        middle = (low + high) // 2
        first, last = low, high
        if not fits(low, high) and fits(middle, middle + 1):
            first = _least(low, middle, lambda n, m=middle: fits(n, m + 1))
            last = high - _least(0, high - middle - 1, lambda n, m=middle, h=high: fits(m, h - n))
            if (last - first) * _INSIDE < high - low or not fits(first, last):
                first, last = low, high
        for end in (first, last, high):
            if end > edges[-1]:
                edges.append(end)
                devices.append(device)
    return Shares(shares.dim, tuple(edges), tuple(devices))


def _least(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The least number for which a monotone predicate holds; it holds for `high`."""
    return low + bisect.bisect_left(range(low, high), True, key=holds)


def _moves(md_hom: MDHom, number: int, dim: str, axis: int) -> bool:
    """Whether an input's axis is indexed by a dim."""
    return any(dim in a.index[axis].dims for a in md_hom.inp_view if a.buffer == number)


def _part(md_hom: MDHom, shares: Shares, span: Range) -> MDHomPart:
    return part_of(md_hom, {str(shares.dim): span})


def _key(axis: slice) -> tuple[int, int, int]:
    return axis.start, axis.stop, axis.step


def _replaced(several: Sequence[T], number: int, value: T) -> tuple[T, ...]:
    return (*several[:number], value, *several[number + 1 :])
