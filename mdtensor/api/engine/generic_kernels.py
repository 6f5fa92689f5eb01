"""Structures: kernels generic in extents, and the cached decision of how to run each shape."""

from __future__ import annotations

import itertools
import math
import re
import weakref
from collections.abc import Callable
from dataclasses import field
from typing import Generic, TypeVar

from mdtensor.api.engine.launch_counter import TimeSpent
from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import key_form, key_pattern
from mdtensor.lower.schedule.schedule import Schedule

_MOST_ALIKE, _MOST_SIZES = 1024, 64
_MOST_NEIGHBOURS = 64  # that others are decided by,
_NEAR = 2  # with extents of so many binary digits more or less
_uses = itertools.count()
Kernel = TypeVar("Kernel")


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision for a shape: a general schedule, its number of groups, its expected seconds.

    It is `scaled` where the cost model was asked for another shape, which is near this one.
    """

    variant: Schedule
    groups: int
    seconds: float
    scaled: bool = False


@dataclass(slots=True)
class Alike:
    """The decisions cached for shapes whose extents have the same bit lengths.

    `decisions` are those of sizes for which the cost model was asked, `first` the first of them
    with its points. `is_ranked` says whether general schedules were ranked for one of the shapes.
    """

    decisions: Bounded[tuple[int, ...], Decision] = field(
        default_factory=lambda: Bounded[tuple[int, ...], Decision](_MOST_SIZES)
    )
    first: tuple[Decision, int] | None = None
    is_ranked: bool = False


# Without slots: in Python 3.12.3, generic classes that have some cannot be referred to weakly.
@dataclass
class Structure(Generic[Kernel]):
    """The general kernels of one structure, by schedule without parts.

    Shapes are known by the values of the structure's sizes, of which the first ones are extents.
    The structure with the greatest `used` was asked for last. Without a kernel, its launches are
    on accounts, its `evaluations`: those of shapes that get a kernel of their own first on their
    own, those of all others on None's.
    """

    general: Problem
    variants: dict[Schedule, Kernel] = field(default_factory=dict[Schedule, Kernel])
    wanted: set[Schedule] = field(default_factory=set[Schedule])
    pattern: str | None = field(init=False)
    form: re.Pattern[str] = field(init=False)
    used: int = field(default_factory=lambda: next(_uses))
    evaluations: Bounded[tuple[int, ...] | None, TimeSpent] = field(
        default_factory=lambda: Bounded[tuple[int, ...] | None, TimeSpent](_MOST_SIZES)
    )
    shapes: Bounded[tuple[int, ...], Alike] = field(
        default_factory=lambda: Bounded[tuple[int, ...], Alike](_MOST_ALIKE)
    )

    def __post_init__(self) -> None:
        self.pattern = key_pattern(self.general)
        self.form = key_form(self.general)

    @property
    def first_variant(self) -> Schedule:
        """The schedule of the first kernel, safe while another thread adds kernels."""
        first, *_ = tuple(self.variants)
        return first

    def touch(self) -> None:
        """Marks the structure as used most recently."""
        self.used = next(_uses)

    def add(self, variant: Schedule, kernel: Kernel) -> None:
        """Adds a kernel, and drops the decisions that were made without it."""
        self.variants[variant] = kernel
        for alike in list(self.shapes.values()):
            alike.first = None
            alike.decisions.clear()

    def decide(self, sizes: tuple[int, ...], decision: Decision) -> None:
        """Caches a decision of the cost model, for its shape and for near ones."""
        alike = self.alike(sizes)
        alike.decisions.keep(sizes, decision)
        alike.first = alike.first or (decision, self._points(sizes))

    def alike(self, sizes: tuple[int, ...]) -> Alike:
        """The cache entry for shapes with the same bit lengths of extents."""
        return self.shapes.made(self._lengths(sizes), Alike)

    def decided(self, sizes: tuple[int, ...], least: float, most: float) -> Decision | None:
        """The cached decision for a shape: its own, or a near shape's, scaled.

        Extents are near where their numbers of binary digits are; the seconds go with the number
        of points. None where there is no such shape, where it is clear that
        one thread would compute for `least` seconds or several for less than that, and from
        `most` seconds on, of which the cost model takes no part.
        """
        # Shapes that nobody decided leave nothing here.
        lengths = self._lengths(sizes)
        alike, found = self.shapes.get(lengths), None
        if alike is not None:
            if (known := alike.decisions.get(sizes)) is not None:
                return known
            found = alike.first
        found = found or self._near(lengths)
        if found is None:
            return None
        near, points = found
        seconds = near.seconds * self._points(sizes) / points
        if seconds >= most or (seconds > 2 * least if near.groups == 1 else seconds < least / 2):
            return None
        return Decision(near.variant, near.groups, seconds, scaled=True)

    def _near(self, lengths: tuple[int, ...]) -> tuple[Decision, int] | None:
        nearest, least = None, _NEAR + 1
        for others in list(self.shapes)[:_MOST_NEIGHBOURS]:
            distance = max([abs(a - b) for a, b in zip(lengths, others, strict=True)], default=0)
            alike = self.shapes.get(others)
            if distance < least and alike is not None and alike.first is not None:
                nearest, least = alike.first, distance
                if distance == 1:
                    break
        return nearest

    def _lengths(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Bit lengths of extents."""
        return tuple([extent.bit_length() for extent in sizes[: len(self.general.extents)]])

    def _points(self, sizes: tuple[int, ...]) -> int:
        return math.prod(sizes[: len(self.general.extents)])


class Reference(Generic[Kernel]):
    """A weak reference to a structure; one that was dropped is looked up again."""

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
