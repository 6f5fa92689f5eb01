"""The online search of one computation, which advances within its calls.

A call runs the kernel that is trusted, into the caller's arrays, always. What is left of the share
of its time goes to candidates, which run into memory of their own.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

from mdtensor.api.tuning.online.background_workshop import BackgroundWorkshop
from mdtensor.api.tuning.online.call_check import CallCheck
from mdtensor.api.tuning.online.call_trial import CallTrial, Candidate
from mdtensor.api.tuning.online.time_account import Account, Done
from mdtensor.backends.protocol import CompiledProgram
from mdtensor.dataclass import dataclass
from mdtensor.errors import MdtensorError
from mdtensor.kernels.kernel_source import ALIGNMENT, KernelSource
from mdtensor.lower.schedule.schedule import Schedule

Array = Any
Launch = Callable[..., None]
Work = Callable[[], Any]

# Seconds that a call takes longer in this mode: it is looked up as one of a mode, and timed.
LOOKING_S = 3e-6
# After so many calls, a search ends for which these earn less than they take longer.
_CALLS = 1000
_TICK = 1e-9  # seconds that no clock tells apart
_TRIES = 5  # to have something proposed
_RECENT = 31  # calls of the trusted kernel whose times are remembered


@dataclass(frozen=True, slots=True)
class Trusted:
    """The kernel that calls run; `is_general` if its sizes are arguments instead of constants."""

    program: CompiledProgram
    source: KernelSource
    schedule: Schedule
    is_general: bool
    is_winner: bool = False

    def is_like(self, source: KernelSource, schedule: Schedule) -> bool:
        """Whether a schedule or source gives this same kernel."""
        if not self.is_general and schedule == self.schedule:
            return True
        return source.text == self.source.text


class OnlineSearch:
    """A search that tries candidates in the calls of one computation. Safe for threads and forks.

    One call at a time is timed and earns; others just run. Nothing is waited for: in the child of a
    fork a search may stand still for good.
    """

    def __init__(
        self,
        workshop: BackgroundWorkshop,
        checks: Callable[[], CallCheck],
        check_seconds: float,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.account = Account()
        self.is_over = False
        self.trials = 0
        self._workshop, self._checks, self._clock = workshop, checks, clock
        self._check_seconds = check_seconds
        # What was tried cost so many seconds, at the pace of the first kernel that was trusted;
        # None where it failed. `level` is what the trusted one costs.
        self._costs: dict[Schedule, float | None] = {}
        self._level = 0.0
        self._cost: float | None = None  # of what was tried last
        self._has_begun = self._is_explored = False  # the space of all schedules
        self._one = threading.Lock()  # whose call is timed; nobody waits for it
        self._calls = 0
        self._trusted: Trusted | None = None
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._was_plain = False
        self._check: CallCheck | None = None
        self._trial: CallTrial | None = None
        # What is to be kept, with its seconds.
        self._winner: tuple[Candidate, float] | None = None
        self._was_finished = False
        self._tries = 0
        self._proposals: deque[tuple[float, Schedule]] | None = None
        # What is done elsewhere now: the seconds that were reserved, and what its result goes to.
        self._asked: tuple[float, Callable[[Any], None]] | None = None
        self._done: SimpleQueue[Done] = SimpleQueue()

    @property
    def times(self) -> Sequence[float]:
        """The seconds of the current candidate's turns."""
        return () if self._trial is None else tuple(self._trial.seconds)

    def call(self, trusted: Trusted, launch: Launch, arrays: Sequence[Array], share: float) -> None:
        """Runs a trusted launch for its caller, with a step of the search where one is due.

        Of the launch's seconds, such a `share` is earned.
        """
        if self.is_over or not self._one.acquire(blocking=False):
            launch(*arrays)
            return
        try:
            self._timed(trusted, launch, arrays, share)
        finally:
            self._one.release()

    def _timed(
        self, trusted: Trusted, launch: Launch, arrays: Sequence[Array], share: float
    ) -> None:
        if trusted is not self._trusted:
            self._trust(trusted, self._trusted)
        trial = self._due(arrays)
        checks = trial is not None and trial.wants_check
        if trial is not None and not checks:
            self._take_turn(trial, arrays)
        began = self._clock()
        launch(*arrays)
        seconds = self._clock() - began
        self.account.earn(share * seconds)
        self.account.spend(LOOKING_S)
        if trial is None:
            self._recent.append(seconds)
            self._advance()
        elif checks:
            self._check_trial(trial, arrays)
        self._was_plain = trial is None

    def _trust(self, trusted: Trusted, before: Trusted | None) -> None:
        """Sets the trusted kernel; times taken with another one are dropped."""
        self._trusted = trusted
        if before is not None and trusted.source.text == before.source.text:
            return
        self._was_plain = False
        self._recent.clear()
        if self._trial is not None:
            self._trial.begin_again()
            if trusted.is_like(self._trial.candidate.source, self._trial.candidate.schedule):
                self._end_trial(self._trial, self._level or None)

    def _due(self, arrays: Sequence[Array]) -> CallTrial | None:
        """The trial to continue in this call, if the call before was plain and time is earned.

        A candidate for aligned arrays ends on others, for which it would be compiled again.
        """
        trial = self._trial
        if trial is None or not self._was_plain:
            return None
        if trial.candidate.source.unaligned is not None and not all(map(_is_aligned, arrays)):
            self._end_trial(trial, None)
            return None
        seconds = trial.expected(self._recent[-1])
        if trial.wants_check:
            seconds += self._recent[-1] + self._check_seconds
        return trial if seconds <= self.account.left else None

    def _take_turn(self, trial: CallTrial, arrays: Sequence[Array]) -> None:
        """Times a candidate ahead of the trusted launch, with caches as calls find them."""
        assert self._check is not None
        self._end_trial(trial, None)  # whatever is raised now
        began = self._clock()
        try:
            self._check.run(trial.run, arrays)
        except (MdtensorError, MemoryError):
            return
        finally:
            seconds = self._clock() - began
            self.account.spend(seconds)
        trial.seconds.append(seconds)
        trial.trusted.append(self._recent[-1])
        if trial.verdict == "worse":
            self._end_trial(trial, self._cost_of(trial))
        else:
            self._trial = trial

    def _check_trial(self, trial: CallTrial, arrays: Sequence[Array]) -> None:
        """Compares a candidate's results with the trusted kernel's, after the caller's launch."""
        assert self._check is not None and self._trusted is not None
        self._end_trial(trial, None)
        began = self._clock()
        try:
            trusted = self._trusted.program.launcher()
            wrong = self._check.wrong(trusted, trial.run, arrays)
        except (MdtensorError, MemoryError):
            return
        finally:
            self.account.spend(self._clock() - began)
        if wrong:
            return
        trial.checks += 1
        if trial.verdict == "better":
            self._level = self._cost_of(trial)
            self._winner = trial.candidate, statistics.median(trial.seconds)
            self._end_trial(trial, self._level)
        else:
            self._trial = trial

    def _cost_of(self, trial: CallTrial) -> float:
        """A candidate's cost: its turns relative to the trusted kernel, at the first one's pace."""
        self._level = self._level or statistics.median(trial.trusted)
        pairs = zip(trial.seconds, trial.trusted, strict=True)
        return self._level * statistics.median(
            [ours / max(theirs, _TICK) for ours, theirs in pairs]
        )

    def _end_trial(self, trial: CallTrial, cost: float | None) -> None:
        self._note(trial.candidate.schedule, cost)
        self._trial = None

    def _note(self, schedule: Schedule, cost: float | None) -> None:
        self._costs[schedule] = self._cost = cost

    def _advance(self) -> None:
        """Collects finished background work, or starts the next one once its time is earned."""
        self._calls += 1
        if self._asked is not None:
            if not self._done.empty():
                (reserved, then), self._asked = self._asked, None
                done = self._done.get()
                self.account.settle(reserved, done.seconds)
                then(done.result)
            return
        if self._trial is not None:
            return
        if self._winner is not None:
            if (told := self._told("keep", lambda _: None)) is not None:
                self._workshop.keep(*self._winner, self.trials, told)
                self._winner = None
        elif self._calls == _CALLS and self.account.earned < self._calls * LOOKING_S:
            self._end()
        elif self._proposals is None:
            if (told := self._told("propose", self._take_proposals)) is not None:
                assert self._trusted is not None
                self._workshop.propose(self._trusted.schedule, told)
        elif self._proposals:
            if (told := self._told("compile", self._take_candidate)) is not None:
                self._workshop.compile(*self._proposals.popleft(), told)
        elif self._workshop.can_explore and not self._is_explored:
            self._explore()
        else:
            self._finish()

    def _explore(self) -> None:
        """Requests the space's next candidate, once its time is earned and the explorer is free."""
        work = "go on" if self._has_begun else "explore"
        is_paid = self._workshop.usual_seconds(work) <= self.account.left
        if not is_paid or not self._workshop.may_explore():
            return
        if (told := self._told(work, self._take_explored)) is None:
            return
        if self._has_begun:
            self._workshop.go_on(self._cost, told)
        else:
            self._has_begun = True
            self._workshop.explore(tuple(self._costs.items()), told)

    def _take_explored(self, candidate: Candidate | None) -> None:
        if candidate is None:
            self._is_explored = True
        else:
            self._take_candidate(candidate)

    def _told(self, work: str, then: Callable[[Any], None]) -> Callable[[Done], None] | None:
        """A callback for work that begins now; None where its seconds are not earned yet."""
        seconds = self._workshop.usual_seconds(work)
        if not self.account.reserve(seconds):
            return None
        self._asked = seconds, then
        return self._done.put

    def _take_proposals(self, proposals: Sequence[tuple[float, Schedule]] | None) -> None:
        """Stores the proposals; None, where the model was late, is requested again."""
        self._tries += 1
        if proposals is not None or self._tries == _TRIES:
            self._proposals = deque(proposals or ())

    def _take_candidate(self, candidate: Candidate | None) -> None:
        """Begins the trial of a candidate, unless it equals the trusted kernel."""
        trusted = self._trusted
        assert trusted is not None
        if candidate is None:
            return
        if trusted.is_like(candidate.source, candidate.schedule):
            self._note(candidate.schedule, self._level or None)
            return
        try:
            self._check = self._check or self._checks()
        except MemoryError:
            self._end()
            return
        self.trials += 1
        self._trial = CallTrial(candidate, candidate.program.launcher())

    def _finish(self) -> None:
        """Ends the search; a specialised kernel that no candidate beat is kept as the winner."""
        trusted = self._trusted
        is_own = trusted is not None and not (trusted.is_general or trusted.is_winner)
        if trusted is not None and is_own and self.trials and not self._was_finished:
            kept = Candidate(trusted.schedule, trusted.source, trusted.program)
            self._winner = kept, statistics.median(self._recent)
            self._was_finished = True
        else:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        self._workshop.end()
        self._trial = self._check = None
        self._proposals = deque()


def _is_aligned(array: Array) -> bool:
    return array.__array_interface__["data"][0] % ALIGNMENT == 0
