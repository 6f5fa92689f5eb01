"""Deadlines: a time budget that several operations share."""

from __future__ import annotations

import time
from collections.abc import Callable

_MOST = 1e9  # seconds: threads cannot wait for longer


class Deadline:
    """A point in time, `seconds` from now by `clock`.

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
        """Seconds until the deadline; 0 once it has passed."""
        return max(0.0, self._at - self.clock())

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self.clock() >= self._at

    def within(self, seconds: float) -> Deadline:
        """The earlier of this deadline and one `seconds` from now."""
        return Deadline(min(seconds, self._at - self.clock()), self.clock)
