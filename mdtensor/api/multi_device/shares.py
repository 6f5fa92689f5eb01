"""Shares: the split of a dim over devices, the outermost layer of a schedule."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from mdtensor.api.parts.cuts import Cuts, Edges, allowed, farthest_strides, points_of, ranges_of
from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.translate.combine import Concat, Pointwise
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.rewrites.parts import MDHomPart, part_of

# Costs that differ by no more than this are alike.
_ALIKE = 1.1
# Parts begin at multiples of the largest of these of which each device can have this many: vectors
# and tiles stay whole then.
_STEPS, _STEPS_EACH = (64, 32, 16, 8, 4, 2, 1), 8
# Several devices compute what is expected to take them less than this of what the home device takes
# alone: copies took up to three times as long as links promise, since results are packed besides.
_WORTH = 0.75


@dataclass(frozen=True, slots=True)
class Link:
    """The link by which other devices copy operands from the home device.

    `rate` is its bandwidth in bytes a second, `seconds` what the home device takes for the whole.
    """

    seconds: float
    rate: float


@dataclass(frozen=True, slots=True)
class Shares:
    """A dim cut at `edges`, and the device number of each part.

    It is the layer of a schedule above all that one device has. Without a dim, one device computes
    the whole.

    >>> Shares("i", (0, 340, 512), (0, 1))
    i: 0:340 on 0, 340:512 on 1
    """

    dim: str | None
    edges: Edges
    devices: tuple[int, ...]

    def cuts(self, md_hom: MDHom) -> Cuts:
        """The cut points of every dim of an `md_hom`."""
        whole = {each.name: (0, each.extent) for each in md_hom.dims}
        return whole if self.dim is None else {**whole, self.dim: self.edges}

    def __repr__(self) -> str:
        if self.dim is None:
            return f"whole on {self.devices[0]}"
        pairs = zip(ranges_of(self.edges), self.devices, strict=True)
        return f"{self.dim}: " + ", ".join(f"{a}:{b} on {device}" for (a, b), device in pairs)


def shares_of(
    md_hom: MDHom,
    rates: Sequence[float],
    along: str | None = None,
    home: int | None = None,
    link: Link | None = None,
) -> Shares:
    """The shares in proportion to the devices' rates that move the fewest bytes in all.

    Cutting a dim of `cc` has every device read what does not depend on that dim; cutting one that
    is combined has partial results written and read again. Bytes count more where a dim is too
    short to be cut as the rates are. Of dims that differ little, one of `cc` is cut, and of these
    the one whose parts are the longest runs of memory. `along` is the only dim that may be cut, if
    given. What cannot be cut is for the `home` device, else for the fastest one. Where operands go
    over a `link`, others get as much less as that takes them longer, and nothing where the home
    device is done before them.

    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> specs = TensorSpec.of((512, 100)), TensorSpec.of((100, 64))
    >>> shares_of(md_hom_from_einsum("ij,jk->ik", specs), (2.0, 1.0))
    i: 0:352 on 0, 352:512 on 1
    """
    tried: list[tuple[float, tuple[int, int, int], Shares]] = []
    far = farthest_strides(md_hom)
    for dim in md_hom.dims:
        if dim.extent > 1 and along in (None, dim.name):
            shares = Shares(dim.name, *edges_by_rates(dim.extent, rates))
            moved = _bytes(md_hom, dim, shares)
            if moved is not None:
                order = _rank(dim), -far[dim.name], -dim.extent
                tried.append((moved * _longest(shares, rates), order, shares))
    if not tried:
        return whole_on(rates, home)
    near = _ALIKE * min(cost for cost, _, _ in tried)
    shares = min((each for each in tried if each[0] <= near), key=lambda each: each[1])[2]
    if link is None or home is None or home >= len(rates):
        return shares
    return _over_link(md_hom, shares, rates, home, link)


def _over_link(
    md_hom: MDHom, shares: Shares, rates: Sequence[float], home: int, link: Link
) -> Shares:
    """The shares with which all devices finish at once, with copies over the link included."""
    extent = shares.edges[-1]
    alone = [link.seconds * rates[home] / rate for rate in rates]  # for the whole

    def copied(shares: Shares) -> dict[int, float]:
        """Seconds of the copies to and from each device other than the home one."""
        spans = zip(ranges_of(shares.edges), shares.devices, strict=True)
        return {
            device: _bytes_of(md_hom, shares, span) / link.rate
            for span, device in spans
            if device != home
        }

    parts = _parts(shares)
    slower = list(alone)
    for device, seconds in copied(shares).items():
        slower[device] += seconds / parts[device]
    found = Shares(shares.dim, *edges_by_rates(extent, [1 / seconds for seconds in slower]))
    copies = copied(found)
    last = max(part * alone[d] + copies.get(d, 0.0) for d, part in _parts(found).items())
    return found if last < _WORTH * link.seconds else whole_on(rates, home)


def _parts(shares: Shares) -> dict[int, float]:
    """Each device's fraction of all indices."""
    pairs = zip(ranges_of(shares.edges), shares.devices, strict=True)
    return {device: (high - low) / shares.edges[-1] for (low, high), device in pairs}


