"""Structures: kernels that are generic in shapes, and the decision how each shape is computed."""

from __future__ import annotations

import itertools
import math
import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mdtensor.bounded import Bounded
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import key_form, key_pattern
from mdtensor.lower.schedule.schedule import Schedule

_MOST_SHAPES = 64  # that others are decided by,
_NEAR = 2  # with extents of so many binary digits more or less
_MOST_DECISIONS = 4096
_uses = itertools.count()
Kernel = TypeVar("Kernel")


@dataclass(frozen=True, slots=True)
class Decision:
    """How a shape is computed: by which general schedule, among how many groups; seconds."""

    variant: Schedule
    groups: int
    seconds: float


@dataclass(slots=True, weakref_slot=True)
class Structure(Generic[Kernel]):
    """The general kernels of one structure, by their schedule without parts.

    Shapes are known by the values of the structure's sizes, of which the first ones are extents.
    `decisions` are those of shapes for which the cost model was asked. The one with the greatest
    `used` was asked for last.
    """

    general: Problem
    variants: dict[Schedule, Kernel] = field(default_factory=dict[Schedule, Kernel])
    wanted: set[Schedule] = field(default_factory=set[Schedule])
    pattern: str | None = field(init=False)
    form: re.Pattern[str] = field(init=False)
    used: int = field(default_factory=lambda: next(_uses))
    decisions: Bounded[tuple[int, ...], Decision] = field(
        default_factory=lambda: Bounded[tuple[int, ...], Decision](_MOST_DECISIONS)
    )
    _ranked: Bounded[tuple[int, ...], None] = field(
        default_factory=lambda: Bounded[tuple[int, ...], None](_MOST_DECISIONS)
    )
    _typical: dict[tuple[int, ...], tuple[Decision, int]] = field(
        default_factory=dict[tuple[int, ...], tuple[Decision, int]]
    )

    def __post_init__(self) -> None:
        self.pattern = key_pattern(self.general)
        self.form = key_form(self.general)

    def touch(self) -> None:
        """Marks the structure as used most recently."""
        self.used = next(_uses)

    def add(self, variant: Schedule, kernel: Kernel) -> None:
        """Adds a kernel, and drops the decisions that were made without it."""
        self.variants[variant] = kernel
        self.decisions.clear()
        self._typical.clear()

    def decide(self, sizes: tuple[int, ...], decision: Decision) -> None:
        """Keeps a decision of the cost model, for the shape and for shapes near it."""
        self.decisions.keep(sizes, decision)
        extents = sizes[: len(self.general.extents)]
        if len(self._typical) < _MOST_SHAPES:
            self._typical.setdefault(_lengths(extents), (decision, math.prod(extents)))

    def is_unlike_others(self, sizes: tuple[int, ...]) -> bool:
        """Whether no shape with the same bit lengths of extents was asked for before."""
        known = _lengths(sizes[: len(self.general.extents)]) in self._ranked
        self.keep_ranked(sizes)
        return not known

    def keep_ranked(self, sizes: tuple[int, ...]) -> None:
        """Notes that general schedules were ranked for a shape, and so for those like it."""
        self._ranked.keep(_lengths(sizes[: len(self.general.extents)]), None)

    def decided(self, sizes: tuple[int, ...], least: float, most: float) -> Decision | None:
        """The decision for a shape: its own, or that of a nearby shape, scaled.

        Extents are near where their numbers of binary digits are; the seconds go with the number
        of points. None where there is no such shape, where it is clear that
        one thread would compute for `least` seconds or several for less than that, and from
        `most` seconds on, of which the cost model takes no part.
        """
        if (known := self.decisions.get(sizes)) is not None:
            return known
        extents = sizes[: len(self.general.extents)]
        found = self._near(_lengths(extents))
        if found is None:
            return None
        near, points = found
        seconds = near.seconds * math.prod(extents) / points
        if seconds >= most or (seconds > 2 * least if near.groups == 1 else seconds < least / 2):
            return None
        return Decision(near.variant, near.groups, seconds)

    def _near(self, lengths: tuple[int, ...]) -> tuple[Decision, int] | None:
        if (same := self._typical.get(lengths)) is not None:
            return same
        nearest, least = None, _NEAR + 1
        for others, found in tuple(self._typical.items()):
            distance = max([abs(a - b) for a, b in zip(lengths, others, strict=True)], default=0)
            if distance < least:
                nearest, least = found, distance
            if distance == 1:
                break
        return nearest


class Reference(Generic[Kernel]):
    """A weak reference to a structure, which is looked up again if it was dropped."""

    def __init__(self, found: Structure[Kernel], look: Callable[[Problem], Structure[Kernel]]):
        self.general = found.general
        self._look = look
        self._known = weakref.ref(found)

    def __call__(self) -> Structure[Kernel]:
        """The structure, marked as used."""
        found = self._known()
        if found is None:
            found = self._look(self.general)
            self._known = weakref.ref(found)
        found.touch()
        return found


def _lengths(extents: Sequence[int]) -> tuple[int, ...]:
    """Bit lengths."""
    return tuple([extent.bit_length() for extent in extents])
