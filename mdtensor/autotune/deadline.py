"""Deadlines: what is left of a time that several things share."""

from __future__ import annotations

import time
from collections.abc import Callable

_MOST = 1e9  # seconds: threads cannot wait for longer


class Deadline:
    """A moment by which something shall end, so many seconds of a `clock` from now.

    >>> Deadline(60).within(2).left <= 2
    True
    >>> Deadline(0).is_over
    True
    """

    __slots__ = ("_at", "clock")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._at = clock() + min(seconds, _MOST)

    @property
    def left(self) -> float:
        """The seconds until then; none once it is over."""
        return max(0.0, self._at - self.clock())

    @property
    def is_over(self) -> bool:
        """Whether that moment has passed."""
        return self.clock() >= self._at

    def within(self, seconds: float) -> Deadline:
        """The same deadline, or one so many seconds from now if that is earlier."""
        return Deadline(min(seconds, self._at - self.clock()), self.clock)
