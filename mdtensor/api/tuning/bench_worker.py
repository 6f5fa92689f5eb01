"""The measuring side of tuning: runs in worker processes that may crash, hang or run out of memory.

Every candidate writes to poisoned outputs and is compared with the reference before its time
counts; compilation is not part of the time. For devices whose compiler needs no device, other
processes compile.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import DIALECTS
from mdtensor.api.tuning.call_harness import CallArena
from mdtensor.api.tuning.cpu_timer import LONG, Clock, HostClock, Run
from mdtensor.api.tuning.harness import CudaArena, TrialBuffers
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.worker.pickling import packed, unpacked
from mdtensor.backends.cuda.cuda_comparison import CudaComparison
from mdtensor.backends.cuda.cuda_timer import CudaClock
from mdtensor.backends.cuda.cupy_device import CupyDevice
from mdtensor.backends.host.binary_cache import Binaries, Compiled
from mdtensor.backends.host.energy_counter import EnergyCounter
from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.backends.protocol import CompiledProgram, Compiler
from mdtensor.backends.select import open_compiler as compiler_of
from mdtensor.backends.select import open_device
from mdtensor.errors import CompileError, LoweringError
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.languages import Language
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule

Request = dict[str, Any]
Reply = dict[str, Any]

# A run this much slower than the best is not repeated; the first may take longer by a constant.
_HOPELESS = 1.5
_FIRST_RUN = 2e-3
# So many of the fastest runs are kept: more than are confirmed.
_KEPT = 16
# Seconds of runs whose energy is taken: counters change every millisecond.
_ENERGY_SECONDS = 0.1
_LOST = 70  # status of a process whose device can no longer be used


def open_bench(payload: Mapping[str, Any]) -> Callable[[Request], Reply]:
    """The worker's entry point: a handler that measures schedules on a device."""
    device = open_device(payload["device"], payload["arrays"])
    if isinstance(device, CupyDevice):
        device.use()
    return Benches(Engine(device, Store.in_memory)).handle


def open_compiler(payload: Mapping[str, Any]) -> Callable[[Request], Reply]:
    """The worker's entry point: a handler that compiles schedules without a device."""
    compiler, dialect = compiler_of(payload["compiler"]), DIALECTS[payload["dialect"]]
    return Compilations(compiler, dialect, Binaries(Path(payload["folder"]))).handle


