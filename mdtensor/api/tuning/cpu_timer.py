"""Timing on a processor, whose clock rate may change while it is measured.

A shared machine may run at half its speed for seconds, so the best run so far is done again
beside each that looks slow.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from mdtensor.autotune.paired_turns import Turns
from mdtensor.dataclass import dataclass

Run = Callable[[], None]

_SECONDS = 0.04
# A candidate that is slower than the incumbent by so much is timed for a quarter of that.
_CLEARLY = 1.25
_RUNS = 400
# A run that takes longer needs no other before it, and no company where many take turns.
LONG = 10e-3
_ROUNDS = 4
# The machine is slow while the best run takes this much longer than it did.
_SLOW = 1.1
_TRIES = 3
_RETRY_AFTER = 0.05
# Runs that take no longer are timed after pauses too, in which the device's threads fall asleep.
_SHORT = 100e-6
_PAUSE = 500e-6
_PAUSES = 8


class Clock(Protocol):
    """A clock for runs; the fastest run so far is its incumbent."""

    def timed(self, run: Run) -> float:
        """Seconds of one run."""
        ...

    def slowdown(self) -> float:
        """The factor, at least 1, by which the device is slower than at the incumbent's timing."""
        ...

    def steady(self, run: Run) -> tuple[float, float]:
        """The median time of a run and its spread, normalised to the device's usual pace."""
        ...

    def by_turns(self, runs: Sequence[Run | None], seconds: float = math.inf) -> Turns:
        """Times of runs, interleaved so that what slows one turn slows those beside it.

        Each has a turn at least, and as many as the others; none begins once the seconds are over.
        """
        ...


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The fastest run so far, the yardstick of the machine's pace."""

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
        """The factor by which the machine is slower than when the incumbent was timed."""
        if self.incumbent is None:
            return 1.0
        run, seconds = self.incumbent.run, self.incumbent.seconds
        if seconds >= LONG:
            return max(1.0, self.timed(run) / seconds)
        self.timed(run)
        now = statistics.median(self._repeated(run, _SECONDS / 4))
        return max(1.0, now / seconds)

    def steady(self, run: Run) -> tuple[float, float]:
        """The median time of a run and its spread, normalised to the incumbent's pace.

        Measured again when the machine has become slow; what it is slow by is taken off. Such a
        quotient makes no incumbent, since it would be what later ones are compared with.
        """
        tries = _TRIES
        while True:
            times = self._repeated(run, _SECONDS / 4)
            if (seconds := self._clearly_slower(statistics.median(times))) is not None:
                return seconds, spread_of(times)
            self._repeated(run, _SECONDS * 3 / 4, times)
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

    def _clearly_slower(self, middle: float) -> float | None:
        """The normalised time of a clearly slower candidate; None for one to be timed in full."""
        if self.incumbent is None or middle <= _CLEARLY * self.incumbent.seconds:
            return None
        slowdown = self.slowdown()
        seconds = middle if slowdown < _SLOW else middle / slowdown
        return seconds if seconds > _CLEARLY * self.incumbent.seconds else None

    def by_turns(self, runs: Sequence[Run | None], seconds: float = math.inf) -> Turns:
        """Times of runs, interleaved in turns.

        Short ones count as the mean of runs one after the other and of runs after pauses: between
        calls a program does other things, and what needs threads that are awake then is not best.
        """
        times: list[list[float]] = [[] for _ in runs]
        deadline = time.perf_counter() + seconds
        for number in range(_ROUNDS):
            if number and time.perf_counter() >= deadline:
                break
            for run, measured in zip(runs, times, strict=True):
                if run is not None:
                    measured.append(self._in_turn(run))
        return [measured or None for measured in times]

    def _in_turn(self, run: Run) -> float:
        if (first := self.timed(run)) >= LONG:
            return first
        seconds = statistics.median(self._repeated(run, _SECONDS / 4))
        return seconds if seconds >= _SHORT else (seconds + self._after_pauses(run)) / 2

    def _after_pauses(self, run: Run) -> float:
        times: list[float] = []
        for _ in range(_PAUSES):
            time.sleep(_PAUSE)
            times.append(self.timed(run))
        return statistics.median(times)

    def _repeated(self, run: Run, seconds: float, times: list[float] | None = None) -> list[float]:
        """Times of a run for some seconds, at least three, appended to `times`."""
        times = [] if times is None else times
        stop = time.perf_counter() + seconds
        while len(times) < 3 or (time.perf_counter() < stop and len(times) < _RUNS):
            times.append(self.timed(run))
        return times


def spread_of(times: Sequence[float]) -> float:
    """The interquartile range of times."""
    quartiles = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return quartiles[2] - quartiles[0]
