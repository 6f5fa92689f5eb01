"""The workshop of an online search: it proposes, compiles and keeps candidates."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import ranked, replaced
from mdtensor.api.engine.stored_schedules import with_schedules
from mdtensor.api.tuning.favourites import favourites
from mdtensor.api.tuning.online.call_check import read_bytes
from mdtensor.api.tuning.online.call_trial import MOST_EXPECTED, Candidate
from mdtensor.api.tuning.online.space_explorer import Known, SpaceExplorer
from mdtensor.api.tuning.online.time_account import Done
from mdtensor.errors import CompileError, LoweringError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.precedence import give_way

Told = Callable[[Done], None]
_MOST_BYTES = 1 << 29  # of operands, which the process that explores has of its own
# Candidates of a computation, of which so many may be winners of other environments.
_MOST, _MOST_HINTS = 8, 2
# What work takes at least, in seconds; what took longer counts later on.
_USUAL = {"propose": 0.15, "compile": 0.2, "keep": 0.01, "explore": 3.0, "go on": 0.2}
_SPARE, _FADING = 1.25, 0.8  # beyond what it took, and what is left of larger ones each time
_START = 0.5  # seconds of a process for compilers to begin


class Costs:
    """Running estimates of the seconds that each kind of background work takes."""

    def __init__(self) -> None:
        self._usual = dict(_USUAL)

    def usual(self, work: str) -> float:
        """The expected seconds of a kind of work, an upper bound."""
        return self._usual[work]

    def took(self, work: str, seconds: float) -> None:
        """Updates the estimate with the seconds of finished work."""
        self._usual[work] = max(_USUAL[work], _SPARE * seconds, _FADING * self._usual[work])


class BackgroundWorkshop:
    """A workshop that proposes, compiles and keeps candidates on an engine's background thread.

    Seconds are those of the clock, as those of calls are: where other programs or the calls
    themselves keep the processors busy, work here takes longer, and so it costs more.
    """

    _numbers = count()

    def __init__(
        self, engine: Engine, problem: Problem, costs: Costs, explorer: SpaceExplorer
    ) -> None:
        self._engine, self._problem, self._costs = engine, problem, costs
        self._explorer = explorer
        self._key = problem_key(problem)

    def usual_seconds(self, work: str) -> float:
        """The expected seconds of a kind of work, an upper bound."""
        apart = self._engine.tiers.apart
        start = _START if work == "compile" and not apart.is_ready else 0.0
        return self._costs.usual(work) + start

    def propose(self, trusted: Schedule, told: Told) -> None:
        """Finds the cost model's best candidates and winners of other environments, for `told`.

        None where the model had not come to any in time; next time it has more.
        """
        most = self.usual_seconds("propose")

        def proposed() -> list[tuple[float, Schedule]] | None:
            began = time.perf_counter()

            def is_late() -> bool:
                give_way()
                return time.perf_counter() - began > most

            target = self._engine.target
            ranking = ranked(self._problem, target, most=_MOST, enough=is_late)
            if not ranking:
                return None
            hints = self._engine.store.hints(self._key, self._engine.environment)[:_MOST_HINTS]
            found = [schedule for _, schedule in with_schedules(self._problem, hints)]
            found += favourites(ranking, _MOST)
            expected = {schedule: seconds / ranking[0][0] for seconds, schedule in ranking}
            pairs = [(expected.get(each, 1.0), each) for each in dict.fromkeys(found)]
            return [(e, each) for e, each in pairs if e <= MOST_EXPECTED and each != trusted]

        self._ask("propose", proposed, told)

    def compile(self, expected: float, schedule: Schedule, told: Told) -> None:
        """Compiles a schedule and passes `told` the Candidate; None where it does not compile."""

        def compiled() -> Candidate:
            source = self._engine.source(self._problem, schedule)
            program = self._engine.tiers.apart.compile(source)
            return Candidate(schedule, source, program, expected)

        self._ask("compile", compiled, told)

    @property
    def can_explore(self) -> bool:
        """Whether a process that searches the space can be started."""
        return self._explorer.is_possible and read_bytes(self._problem) <= _MOST_BYTES

    def may_explore(self) -> bool:
        """Whether the space may be searched: the explorer serves no other computation."""
        return self._explorer.may_begin(self)

    def explore(self, known: Known, told: Told) -> None:
        """Begins to search the space; `told` gets the first candidate, None where there is none."""
        self._explorer.begin(self, self._problem, known, self._learning("explore", told))

    def go_on(self, seconds: float | None, told: Told) -> None:
        """Passes the last candidate's cost on; `told` gets the next one, None at the end."""
        self._explorer.next(self, seconds, self._learning("go on", told))

    def end(self) -> None:
        """Releases the explorer for other computations."""
        self._explorer.release(self)

    def _learning(self, work: str, told: Told) -> Told:
        def done(done: Done) -> None:
            self._costs.took(work, done.seconds)
            told(done)

        return done

    def keep(self, winner: Candidate, seconds: float, trials: int, told: Told) -> None:
        """Keeps a winner in the store, and its program; later calls take it."""

        def kept() -> None:
            engine = self._engine
            engine.keep_winner(self._problem, winner.schedule, winner.source, winner.program)
            engine.store.set_winner(
                self._key,
                engine.environment,
                winner.schedule.to_json(),
                seconds=seconds,
                trials=trials,
            )
            engine.tiers.tell(replaced(self._problem))

        self._ask("keep", kept, told)

    def _ask(self, work: str, do: Callable[[], Any], told: Told) -> None:
        def done() -> None:
            began, result = time.perf_counter(), None
            try:
                with suppress(CompileError, LoweringError):
                    result = do()
            finally:
                seconds = time.perf_counter() - began
                self._costs.took(work, seconds if result is not None else 2 * seconds)
                told(Done(seconds, result))

        key = "online", next(self._numbers)
        self._engine.tiers.background.ask(key, done, must=True)