class Benches:
    """The bench of the latest problem or call; earlier ones are dropped."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # One of them is there at a time, by the text that it was asked for by.
        self._text = ""
        self._bench: Bench | None = None
        self._call: CallArena | None = None

    def handle(self, request: Request) -> Reply:
        """Measures one schedule of a problem, or confirms several by turns, or whole calls.

        A kernel may leave the device in a state in which nothing else can run; then this process
        ends, and the next one opens the device anew.
        """
        try:
            if "call" in request:
                return self.calls(request)
            return self.bench_of(request["problem"]).handle(request)
        except self.engine.device.faults as error:
            if self.engine.device.is_lost():
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(_LOST)
            return {"status": "crashed", "detail": f"{type(error).__name__}: {error}"}

    def bench_of(self, text: str) -> Bench:
        """The bench of a problem, opened if it is new."""
        if self._bench is None or text != self._text:
            self._bench = self._call = None  # their memory first
            self._bench, self._text = self.made(unpacked(text)), text
        return self._bench

    def made(self, problem: Problem) -> Bench:
        """A new bench for a problem."""
        device = self.engine.device
        if isinstance(device, CupyDevice):
            return Bench(self.engine, CudaArena(problem, CudaComparison(device)), self.clock())
        return Bench(self.engine, TrialBuffers(problem), self.clock())

    def clock(self) -> Clock:
        """A clock of the device."""
        device = self.engine.device
        return CudaClock(device) if isinstance(device, CupyDevice) else HostClock()

    def calls(self, request: Request) -> Reply:
        """Seconds of a call of several programs by several lists of schedules, interleaved."""
        text = request["call"]
        if self._call is None or text != self._text:
            self._bench = self._call = None  # their memory first
            self._call, self._text = CallArena(self.engine, unpacked(text)), text
        runs = [self._call.run_of(each) for each in request["schedules"]]
        return {"seconds": self.clock().by_turns(runs, request.get("seconds", math.inf))}


class Bench:
    """A bench that compiles, checks and times the candidates of one problem."""

    def __init__(self, engine: Engine, arena: TrialBuffers, clock: Clock) -> None:
        self.engine = engine
        self.arena = arena
        self.clock = clock
        # The fastest with their seconds, by their schedules: confirming them needs no compiler.
        self.runs: dict[str, tuple[float, Run]] = {}

    def handle(self, request: Request) -> Reply:
        """Measures one schedule, or confirms several by turns; "open" only awaits readiness."""
        if "open" in request:
            return {}
        if "confirm" in request:
            runs = [self._run(one) for one in request["confirm"]]
            return {"seconds": self.clock.by_turns(runs, request.get("seconds", math.inf))}
        return self.measure(request, request.get("best"))

    def measure(self, candidate: Request, best: float | None) -> Reply:
        """The trial of a candidate, as the fields of a `Trial`."""
        began = time.perf_counter()
        try:
            program, source = self._made(candidate)
        except (LoweringError, CompileError) as error:
            return _refused(error)
        run = self.arena.run_of(program)
        # Bytes of scratch memory that a program of fixed sizes is given.
        scratch = max((evaluated(entry.scratch, {}) for entry in source.entries), default=0)
        costs: Reply = {"scratch": scratch}
        if "compiled" not in candidate:
            costs["compile_time"] = time.perf_counter() - began
        self.arena.poison()
        first = self.clock.timed(run)
        if wrong := self.arena.wrong():
            return {"status": "wrong", "detail": wrong}
        limit = None if best is None else _HOPELESS * best
        if limit is not None and first > limit + _FIRST_RUN:
            first /= self.clock.slowdown()
            if first > limit + _FIRST_RUN:
                return {"status": "ok", "seconds": first, "detail": "not repeated", **costs}
        if first < LONG:
            first = min(self.clock.timed(run) for _ in range(2))
        if limit is not None and first > limit:
            first /= self.clock.slowdown()
            if first > limit:
                return {"status": "ok", "seconds": first, "detail": "not repeated", **costs}
        seconds, spread = self.clock.steady(run)
        self._keep(candidate["schedule"], seconds, run)
        if candidate.get("energy"):
            costs["energy"] = _energy(run)
        return {"status": "ok", "seconds": seconds, "spread": spread, **costs}

    def _keep(self, schedule: str, seconds: float, run: Run) -> None:
        """Caches a run if it is among the fastest ones; the slowest is dropped to bound memory."""
        self.runs[schedule] = seconds, run
        if len(self.runs) > _KEPT:
            del self.runs[max(self.runs, key=lambda text: self.runs[text][0])]

    def _run(self, candidate: Request) -> Run | None:
        """A run of a candidate; None where it does not compile."""
        if (known := self.runs.get(candidate["schedule"])) is not None:
            return known[1]
        try:
            return self.arena.run_of(self._made(candidate)[0])
        except (LoweringError, CompileError):
            return None

    def _made(self, candidate: Request) -> tuple[CompiledProgram, KernelSource]:
        """The program of a candidate, loaded from its machine code or compiled now."""
        if "compiled" in candidate:
            compiled: Compiled = unpacked(candidate["compiled"])
            return self.engine.device.load(compiled), compiled.source
        schedule = Schedule.from_json(candidate["schedule"])
        choice = self.engine.specialised(self.arena.problem, schedule, "trial", 0.0)
        return choice.program, choice.source


def _energy(run: Run) -> float:
    """Joules of one run, averaged, by the machine's energy counters, which must exist."""
    counter = EnergyCounter.found()
    assert counter is not None
    began, before, runs = time.perf_counter(), counter.read(), 0
    while time.perf_counter() - began < _ENERGY_SECONDS or not runs:
        run()
        runs += 1
    return counter.joules_since(before) / runs


def _refused(error: LoweringError | CompileError) -> Reply:
    """The reply for a schedule that does not fit, or that the compiler refused."""
    status = "rejected" if isinstance(error, LoweringError) else "compile_error"
    return {"status": status, "detail": str(error)}


class Compilations:
    """Compiles schedules of problems on arrays aligned to 16 bytes.

    Several schedules may be one program. `kept` is what this process and others beside it have
    compiled.
    """

    def __init__(self, compiler: Compiler, dialect: Language, kept: Binaries) -> None:
        self.compiler = compiler
        self.dialect = dialect
        self.kept = kept
        self._problem: tuple[str, Problem] | None = None

    def handle(self, request: Request) -> Reply:
        """The machine code of a schedule; on failure, the status and detail of a `Trial`.

        `program` is the same for schedules that are one program.
        """
        problem = self._problem_of(request["problem"])
        schedule = Schedule.from_json(request["schedule"])
        costs: Reply = {}
        began = time.perf_counter()
        try:
            source = program_of(problem, schedule, self.dialect, only_aligned=True)
            program = hashlib.sha256(repr(source).encode()).hexdigest()
            machine = None if request.get("afresh") else self.kept.get(program)
            if machine is None:
                machine = self.compiler.compiled(source).machine
                costs["compile_time"] = time.perf_counter() - began
                self.kept.put(program, machine)
        except (LoweringError, CompileError) as error:
            return _refused(error)
        short = Compiled(replace(source, text=""), machine)
        found = {"compiled": packed(short), "spilled": machine.spilled, "program": program}
        return {**found, **costs}

    def _problem_of(self, text: str) -> Problem:
        if self._problem is None or self._problem[0] != text:
            self._problem = text, unpacked(text)
        return self._problem[1]
