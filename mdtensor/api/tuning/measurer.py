"""The parent's side of measurement: a worker that runs candidates, others that compile.

Where the device is the processor itself, nothing is timed while something compiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from mdtensor import cache_eviction
from mdtensor.api.engine.engine import Engine
from mdtensor.autotune.deadline import Deadline
from mdtensor.autotune.paired_turns import Turns
from mdtensor.autotune.trial import Trial
from mdtensor.autotune.worker.pickling import packed
from mdtensor.autotune.worker.worker import Worker, WorkerError, WorkerTimeout
from mdtensor.autotune.worker.worker_pool import Crew
from mdtensor.backends.host.hardware import core_count
from mdtensor.closing import Closing
from mdtensor.errors import TuningError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.signals import uninterrupted
from mdtensor.translate.md_hom_program import Step

# What the worker processes load to measure and to compile schedules.
BENCH = "mdtensor.api.tuning.bench_worker:open_bench"
COMPILER = "mdtensor.api.tuning.bench_worker:open_compiler"
TRIAL_SECONDS = 20.0
COMPILE_SECONDS = {"cpu": 20.0, "gpu": 60.0}
OPEN_SECONDS = 120.0
# Those for processors have an OpenCL context each, and take 270 MB.
_MOST_COMPILERS = {"cpu": 8, "gpu": 14}
# Shorter searches on processors are over before compilers of their own have paid for their start.
_WORTH_COMPILERS = 4.0
# Seconds beyond a deadline that compilers have, and the worker to start and to make a reference.
_GRACE, _OPENING_GRACE = 0.5, 1.8
# Nobody shall keep the candidates' binaries, but for a folder that compilers share meanwhile.
_ENVIRONMENT = {"CUPY_CACHE_IN_MEMORY": "1"}
_OF_BENCH = _ENVIRONMENT | {cache_eviction.VARIABLE: "0"}


class TooLateError(TuningError):
    """The deadline leaves no time to measure."""


class Measuring(Protocol):
    """The interface by which a search measures schedules; see `Measurer`."""

    deadline: Deadline

    @property
    def ahead(self) -> int:
        """The number of schedules that are compiled ahead of the first measurement."""
        ...

    @property
    def apart(self) -> bool:
        """Whether compilation pauses during measurements."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the measurer is ready."""
        ...

    def begin(self, problem: Problem) -> None:
        """Sets the problem whose schedules are measured."""
        ...

    def opened(self) -> None:
        """Waits until the measurer is ready; TooLateError where that takes too long."""
        ...

    def prepare(self, schedule: Schedule) -> Future[Any] | None:
        """Compiles a schedule ahead of its measurement; None where there is no need."""
        ...

    def trial(self, schedule: Schedule, best: float | None) -> Trial:
        """Measure a schedule; `best` is the best time so far, in seconds."""
        ...

    def costs(self, schedule: Schedule) -> Mapping[str, float]:
        """The measured costs of a schedule by objective."""
        ...

    def different(self, schedules: Iterable[Schedule]) -> list[Schedule]:
        """The schedules without those whose program an earlier one has."""
        ...

    def by_turns(self, schedules: Sequence[Schedule]) -> Turns:
        """Seconds of schedules that are timed by turns, turn by turn."""
        ...


