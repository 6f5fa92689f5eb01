"""Tasks of devices, and the boxes of arrays that they read and write."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from mdtensor.api.multi_device.shares import Shares
from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.rewrites.parts import Box


@dataclass(frozen=True, slots=True)
class SlotBox:
    """A box of a slot's array."""

    slot: int
    box: Box

    @property
    def key(self) -> Hashable:
        """A hashable key, equal for boxes of the same elements; slices have no hash."""
        return self.slot, tuple((axis.start, axis.stop, axis.step) for axis in self.box)

    def section(self, inside: Box) -> SlotBox:
        """A sub-box, by a box relative to this one."""
        pairs = zip(self.box, inside, strict=True)
        return SlotBox(self.slot, tuple(_within(axis, part) for axis, part in pairs))

    def led(self, lead: int) -> SlotBox:
        """The box extended by `lead` elements in front, along the last axis."""
        if not lead:
            return self
        last = self.box[-1]
        return SlotBox(self.slot, (*self.box[:-1], slice(last.start - lead, last.stop, last.step)))

    def overlaps(self, other: SlotBox) -> bool:
        """Whether two boxes may have an element in common."""
        pairs = zip(self.box, other.box, strict=True)
        return self.slot == other.slot and all(
            a.start < b.stop and b.start < a.stop for a, b in pairs
        )


@dataclass(frozen=True, slots=True)
class Task:
    """One unit of work of a device: an `md_hom` on slices of arrays, with scalar operands last.

    One that `updates` leaves some elements of what it writes as they are. It comes `after` some
    others, by their numbers. Its kernel's arrays begin so many elements before what it reads and
    writes as `leads` says, so that they are aligned.
    """

    step: int
    device: int
    md_hom: MDHom
    reads: tuple[SlotBox, ...]
    writes: tuple[SlotBox, ...]
    begins: tuple[int, ...]
    updates: bool
    after: tuple[int, ...]
    leads: tuple[int, ...]

    def waits_for(self, other: Task) -> bool:
        """Whether the task depends on one that was issued before it."""
        pairs: list[tuple[Sequence[SlotBox], Sequence[SlotBox]]] = [(self.reads, other.writes)]
        if self.step != other.step:  # the parts of a step write apart
            pairs += [(self.writes, other.reads), (self.writes, other.writes)]
        return any(a.overlaps(b) for mine, theirs in pairs for a in mine for b in theirs)

    @property
    def read_with_leads(self) -> Iterator[tuple[SlotBox, int]]:
        """The boxes read, each with its lead."""
        return zip(self.reads, self.leads, strict=False)

    @property
    def written_with_leads(self) -> Iterator[tuple[SlotBox, int]]:
        """The boxes written, each with its lead."""
        return zip(self.writes, self.leads[len(self.reads) :], strict=True)


@dataclass(frozen=True, slots=True)
class Tasks:
    """A computation on several devices: its tasks in order, and the shares of its steps.

    `specs` are the arrays of all slots, and `names` what they are: so many `operands` and
    `results`, each shard by itself, then temporaries and partial results. `places` are the numbers
    of the devices whose memory has them; where devices share memory, all are None.
    """

    operands: int
    results: int
    shares: tuple[Shares, ...]
    tasks: tuple[Task, ...]
    specs: tuple[TensorSpec, ...]
    places: tuple[int | None, ...]
    names: tuple[str, ...]

    def is_there(self, view: SlotBox, device: int) -> bool:
        """Whether a device can access an array in place."""
        return self.places[view.slot] in (None, device)


def spec_of_view(specs: Sequence[TensorSpec], view: SlotBox) -> TensorSpec:
    """The spec of a box of an array."""
    whole = specs[view.slot]
    shape = [len(range(axis.start, axis.stop, axis.step)) for axis in view.box]
    strides = [stride * axis.step for stride, axis in zip(whole.strides, view.box, strict=True)]
    return TensorSpec.of(shape, whole.dtype, strides)


def _within(axis: slice, part: slice) -> slice:
    start = axis.start + part.start * axis.step
    count = len(range(part.start, part.stop, part.step))
    step = axis.step * part.step
    return slice(start, start + (count - 1) * step + 1, step)
