"""The time account of an online search: what calls earned for it, and what it took."""

from __future__ import annotations

from typing import Any

from mdtensor.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """What work elsewhere came to: the seconds that it took, and its result."""

    seconds: float
    result: Any


class Account:
    """Seconds that calls earned by running, and seconds that a search took from them.

    What will be done elsewhere is reserved first, and settled when it is known what it took: where
    that was more than was reserved, calls earn it back before anything else begins.
    """

    def __init__(self) -> None:
        self.earned = self.spent = self.reserved = 0.0

    @property
    def left(self) -> float:
        """What may be spent now."""
        return self.earned - self.spent - self.reserved

    def earn(self, seconds: float) -> None:
        """Adds what a call earned: a share of its seconds."""
        self.earned += seconds

    def spend(self, seconds: float) -> None:
        """Takes off what was done in a call beside what its caller asked for."""
        self.spent += seconds

    def reserve(self, seconds: float) -> bool:
        """Sets seconds apart for what begins now; False where there are not so many."""
        if seconds > self.left:
            return False
        self.reserved += seconds
        return True

    def settle(self, reserved: float, spent: float) -> None:
        """Takes off what was spent instead of what was reserved for it."""
        self.reserved -= reserved
        self.spent += spent
