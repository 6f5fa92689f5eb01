"""The trial of a candidate in a user's calls: checked, timed by turns, checked again."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import field
from typing import Literal

from mdtensor.backends.protocol import CompiledProgram
from mdtensor.dataclass import dataclass
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.schedule.schedule import Schedule

Verdict = Literal["open", "worse", "better"]

# Turns of a candidate, and how many of them must be faster than the calls just before.
TURNS, WINS = 15, 12
# A winner takes at most so much of what the trusted kernel takes; what Python code around that one
# takes, which the candidate runs without, is no gain.
_WORTH, _AROUND_S = 0.97, 1e-6
# A candidate is given up whose fastest of so many turns takes so much longer.
_HOPELESS, _HOPELESS_AFTER = 1.25, 2
# A candidate takes no more than this many times what the model expects, as long as nobody ran it.
_DOUBT = 1.5
# Candidates are tried up to so many times the seconds of the best one, as the model expects.
MOST_EXPECTED = 3.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A compiled candidate, `expected` to take that multiple of the best one's time."""

    schedule: Schedule
    source: KernelSource
    program: CompiledProgram
    expected: float = 1.0


@dataclass(slots=True)
class CallTrial:
    """The state of a candidate's trial: its times, each beside the trusted call before it."""

    candidate: Candidate
    run: Callable[..., None]
    checks: int = 0
    seconds: list[float] = field(default_factory=list[float])
    trusted: list[float] = field(default_factory=list[float])

    @property
    def wants_check(self) -> bool:
        """Whether results are compared next: first of all, and again before it is kept."""
        return self.checks == 0 or (self.checks == 1 and self.verdict == "better")

    @property
    def verdict(self) -> Verdict:
        """Whether the candidate beats the trusted kernel, by the turns so far."""
        turns = len(self.seconds)
        if turns >= _HOPELESS_AFTER and min(self.seconds) > _HOPELESS * max(self.trusted):
            return "worse"
        pairs = zip(self.seconds, self.trusted, strict=True)
        losses = sum(seconds + _AROUND_S >= trusted for seconds, trusted in pairs)
        if losses > TURNS - WINS:
            return "worse"
        if turns < TURNS:
            return "open"
        limit = _WORTH * statistics.median(self.trusted) - _AROUND_S
        return "better" if statistics.median(self.seconds) <= limit else "worse"

    def expected(self, trusted: float) -> float:
        """An upper bound on the seconds of a run, given a call of the trusted kernel."""
        if self.seconds:
            return _DOUBT * max(self.seconds[-1], statistics.median(self.seconds))
        return _DOUBT * min(MOST_EXPECTED, max(1.0, self.candidate.expected)) * trusted

    def begin_again(self) -> None:
        """Clears all times, since the trusted kernel has changed."""
        self.seconds.clear()
        self.trusted.clear()
