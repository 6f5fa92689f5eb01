"""Reports on tuning, one per computation, with a summary of all."""

from __future__ import annotations

import math
from collections.abc import Iterable

from mdtensor.api.tuning.search_options import Tradeoff
from mdtensor.autotune.progress import format_time
from mdtensor.dataclass import dataclass
from mdtensor.errors import count_of


@dataclass(frozen=True, slots=True)
class TuningReport:
    """The result of tuning one computation.

    Trials made now, the winner's seconds and those of what runs untuned, measured beside it, how
    long it took, and how often the computation was called while it was recorded. One without trials
    that is not `cached` is one for which the budget had no time. `front` has the schedule that is
    best by the first objective, and then those that are better by others; where values were fixed,
    it has these, and calls may have something faster.
    """

    label: str
    trials: int
    failed: int
    seconds: float | None
    elapsed: float
    cached: bool
    interrupted: bool
    untuned: float | None = None
    calls: int = 1
    front: tuple[Tradeoff, ...] = ()

    @property
    def gain(self) -> float | None:
        """The winner's speed-up over the untuned kernel; None where either time is missing."""
        if self.seconds is None or self.untuned is None:
            return None
        return self.untuned / self.seconds

    def __str__(self) -> str:
        if self.cached:
            return f"{self.label}: from the cache, 0 trials"
        if not self.trials:
            why = "interrupted" if self.interrupted else "the budget had no time for it"
            return f"{self.label}: not tuned, {why}"
        best = "nothing found" if self.seconds is None else format_time(self.seconds)
        if self.gain is not None and self.untuned is not None:
            best += f", {self.gain:.2f}x as fast as untuned ({format_time(self.untuned)}),"
        note = ", interrupted" if self.interrupted else ""
        trials = count_of(self.trials, "trial", "trials")
        line = f"{self.label}: {best} after {trials} in {self.elapsed:.0f} s{note}"
        return "\n".join((line, *(f"  {each}" for each in self.front if len(self.front) > 1)))


class TuningReports(list[TuningReport]):
    """The reports of one run, in the order in which the computations were given.

    As a text several are numbered; the last line is on all of them.

    >>> report = TuningReport("dot", 9, 1, 2e-6, 3.0, False, False, untuned=3e-6, calls=5)
    >>> print(TuningReports([report, report]))
    1 of 2: dot: 2.00 µs, 1.50x as fast as untuned (3.00 µs), after 9 trials in 3 s
    2 of 2: dot: 2.00 µs, 1.50x as fast as untuned (3.00 µs), after 9 trials in 3 s
    2 computations tuned, 0 from the cache: 18 trials in 6 s; 1.50x as fast as untuned in all
    """

    def __str__(self) -> str:
        lines = list(map(str, self))
        if len(self) > 1:
            lines = [f"{number} of {len(self)}: {line}" for number, line in enumerate(lines, 1)]
        return "\n".join((*lines, self.summary()))

    def summary(self) -> str:
        """One line on all reports, also where nothing had to be measured."""
        trials = count_of(sum(report.trials for report in self), "trial", "trials")
        known = sum(report.cached for report in self)
        if known == len(self):
            return f"everything came from the cache: {_computations(known)}, 0 trials"
        untouched = sum(not (report.cached or report.trials) for report in self)
        seconds = sum(report.elapsed for report in self)
        tuned = _computations(len(self) - known - untouched)
        rest = f", {untouched} not tuned" if untouched else ""
        gain = (
            ""
            if (all_in_all := _gain(self)) is None
            else f"; {all_in_all:.2f}x as fast as untuned in all"
        )
        return f"{tuned} tuned, {known} from the cache{rest}: {trials} in {seconds:.0f} s{gain}"


def _gain(reports: Iterable[TuningReport]) -> float | None:
    """The speed-up of all calls together, over the computations with both times measured."""
    tuned = [r for r in reports if r.gain is not None]
    before = math.fsum(r.calls * (r.untuned or 0.0) for r in tuned)
    after = math.fsum(r.calls * (r.seconds or 0.0) for r in tuned)
    return before / after if after else None


def _computations(count: int) -> str:
    return count_of(count, "computation", "computations")
