"""Explorers: processes that search the spaces of computations one after another."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from mdtensor.api.engine.background_worker import Background
from mdtensor.api.engine.compiler_process import may_start
from mdtensor.api.engine.engine import Engine
from mdtensor.api.tuning.online.call_trial import Candidate
from mdtensor.api.tuning.online.time_account import Done
from mdtensor.autotune.worker.pickling import packed, unpacked
from mdtensor.autotune.worker.worker import Worker
from mdtensor.errors import CompileError, TuningError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule

EXPLORER = "mdtensor.api.tuning.online.explorer_worker:open_explorer"
# Schedules that were tried, and what they cost; None of those that failed.
Known = Sequence[tuple[Schedule, float | None]]
# Seconds until a process is ready; those between two candidates, of which a hanging one is ended;
# and those without a question after which another computation may be explored.
_OPEN_S, _CANDIDATE_S, _IDLE_S = 120.0, 120.0, 30.0


class SpaceExplorer:
    """An engine's explorer process, started on demand; it serves one owner at a time.

    Safe for threads. In the child of a fork there is none.
    """

    _numbers = count()

    def __init__(self, engine: Engine, device: str | None) -> None:
        self._engine, self._device = engine, device
        self._process = os.getpid()
        self._worker: Worker | None = None
        # Whose computation is explored, and when that was asked for last.
        self._owner: object = None
        self._asked = 0.0
        self._mine = threading.Lock()  # for the owner; nobody waits for it
        self._background = Background[Callable[[], None]](
            lambda work: work(), rest=self._rest, stop=self._stop
        )

    @property
    def is_possible(self) -> bool:
        """Whether the process can be started: not for a device that compiles by itself."""
        is_here = self._process == os.getpid()
        return is_here and self._engine.device.compiler is not None and may_start()

    def may_begin(self, owner: object) -> bool:
        """Acquires the explorer for an owner's computation; whether it succeeded.

        False while another one's is.
        """
        if not self._mine.acquire(blocking=False):
            return False
        try:
            if self._owner is not None and time.monotonic() - self._asked < _IDLE_S:
                return self._owner is owner
            self._owner, self._asked = owner, time.monotonic()
            return True
        finally:
            self._mine.release()

    def release(self, owner: object) -> None:
        """Releases the explorer for another computation."""
        if self._owner is owner:
            self._owner = None
            if self._worker is not None:
                self._background.ask("released", lambda: None)  # and rest behind that

    def begin(
        self, owner: object, problem: Problem, known: Known, told: Callable[[Done], None]
    ) -> None:
        """Starts the search of a problem; `told` gets the first candidate, or None."""
        rows = [(schedule.to_json(), cost) for schedule, cost in known]
        self._ask(owner, {"problem": packed(problem), "known": rows}, told)

    def next(self, owner: object, seconds: float | None, told: Callable[[Done], None]) -> None:
        """Passes the last candidate's seconds on, None if it failed; `told` gets the next one."""
        self._ask(owner, {"seconds": seconds}, told)

    def _ask(self, owner: object, request: Any, told: Callable[[Done], None]) -> None:
        self._asked = time.monotonic()

        def work() -> None:
            began, result = time.perf_counter(), None
            try:
                if self._owner is owner:
                    result = self._candidate(self._reply(request))
            except (TuningError, CompileError) as error:
                # A candidate that crashes or hangs ends the search, and nothing else.
                logging.getLogger("mdtensor").info("a space is searched no further: %s", error)
            finally:
                told(Done(time.perf_counter() - began, result))

        self._background.ask(next(self._numbers), work, must=True)

    def _reply(self, request: Any) -> dict[str, Any]:
        if self._worker is None:
            self._worker = Worker(EXPLORER, {"device": self._device}, start_timeout_s=_OPEN_S)
        return self._worker.call(request, _CANDIDATE_S)

    def _candidate(self, reply: dict[str, Any]) -> Candidate | None:
        """The candidate of a reply, loaded, with its machine code cached for other processes."""
        if "schedule" not in reply:
            return None
        device, compiled = self._engine.device, unpacked(reply["compiled"])
        device.binaries.put(device.machine_code_key(compiled.source), compiled.machine)
        schedule = Schedule.from_json(reply["schedule"])
        return Candidate(schedule, compiled.source, device.load(compiled), reply["expected"])

    def _rest(self) -> None:
        """Ends the process if nobody owns it."""
        if self._owner is None and self._worker is not None:
            self._worker.close()
            self._worker = None

    def _stop(self) -> None:
        worker = self._worker
        if worker is not None and self._process == os.getpid():
            worker.kill()
