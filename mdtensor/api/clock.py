"""How long runs take on a processor, whose pace may change while it is measured.

A shared machine may run at half its speed for seconds, so the best run so far is done again
beside each that looks slow.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

Run = Callable[[], None]

_SECONDS = 0.04
_RUNS = 400
_ROUNDS = 7
# The machine is slow while the best run takes this much longer than it did.
_SLOW = 1.1
_TRIES = 3
_RETRY_AFTER = 0.05
# Runs that take no longer are timed after pauses too, in which the device's threads fall asleep.
_SHORT = 100e-6
_PAUSE = 500e-6
_PAUSES = 8


class Clock(Protocol):
    """Times runs; the best one so far is its incumbent."""

    def timed(self, run: Run) -> float:
        """Seconds of one run."""
        ...

    def slowdown(self) -> float:
        """By which factor the device is slower now than when the incumbent was timed; 1 or more."""
        ...

    def steady(self, run: Run) -> tuple[float, float]:
        """The median time of a run and its spread, at the device's usual pace."""
        ...

    def by_turns(self, runs: Sequence[Run | None]) -> list[float | None]:
        """Median times of runs that take turns, so that no lucky moment decides."""
        ...


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The fastest run so far, by which the machine's pace is told."""

    run: Run
    seconds: float


class HostClock:
    """The clock of a processor, for runs that return when they are done."""

    def __init__(self) -> None:
        self.incumbent: Incumbent | None = None
        # By which factor the machine has become slower for longer than retries take.
        self.usual = 1.0

    def timed(self, run: Run) -> float:
        """Seconds of one run."""
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    def slowdown(self) -> float:
        """By which factor the machine is slower now than when the incumbent was timed."""
        if self.incumbent is None:
            return 1.0
        self.timed(self.incumbent.run)
        now = statistics.median(self._repeated(self.incumbent.run, _SECONDS / 4))
        return max(1.0, now / self.incumbent.seconds)

    def steady(self, run: Run) -> tuple[float, float]:
        """The median time of a run and its spread, at the pace of the incumbent's time.

        Measured again when the machine has become slow; what it is slow by is taken off. Such a
        quotient makes no incumbent, since it would be what later ones are compared with.
        """
        tries = _TRIES
        while True:
            times = self._repeated(run, _SECONDS)
            middle, spread = statistics.median(times), spread_of(times)
            if self.incumbent is None or middle < self.incumbent.seconds:
                self.incumbent = Incumbent(run, middle)
                return middle, spread
            slowdown = self.slowdown()
            if slowdown < _SLOW:
                self.usual = 1.0
                return middle, spread
            tries -= 1
            if not tries or slowdown < _SLOW * self.usual:
                self.usual = slowdown
                return middle / slowdown, spread
            time.sleep(_RETRY_AFTER)

    def by_turns(self, runs: Sequence[Run | None]) -> list[float | None]:
        """Median times of runs that take turns, so that no lucky moment decides.

        Short ones count as the mean of runs one after the other and of runs after pauses: between
        calls a program does other things, and what needs threads that are awake then is not best.
        """
        times: list[list[float]] = [[] for _ in runs]
        for _ in range(_ROUNDS):
            for run, measured in zip(runs, times, strict=True):
                if run is not None:
                    run()
                    seconds = statistics.median(self._repeated(run, _SECONDS / 2))
                    if seconds < _SHORT:
                        seconds = (seconds + self._after_pauses(run)) / 2
                    measured.append(seconds)
        return [statistics.median(measured) if measured else None for measured in times]

    def _after_pauses(self, run: Run) -> float:
        times: list[float] = []
        for _ in range(_PAUSES):
            time.sleep(_PAUSE)
            times.append(self.timed(run))
        return statistics.median(times)

    def _repeated(self, run: Run, seconds: float) -> list[float]:
        stop = time.perf_counter() + seconds
        times: list[float] = []
        while len(times) < 3 or (time.perf_counter() < stop and len(times) < _RUNS):
            times.append(self.timed(run))
        return times


def spread_of(times: Sequence[float]) -> float:
    """How far the quartiles of times lie apart."""
    quartiles = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return quartiles[2] - quartiles[0]
