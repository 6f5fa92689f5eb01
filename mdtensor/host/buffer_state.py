"""Coherence state of a buffer: per range, where valid copies are and which commands use them."""

from __future__ import annotations

import bisect
from dataclasses import field

from mdtensor.dataclass import dataclass
from mdtensor.host.host_devices import Device, DeviceCommand

HOST = None  # the place of what lies in the host's memory
Place = Device | None
MOST_RANGES = 64  # until neighbours are joined
MOST_COMMANDS = 16  # of a range and a place, until those that are done are dropped


@dataclass(slots=True)
class Range:
    """A range of elements with one coherence state.

    `newest` are the places that have them, each with the command that brings or computes them
    there, or None once they are there; none at all until elements are written first. `used` are
    the commands that read or write these elements at a place, which a later write there waits
    for. `is_lent` says that the caller has a view of them in the host's memory.
    """

    begin: int
    end: int
    newest: dict[Place, DeviceCommand | None] = field(
        default_factory=dict[Place, "DeviceCommand | None"]
    )
    used: dict[Place, list[DeviceCommand]] = field(
        default_factory=dict[Place, "list[DeviceCommand]"]
    )
    is_lent: bool = False

    def use(self, place: Place, command: DeviceCommand) -> None:
        """Record a command that reads the range at a place."""
        users = self.used.setdefault(place, [])
        # Where most of many are not done, they are asked again when there are twice as many.
        if len(users) >= MOST_COMMANDS and len(users).bit_count() == 1:
            users[:] = [user for user in users if not user.is_done()]
        users.append(command)

    def write(self, place: Place, command: DeviceCommand | None) -> None:
        """Invalidate all copies but the one at `place`, valid after `command`."""
        self.newest = {place: command}
        self.used[place] = [] if command is None else [command]

    def before_write(self, place: Place) -> list[DeviceCommand]:
        """The commands that a write to the range at a place has to wait for."""
        brought = self.newest.get(place)
        return [*self.used.get(place, ()), *([] if brought is None else [brought])]

    def _settle(self) -> None:
        """Drop completed commands."""
        self.newest = {
            place: None if command is None or command.is_done() else command
            for place, command in self.newest.items()
        }
        waiting = {p: [c for c in used if not c.is_done()] for p, used in self.used.items()}
        self.used = {place: used for place, used in waiting.items() if used}

    def settled(self) -> tuple[object, ...]:
        """The state, without completed commands; neighbours with equal states are merged."""
        self._settle()
        return self.newest, self.used, self.is_lent


class BufferState:
    """The ranges of a buffer, contiguous and in order."""

    def __init__(self, size: int, *, is_filled: bool) -> None:
        self.ranges = [Range(0, size, {HOST: None} if is_filled else {})] if size else []

    def within(self, begin: int, end: int) -> list[Range]:
        """The ranges of elements `begin` to `end`, split at these bounds."""
        if begin >= end:
            return []
        if len(self.ranges) > MOST_RANGES:
            self._join()
        first, last = self._cut(begin), self._cut(end)
        return self.ranges[first:last]

    def written(self, begin: int, end: int, place: Place, command: DeviceCommand | None) -> None:
        """Record a command that writes all these elements, after all others on them."""
        for each in self.within(begin, end):
            each.write(place, command)

    def _cut(self, at: int) -> int:
        """Split the ranges at an element; the position of the range that begins there."""
        n = bisect.bisect_left(self.ranges, at, key=lambda each: each.begin)
        if n < len(self.ranges) and self.ranges[n].begin == at:
            return n
        before = self.ranges[n - 1]
        if at >= before.end:
            return n
        used = {place: [*commands] for place, commands in before.used.items()}
        behind = Range(at, before.end, {**before.newest}, used, before.is_lent)
        before.end = at
        self.ranges.insert(n, behind)
        return n

    def _join(self) -> None:
        joined: list[Range] = []
        for each in self.ranges:
            if joined and joined[-1].settled() == each.settled():
                joined[-1].end = each.end
            else:
                joined.append(each)
        self.ranges = joined
