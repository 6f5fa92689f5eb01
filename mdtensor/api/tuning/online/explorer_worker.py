"""The explorer process of online tuning, which searches a space and times nothing.

What techniques propose is lowered, compiled and checked here, on random inputs and against the
definition. What is right and not far too slow is handed to the process whose calls time it.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from mdtensor.api.engine.compiler_process import make_room_for_others
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import ranked
from mdtensor.api.tuning.harness import TrialBuffers
from mdtensor.api.tuning.schedule_search import Candidates, first_candidates, searched_space
from mdtensor.api.tuning.search_options import SearchOptions
from mdtensor.autotune.deadline import Deadline
from mdtensor.autotune.paired_turns import Turns
from mdtensor.autotune.progress import ProgressLine
from mdtensor.autotune.search.abort_conditions import evaluations, speedup
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.trial import Trial
from mdtensor.autotune.worker.pickling import packed, unpacked
from mdtensor.backends.select import open_device
from mdtensor.errors import CompileError, LoweringError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import estimated

Request = dict[str, Any]
Reply = dict[str, Any]

# The search ends when so many trials made the best no faster by this, and after so many.
_GAIN, _WITHOUT_GAIN, _MOST = 1.02, 40, 400
# Seconds of processor time in which the space is made and what is foreseen is looked for.
_PLANNING = 6.0
# Seconds without a request after which the process ends.
_IDLE_S = 120.0
# A first run here that takes so many times the best one's seconds, and more by a constant, is
# reason enough not to try a candidate in calls.
_HOPELESS, _FIRST_RUN = 3.0, 5e-3


def open_explorer(payload: Mapping[str, str | None]) -> Callable[[Request], Reply]:
    """The worker's entry point: a handler that returns the candidates of a problem one by one."""
    make_room_for_others()
    engine = Engine(open_device(payload["device"], "numpy"), Store.in_memory)
    exploration: Exploration | None = None
    idle = threading.Timer(0, _end)

    def handle(request: Request) -> Reply:
        nonlocal exploration, idle
        idle.cancel()
        if "problem" in request:
            known = {Schedule.from_json(text): cost for text, cost in request["known"]}
            exploration = Exploration(engine, unpacked(request["problem"]), known)
            reply = exploration.begun()
        elif exploration is not None:
            reply = exploration.next(request["seconds"])
        else:  # what began here ended with another process
            reply = {"over": True}
        idle = threading.Timer(_IDLE_S, _end)
        idle.daemon = True
        idle.start()
        return reply

    return handle


def _end() -> None:
    """Ends the process after it was idle for long."""
    os._exit(0)


class Exploration:
    """The search of one problem, in a thread that waits while calls try a candidate.

    `known` are costs of schedules that were tried before; None of those that failed.
    """

    def __init__(
        self, engine: Engine, problem: Problem, known: Mapping[Schedule, float | None]
    ) -> None:
        self._engine, self._problem, self._known = engine, problem, known
        self._found: SimpleQueue[Reply] = SimpleQueue()
        self._told: SimpleQueue[float | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._explore, daemon=True)

    def begun(self) -> Reply:
        """Starts the search; returns the first candidate, or `over` where there is none."""
        self._thread.start()
        return self._found.get()

    def next(self, seconds: float | None) -> Reply:
        """Resumes the search with the last candidate's seconds, None if it failed; the next one."""
        self._told.put(seconds)
        return self._found.get()

    def _explore(self) -> None:
        try:
            explore(self._engine, self._problem, self._known, self._tried)
        except Exception:
            traceback.print_exc(file=sys.stderr)
        finally:
            self._found.put({"over": True})

    def _tried(self, candidate: Reply) -> float | None:
        self._found.put(candidate)
        return self._told.get()


def explore(
    engine: Engine,
    problem: Problem,
    known: Mapping[Schedule, float | None],
    tried: Callable[[Reply], float | None],
) -> None:
    """Searches the space of a problem, with candidates measured by calls elsewhere."""
    measurer = MeasuredByCalls(engine, tried)
    abort = speedup(_GAIN, evaluations=_WITHOUT_GAIN) | evaluations(_MOST)
    candidates = Candidates(engine, problem, measurer, SearchOptions(abort=abort))
    planning = measurer.deadline.within(_PLANNING / 4)
    ranking = ranked(problem, engine.target, enough=lambda: planning.is_over)
    for schedule, cost in known.items():
        trial = Trial("crashed") if cost is None else Trial("ok", cost)
        candidates.take(schedule, trial)
    candidates.make_space()
    if candidates.space is not None:
        first = first_candidates(candidates, ranking)
        before, quiet = dict(candidates.tried), ProgressLine(budget_s=math.inf, quiet=True)
        # No time is kept for the end: calls go on as long as they earn it.
        searched_space(candidates, candidates.space, ranking, first, before, -math.inf, quiet)


class MeasuredByCalls:
    """A measurer whose times are those of another process's calls, by way of `tried`."""

    ahead, apart, is_open = 0, True, True

    def __init__(self, engine: Engine, tried: Callable[[Reply], float | None]) -> None:
        self.deadline = Deadline(_PLANNING, time.process_time)
        self._engine, self._tried = engine, tried
        self._arena: TrialBuffers | None = None
        self._least = math.inf  # of what the model expects

    def begin(self, problem: Problem) -> None:
        """Makes the inputs and the reference of a problem."""
        self._arena = TrialBuffers(problem)

    def opened(self) -> None:
        """Returns at once: there is no worker to wait for."""

    def prepare(self, schedule: Schedule) -> Future[Any] | None:
        """Returns None: a candidate is compiled at its trial."""

    def trial(self, schedule: Schedule, best: float | None) -> Trial:
        """A schedule's trial in calls; wrong and hopeless ones are rejected here first."""
        arena = self._arena
        assert arena is not None
        try:
            source = self._engine.source(arena.problem, schedule)
            compiled = self._engine.device.compiled(source)
            run = arena.run_of(self._engine.device.load(compiled))
        except (LoweringError, CompileError) as error:
            status = "rejected" if isinstance(error, LoweringError) else "compile_error"
            return Trial(status, detail=error.message)
        arena.poison()
        began, worked = time.perf_counter(), time.process_time()
        run()
        # Other processes come first, so what the clock says is no reason by itself.
        worked = (time.process_time() - worked) / self._engine.target.cores
        first = min(time.perf_counter() - began, worked)
        if wrong := arena.wrong():
            return Trial("wrong", detail=wrong)
        if best is not None and first > _HOPELESS * best + _FIRST_RUN:
            return Trial("ok", first, detail="not tried in calls")
        estimate = estimated(arena.problem, schedule, self._engine.target)
        self._least = min(self._least, estimate)
        text, expected = schedule.to_json(), estimate / self._least
        found = self._tried({"schedule": text, "compiled": packed(compiled), "expected": expected})
        return Trial("crashed", detail="in calls") if found is None else Trial("ok", found)

    def costs(self, schedule: Schedule) -> Mapping[str, float]:
        """An empty mapping: only times are measured."""
        return {}

    def different(self, schedules: Iterable[Schedule]) -> list[Schedule]:
        """All schedules, since programs are not compared here."""
        return list(schedules)

    def by_turns(self, schedules: Sequence[Schedule]) -> Turns:
        """No times: nothing is confirmed here."""
        return [None] * len(schedules)