def _bytes_of(md_hom: MDHom, shares: Shares, span: tuple[int, int]) -> int:
    """Bytes that a device reads and writes for a range of the cut dim."""
    part = part_of(md_hom, {str(shares.dim): span})
    return bytes_read(md_hom, part) + sum(buffer.spec.nbytes for buffer in part.md_hom.outputs)


def whole_on(rates: Sequence[float], home: int | None = None) -> Shares:
    """One share for the whole: the `home` device if it is one of them, else the fastest.

    >>> whole_on((1.0, 3.0, 2.0))
    whole on 1
    """
    if home is not None and home < len(rates):
        return Shares(None, (), (home,))
    return Shares(None, (), (max(range(len(rates)), key=rates.__getitem__),))


def edges_by_rates(extent: int, rates: Sequence[float]) -> tuple[Edges, tuple[int, ...]]:
    """The cut points of a dim for devices of given rates, and the devices that get a part.

    >>> edges_by_rates(10, (1.0, 1.0, 3.0))
    ((0, 2, 4, 10), (0, 1, 2))
    >>> edges_by_rates(2, (1.0, 1.0, 100.0))
    ((0, 2), (2,))
    """
    step = next(each for each in _STEPS if extent >= each * _STEPS_EACH * len(rates) or each == 1)
    total = math.fsum(rates)
    ends = [round(extent * sofar / total / step) * step for sofar in itertools.accumulate(rates)]
    ends[-1] = extent
    edges, devices = [0], list[int]()
    for device, end in enumerate(min(end, extent) for end in ends):
        if end > edges[-1]:
            edges.append(end)
            devices.append(device)
    return tuple(edges), tuple(devices)


def _rank(dim: Dim) -> int:
    """The rank of a dim by its cost of combining parts: concatenated, reduced, scanned."""
    if isinstance(dim.combine, Concat):
        return 0
    return 1 if isinstance(dim.combine, Pointwise) else 2


def _longest(shares: Shares, rates: Sequence[float]) -> float:
    """The longest time of a device, relative to shares exactly in proportion to the rates."""
    extent, total = shares.edges[-1], math.fsum(rates)
    pairs = zip(ranges_of(shares.edges), shares.devices, strict=True)
    return max((high - low) / extent * total / rates[device] for (low, high), device in pairs)


def _bytes(md_hom: MDHom, dim: Dim, shares: Shares) -> int | None:
    """Bytes that all parts read and write in total; None where the dim cannot be cut so."""
    cuts = shares.cuts(md_hom)
    if allowed(md_hom, cuts) != cuts:
        return None
    try:
        parts = [part_of(md_hom, {dim.name: span}) for span in ranges_of(shares.edges)]
    except TranslationError:
        return None
    written = sum(buffer.spec.nbytes for buffer in md_hom.outputs)
    moved = sum(bytes_read(md_hom, part) for part in parts) + written
    partial = math.prod(d.extent for d in md_hom.kept)
    partial *= sum(dtype.itemsize for dtype in md_hom.scalar.result_dtypes)
    if isinstance(dim.combine, Pointwise):
        # Each part writes one; each combination reads two and writes one; the result is finished.
        moved += (4 * len(parts) - 2) * partial
    elif not isinstance(dim.combine, Concat):
        moved += 4 * partial
    return moved


def bytes_read(md_hom: MDHom, part: MDHomPart) -> int:
    """Bytes that a part reads."""
    inputs = zip(md_hom.inputs, part.reads, strict=True)
    return sum(points_of(box) * buffer.spec.dtype.itemsize for buffer, box in inputs)
