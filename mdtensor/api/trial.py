"""The measuring side of tuning: runs in a worker process that may crash, hang or run out of memory.

Every candidate writes to poisoned outputs and is compared with the reference before its time
counts; compilation is not part of the time. A shared machine may run at half its speed for
seconds, so the best candidate so far is run again beside each that looks slow.
"""

from __future__ import annotations

import base64
import pickle
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdtensor.api import sampled
from mdtensor.api.engine import Engine
from mdtensor.api.sampled import Flat
from mdtensor.autotune.store import Store
from mdtensor.backends.memory import aligned_empty
from mdtensor.backends.select import open_device
from mdtensor.errors import CompileError, LoweringError
from mdtensor.lower.problem import Problem
from mdtensor.lower.schedule import Schedule

_SECONDS = 0.04
_RUNS = 400
# A run this much slower than the best is not repeated; the first may take longer by a constant.
_HOPELESS = 2.0
_FIRST_RUN = 2e-3
_ROUNDS = 7
# The machine is slow while the best candidate takes this much longer than it did.
_SLOW = 1.1
_TRIES = 3
_RETRY_AFTER = 0.05
_GUARD = 64  # elements around each output that must stay as they are


def payload_of(problem: Problem, device: str | None) -> dict[str, Any]:
    """What a worker needs to know of a problem; it goes to a child of this process only."""
    return {"problem": base64.b64encode(pickle.dumps(problem)).decode(), "device": device}


