"""The time account of an online search: seconds earned by calls, and seconds spent."""

from __future__ import annotations

from typing import Any

from mdtensor.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome of background work: its seconds and its result."""

    seconds: float
    result: Any


class Account:
    """A budget of seconds that calls earn by running, and that a search spends.

    What will be done elsewhere is reserved first, and settled when it is known what it took: where
    that was more than was reserved, calls earn it back before anything else begins.
    """

    def __init__(self) -> None:
        self.earned = self.spent = self.reserved = 0.0

    @property
    def left(self) -> float:
        """The seconds that may be spent now."""
        return self.earned - self.spent - self.reserved

    def earn(self, seconds: float) -> None:
        """Adds earned seconds: a share of a call's."""
        self.earned += seconds

    def spend(self, seconds: float) -> None:
        """Subtracts seconds spent within a call."""
        self.spent += seconds

    def reserve(self, seconds: float) -> bool:
        """Reserves seconds for work that begins now; False where there are too few."""
        if seconds > self.left:
            return False
        self.reserved += seconds
        return True

    def settle(self, reserved: float, spent: float) -> None:
        """Replaces a reservation by the seconds actually spent."""
        self.reserved -= reserved
        self.spent += spent
