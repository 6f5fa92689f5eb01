"""Progress display of a search: a live line in a terminal, else a line now and then."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from mdtensor.autotune.trial import Measured

if TYPE_CHECKING:
    from rich.live import Live

_LEAST_TITLE = 12  # letters: of fewer nobody can tell what they are of


class ProgressLine:
    """Shows the best result, counts and time left; pass it to a search as `on_trial`.

    In a terminal one line is kept up to date (by rich, imported only then), whose title, the last
    part, is shortened in its middle to fit; elsewhere a line is written every `interval_s` seconds.
    `place` is the number of this search and that of all. `quiet` writes nothing at all. Writes to
    standard error unless given a stream.

    >>> with ProgressLine(budget_s=30, quiet=True) as progress:
    ...     print(progress.line())
    no result yet | 0 trials | 30 s left
    """

    def __init__(
        self,
        *,
        budget_s: float,
        max_trials: int | None = None,
        title: str = "",
        place: tuple[int, int] | None = None,
        quiet: bool = False,
        stream: TextIO | None = None,
        interval_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget_s = budget_s
        self._max_trials = max_trials
        self._title = title
        self._place = place
        self._quiet = quiet
        self._stream = stream if stream is not None else sys.stderr
        self._interval_s = interval_s
        self._clock = clock
        self._began = self._last_written = clock()
        self._live: Live | None = None
        self._trials = self._failed = self._rejected = 0
        self._first = self._best = math.inf

    def __enter__(self) -> Self:
        self._began = self._last_written = self._clock()
        if not self._quiet and self._stream.isatty():
            from rich.console import Console
            from rich.live import Live
            from rich.text import Text

            # Rendered anew several times a second: the time left goes on between trials.
            console = Console(file=self._stream)
            self._live = Live(
                console=console,
                get_renderable=lambda: Text(
                    self.line(console.width), no_wrap=True, overflow="ellipsis"
                ),
            )
            self._live.start()
        return self

    def __call__(self, measured: Measured) -> None:
        """Count a trial, and write a line if it is time.

        A configuration that is rejected unmeasured is no trial, and no failure.
        """
        cost = measured.trial.cost
        is_rejected = measured.trial.status == "rejected"
        self._rejected += is_rejected
        self._trials += not is_rejected
        if cost == math.inf:
            self._failed += not is_rejected
        elif self._first == math.inf:
            self._first = cost
        self._best = min(self._best, cost)
        if self._live is None and self._clock() - self._last_written >= self._interval_s:
            self._write()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        else:
            self._write()

    def _write(self) -> None:
        self._last_written = self._clock()
        if not self._quiet:
            print(self.line(), file=self._stream, flush=True)

    def line(self, width: int | None = None) -> str:
        """The state in one line, with as much of the title as fits in a width."""
        elapsed = self._clock() - self._began
        parts = [] if self._place is None else ["{} of {}".format(*self._place)]
        parts.append(self._best_part())
        total = "" if self._max_trials is None else f" of {self._max_trials}"
        failed = f", {self._failed} failed" if self._failed else ""
        rejected = f", {self._rejected} rejected" if self._rejected else ""
        noun = "trial" if self._trials == 1 and not total else "trials"
        parts.append(f"{self._trials}{total} {noun}{failed}{rejected}")
        if self._trials and elapsed > 0:
            parts.append(f"{60 * self._trials / elapsed:.0f}/min")
        parts.append(f"{format_duration(max(self._budget_s - elapsed, 0.0))} left")
        room = math.inf if width is None else width - len(" | ".join((*parts, "")))
        title = shortened(self._title, room)
        return " | ".join((*parts, title) if title else parts)

    def _best_part(self) -> str:
        if self._best == math.inf:
            return "no result yet"
        best = f"best {format_time(self._best)}"
        if self._best == 0 or self._first == self._best:
            return best
        return f"{best}, {self._first / self._best:.2f}x the first"


def shortened(text: str, room: float) -> str:
    """A text with its middle elided to fit `room` characters; empty where that is tiny.

    >>> shortened("md_hom[i:64, j:32](mul, (cc, pw(add)))", 26)
    'md_hom[i:64, …c, pw(add)))'
    """
    if len(text) <= room:
        return text
    if room < _LEAST_TITLE:
        return ""
    kept = int(room) - 1
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


def format_time(seconds: float) -> str:
    """A kernel's time with three digits, in the unit that suits it.

    >>> format_time(3.4567e-6), format_time(0.0123), format_time(2.5), format_time(4e-8)
    ('3.46 µs', '12.3 ms', '2.50 s', '40.0 ns')
    """
    units = (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3))
    # Three digits of 999.5 would be 1000.
    fitting = (each for each in units if seconds < 999.5 * each[1])
    unit, factor = next(fitting, ("s", 1.0))
    value = seconds / factor
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def format_duration(seconds: float) -> str:
    """A duration, in whole seconds.

    >>> format_duration(7.2), format_duration(75), format_duration(7300), format_duration(math.inf)
    ('7 s', '1:15 min', '2:01 h', 'any time')
    """
    if seconds == math.inf:
        return "any time"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"