def open_bench(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The worker's entry: a handler that measures schedules of one problem."""
    problem = pickle.loads(base64.b64decode(payload["problem"]))
    return Bench(problem, Engine(open_device(payload["device"]), Store.in_memory)).handle


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The fastest program so far, by which the machine's pace is told."""

    program: Any
    seconds: float

    def slowdown(self, arrays: list[np.ndarray]) -> float:
        """By which factor the machine is slower now than when the program was timed; 1 or more."""
        _timed(self.program, arrays)
        now = statistics.median(_repeated(self.program, arrays, _SECONDS / 4))
        return max(1.0, now / self.seconds)


class Bench:
    """Inputs, outputs and the reference of one problem, and the runs of its candidates."""

    def __init__(self, problem: Problem, engine: Engine, seed: int = 0) -> None:
        self.problem = problem
        self.engine = engine
        rng = np.random.default_rng(seed)
        self.inputs = [self._input(number, rng) for number in range(len(problem.inputs))]
        self.outputs = [self._output(number) for number in range(len(problem.outputs))]
        self.expected = sampled.expected(problem, self.inputs, rng)
        self.arrays = [flat.array for flat in (*self.inputs, *self.outputs)]
        self.whole: list[np.ndarray] | None = None
        self.incumbent: Incumbent | None = None

    def _input(self, number: int, rng: np.random.Generator) -> Flat:
        streams = self.problem.streams
        accesses = [
            (sampled.numbers(streams[read.stream].strides), read.offset, read.computed)
            for read in self.problem.all_reads
            if streams[read.stream].buffer == number
        ]
        low, high = sampled.span(self.problem, accesses)
        memory = aligned_empty((high - low + 1,), self.problem.inputs[number])
        memory[:] = sampled.random_values(rng, memory.dtype, len(memory))
        return Flat(memory, -low)

    def _output(self, number: int) -> Flat:
        accesses = [
            (sampled.numbers(write.strides), write.offset, ())
            for write in self.problem.writes
            if write.buffer == number
        ]
        low, high = sampled.span(self.problem, accesses)
        dtype = self.problem.outputs[number]
        return Flat(aligned_empty((high - low + 1 + 2 * _GUARD,), dtype), _GUARD - low)

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measures one schedule, or confirms several by turns."""
        if "confirm" in request:
            return {"seconds": self.confirm(request["confirm"])}
        return self.measure(Schedule.from_json(request["schedule"]), request.get("best"))

    def measure(self, schedule: Schedule, best: float | None) -> dict[str, Any]:
        """The trial of a schedule, as the fields of a `Trial`."""
        try:
            choice = self.engine.specialised(self.problem, schedule, "trial", 0.0)
        except LoweringError as error:
            return {"status": "rejected", "detail": str(error)}
        except CompileError as error:
            return {"status": "compile_error", "detail": str(error)}
        program = choice.program
        self._poison()
        first = _timed(program, self.arrays)
        if wrong := self._wrong():
            return {"status": "wrong", "detail": wrong}
        limit = None if best is None else _HOPELESS * best
        if limit is not None and first > limit + _FIRST_RUN:
            first /= self._slowdown()
            if first > limit + _FIRST_RUN:
                return {"status": "ok", "seconds": first, "detail": "not repeated"}
        first = min(_timed(program, self.arrays) for _ in range(2))
        if limit is not None and first > limit:
            first /= self._slowdown()
            if first > limit:
                return {"status": "ok", "seconds": first, "detail": "not repeated"}
        seconds, spread = self.steady(program)
        if self.incumbent is None or seconds < self.incumbent.seconds:
            self.incumbent = Incumbent(program, seconds)
        return {"status": "ok", "seconds": seconds, "spread": spread}

    def _slowdown(self) -> float:
        return 1.0 if self.incumbent is None else self.incumbent.slowdown(self.arrays)

    def steady(self, program: Any) -> tuple[float, float]:
        """The median time of a program and its spread, at the machine's usual pace.

        Measured again while the machine is slow; what it is slow by is taken off in the end.
        """
        tries = _TRIES
        while True:
            times = _repeated(program, self.arrays, _SECONDS)
            middle, spread = statistics.median(times), _spread(times)
            if self.incumbent is None or middle < self.incumbent.seconds:
                return middle, spread
            slowdown = self._slowdown()
            if slowdown < _SLOW:
                return middle, spread
            tries -= 1
            if not tries:
                # A quotient never makes a best: it would be what later ones are compared with.
                return max(self.incumbent.seconds, middle / slowdown), spread
            time.sleep(_RETRY_AFTER)

    def confirm(self, schedules: list[str]) -> list[float | None]:
        """Median times of schedules that take turns, so that no lucky moment decides."""
        programs: list[Any] = []
        for text in schedules:
            try:
                schedule = Schedule.from_json(text)
                programs.append(self.engine.specialised(self.problem, schedule, "", 0.0).program)
            except (LoweringError, CompileError):
                programs.append(None)
        times: list[list[float]] = [[] for _ in programs]
        for _ in range(_ROUNDS):
            for program, measured in zip(programs, times, strict=True):
                if program is not None:
                    program(*self.arrays)
                    stop = time.perf_counter() + _SECONDS / 2
                    runs = [_timed(program, self.arrays)]
                    while time.perf_counter() < stop and len(runs) < _RUNS:
                        runs.append(_timed(program, self.arrays))
                    measured.append(statistics.median(runs))
        return [statistics.median(measured) if measured else None for measured in times]

    def _poison(self) -> None:
        for flat in self.outputs:
            flat.memory.view(np.uint8)[:] = 0xFF if flat.memory.dtype.kind == "f" else 0xA5

    def _wrong(self) -> str:
        """What is wrong with the outputs, or an empty string."""
        for flat in self.outputs:
            guards = np.concatenate([flat.memory[:_GUARD], flat.memory[-_GUARD:]])
            poison = 0xFF if flat.memory.dtype.kind == "f" else 0xA5
            if np.any(guards.view(np.uint8) != poison):
                return "wrote outside of its output"
        if wrong := sampled.mismatch(self.problem, self.outputs, self.expected):
            return wrong
        return self._differs_from_before()

    def _differs_from_before(self) -> str:
        """Compares all elements with those of the first schedule that passed the reference."""
        if self.whole is None:
            self.whole = [flat.memory.copy() for flat in self.outputs]
            return ""
        for flat, before in zip(self.outputs, self.whole, strict=True):
            if flat.memory.dtype.kind == "f":
                scale = max(self.expected.scale)
                tolerance = float(np.finfo(flat.memory.dtype).eps) * 8 * max(1.0, scale)
                if not np.allclose(flat.memory, before, rtol=0, atol=tolerance, equal_nan=True):
                    return "elements between the sampled ones differ from another schedule's"
            elif not np.array_equal(flat.memory, before):
                return "elements between the sampled ones differ from another schedule's"
        return ""


def _timed(program: Any, arrays: list[np.ndarray]) -> float:
    start = time.perf_counter()
    program(*arrays)
    return time.perf_counter() - start


def _repeated(program: Any, arrays: list[np.ndarray], seconds: float) -> list[float]:
    stop = time.perf_counter() + seconds
    times: list[float] = []
    while len(times) < 3 or (time.perf_counter() < stop and len(times) < _RUNS):
        times.append(_timed(program, arrays))
    return times


def _spread(times: list[float]) -> float:
    quartiles = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return quartiles[2] - quartiles[0]