class Measurer(Closing):
    """A measurer of schedules on an engine's device, in processes that outlive each problem.

    `device` is the name by which a worker opens the device, `budget` the seconds for all that is
    measured. So many schedules as `ahead` says are compiled before the first of them is measured;
    `apart` tells that none are compiled while one is measured, since they share the processor.
    """

    def __init__(
        self,
        engine: Engine,
        device: str | None,
        budget: float = math.inf,
        objectives: Sequence[str] = ("time",),
    ) -> None:
        self._payload = {"device": device, "arrays": engine.device.arrays}
        self._worker = Worker(BENCH, self._payload, environment=_OF_BENCH)
        # Of what is measured now. What was not begun by then is not; see `TooLateError`.
        self.deadline = Deadline(math.inf)
        self._crew: Crew | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self.ahead = 0
        self.apart = engine.target.kind == "cpu"
        self._compile_seconds = COMPILE_SECONDS[engine.target.kind]
        worth = not self.apart or (budget >= _WORTH_COMPILERS and core_count() > 1)
        if engine.device.compiler is not None and worth:
            # Beside a GPU, a core is left to the worker and one to the search.
            most = _MOST_COMPILERS[engine.target.kind]
            size = max(1, min(most, core_count() - (0 if self.apart else 2)))
            self._folder = TemporaryDirectory(prefix="mdtensor-", ignore_cleanup_errors=True)
            payload = {
                "compiler": engine.device.compiler,
                "dialect": engine.target.dialect,
                "folder": self._folder.name,
            }
            self._crew = Crew(COMPILER, size, payload, environment=_ENVIRONMENT)
            self.ahead = (3 if self.apart else 2) * size
        self._problem = ""
        self._compiled: dict[Schedule, Future[Any]] = {}
        self._pending: set[Future[Any]] = set()
        # What the worker of so many starts has timed, and can run without its machine code.
        self._timed: set[Schedule] = set()
        self._starts = 0
        # Several schedules may be one program, which is measured once.
        self._programs: dict[Schedule, str] = {}
        self._trials: dict[str, Trial] = {}
        # What programs cost besides, by objective.
        self._objectives = tuple(objectives)
        self._costs: dict[str, dict[str, float]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mdtensor-bench")
        self._opening: Future[Any] | None = None

    def begin(self, problem: Problem) -> None:
        """Sets the problem; the worker makes its inputs and its reference."""
        self._problem = packed(problem)
        uninterrupted(self._begin_opening)
        self._drop_waiting()
        self._compiled = {}
        self._timed.clear()
        self._programs.clear()
        self._trials.clear()
        self._costs.clear()

    def _begin_opening(self) -> None:
        request = {"problem": self._problem, "open": True}
        self._opening = self._thread.submit(self._worker.call, request, OPEN_SECONDS)

    @property
    def is_open(self) -> bool:
        """Whether the worker is ready to measure."""
        return self._opening is None or uninterrupted(self._opening.done)

    def opened(self) -> None:
        """Waits until the worker can measure and something is compiled.

        Where that fails, the first trials will say why. Raises TooLateError where the deadline
        passes first: the arrays and the reference of a problem may take longer to make.
        """
        if self._opening is None:
            return
        try:
            with suppress(WorkerError):
                uninterrupted(self._opening.result, self.deadline.left + _OPENING_GRACE)
        except TimeoutError:
            self._worker.kill()
            self._worker = Worker(BENCH, self._payload, environment=_OF_BENCH)
            self._opening = None
            raise TooLateError("the worker was not ready in time") from None
        self._opening = None
        compiling = tuple(self._compiled.values())
        uninterrupted(wait, compiling, self.deadline.left, return_when=FIRST_COMPLETED)

    def prepare(self, schedule: Schedule) -> Future[Any] | None:
        """Compiles a schedule ahead of its measurement; None where the device compiles."""
        if self._crew is not None and schedule not in self._compiled:
            afresh = "compile_time" in self._objectives
            text = schedule.to_json()
            request = {"problem": self._problem, "schedule": text, "afresh": afresh}
            future = self._crew.submit(request, self._compile_seconds)
            self._compiled[schedule] = future
            self._pending.add(future)
        return self._compiled.get(schedule)

    def _drop_waiting(self) -> None:
        """Cancels all compilations that have not begun."""
        uninterrupted(self._cancel)

    def _cancel(self) -> None:
        for schedule, future in [*self._compiled.items()]:
            if future.cancel():
                del self._compiled[schedule]
        self._pending = {future for future in self._pending if not future.done()}

    def _quieten(self) -> None:
        """Waits for running compilations, where they would disturb the measurement.

        What compiles beyond the deadline is ended.
        """
        if not self.apart:
            return
        _, late = uninterrupted(wait, self._pending, self.deadline.left + _GRACE)
        if late and self._crew is not None:
            self._crew.interrupt()
            uninterrupted(wait, late)
        self._pending.clear()

    def trial(self, schedule: Schedule, best: float | None) -> Trial:
        """Measure a schedule; `best` is the best time so far, in seconds."""
        self.opened()
        try:
            candidate = self._candidate(schedule)
            if "status" in candidate:
                return _trial(candidate)
            if best is not None and candidate.get("spilled"):
                return Trial("rejected", detail=f"spills {candidate['spilled']} bytes of registers")
            program = self._programs[schedule] = candidate.get("program", schedule.to_json())
            if (known := self._trials.get(program)) is not None:
                return known
            energy = "energy" in self._objectives
            request = {"problem": self._problem, "best": best, "energy": energy, **candidate}
            self._quieten()
            reply = self._worker.call(request, TRIAL_SECONDS)
            trial = self._trials[program] = _trial(reply)
            self._costs[program] = _costs({**candidate, **reply}, trial)
        except WorkerTimeout as error:
            return Trial("timeout", detail=str(error))
        except WorkerError as error:
            return Trial("crashed", detail=str(error))
        finally:
            self._compiled.pop(schedule, None)
        self._remember(schedule)
        return trial

    def costs(self, schedule: Schedule) -> Mapping[str, float]:
        """The measured costs of a schedule by objective; empty before its trial."""
        return self._costs.get(self._programs.get(schedule, ""), {})

    def different(self, schedules: Iterable[Schedule]) -> list[Schedule]:
        """The schedules without those whose program an earlier one has, as far as measured here."""
        found: dict[object, Schedule] = {}
        for schedule in schedules:
            found.setdefault(self._programs.get(schedule, schedule), schedule)
        return list(found.values())

    def _remember(self, schedule: Schedule) -> None:
        if self._starts != self._worker.starts:
            self._timed.clear()
            self._starts = self._worker.starts
        self._timed.add(schedule)

    def by_turns(self, schedules: Sequence[Schedule]) -> Turns:
        """Seconds of schedules that are timed by turns until the deadline, at least once each.

        WorkerError where that cannot be done.
        """
        self._drop_waiting()
        known = self._timed if self._starts == self._worker.starts and self._worker.pid else ()
        for schedule in schedules:
            if schedule not in known:
                self.prepare(schedule)
        candidates = [
            {"schedule": schedule.to_json()} if schedule in known else self._candidate(schedule)
            for schedule in schedules
        ]
        self._quieten()
        request = {"problem": self._problem, "confirm": candidates, "seconds": self.deadline.left}
        return self._worker.call(request, TRIAL_SECONDS * len(candidates))["seconds"]

    def calls_by_turns(
        self, steps: Sequence[Step], schedules: Sequence[Sequence[Schedule]]
    ) -> Turns:
        """Seconds of a whole call by several lists of schedules, timed by turns."""
        self._drop_waiting()
        self._quieten()
        texts = [[schedule.to_json() for schedule in each] for each in schedules]
        request = {
            "call": packed(tuple(steps)),
            "schedules": texts,
            "seconds": self.deadline.left,
        }
        return self._worker.call(request, TRIAL_SECONDS * len(schedules))["seconds"]

    def _candidate(self, schedule: Schedule) -> dict[str, Any]:
        """The request for a schedule: its text, and its machine code where compilers made it."""
        text = {"schedule": schedule.to_json()}
        if self._crew is None:
            return text
        self.prepare(schedule)
        return {**text, **uninterrupted(self._compiled[schedule].result)}

    def close(self) -> None:
        """Ends the processes."""
        if self._crew is not None:
            self._crew.close()
        uninterrupted(self._end_thread)
        self._worker.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _end_thread(self) -> None:
        self._thread.shutdown(wait=False)
        if self._opening is not None and not self._opening.done():
            self._worker.kill()
        self._thread.shutdown()


def _costs(reply: Mapping[str, Any], trial: Trial) -> dict[str, float]:
    costs = {name: reply[name] for name in ("compile_time", "scratch", "energy") if name in reply}
    return {"time": trial.cost, **costs} if trial.status == "ok" else {}


def _trial(reply: Mapping[str, Any]) -> Trial:
    return Trial(
        reply["status"], reply.get("seconds"), reply.get("spread"), reply.get("detail", "")
    )
