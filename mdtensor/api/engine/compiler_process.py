"""Compilers: in this process for calls that wait, else in a separate process.

A compiler that crashes takes its process along (ADR 4). What is compiled in the background costs
a kernel then, and not the user's process; what a call waits for is marked, so that no process
after this one ends by the same program.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from mdtensor.autotune.worker.pickling import packed, unpacked
from mdtensor.backends.host.binary_cache import Compiled, MachineCode, folder_of_kept
from mdtensor.backends.host.crash_journal import CrashJournal
from mdtensor.backends.protocol import CompiledProgram, ComputeDevice
from mdtensor.errors import CompileError, CompilerFailedError, MdtensorError, TuningError
from mdtensor.forks import keep_over_forks
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.precedence import compiling
from mdtensor.stage_timer import stage

if TYPE_CHECKING:
    from mdtensor.autotune.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")

VARIABLE = "MDTENSOR_COMPILER_PROCESS"
# What the process loads.
COMPILER = "mdtensor.api.engine.compiler_process:open_compiler"
_ENVIRONMENT = {VARIABLE: "0"}
# Seconds of processor time after which a compilation hangs, and of any time, for one that sleeps.
# Eleven are the most that was seen; beside much other work they take ten times as long.
_MOST_WORKING, _MOST_WAITING = 60, 600.0
# How often a program is begun that something else than the compiler puts an end to.
_TRIES = 2
_ENDED_BY_OTHERS = ("SIGHUP", "SIGINT", "SIGKILL", "SIGQUIT", "SIGTERM")
# The user's threads come first.
_NICE = 10


class CompilerApart:
    """A compiler in a separate process, which is started on demand.

    Where there can be none, or `MDTENSOR_COMPILER_PROCESS` is 0, it compiles in this process. Safe
    for many threads, and forks.
    """

    def __init__(self, device: ComputeDevice) -> None:
        self.target = device.target
        self._device = device
        self.attempts = CrashJournal(folder_of_kept())
        self._worker: Worker | None = None
        self._process = 0  # the one that the worker is for
        self._lock = threading.Lock()
        keep_over_forks(self._lock)
        self._is_refused = self._is_closed = False

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> CompiledProgram:
        """The program, bound to run-time sizes; from the cache of machine code or compiled now.

        Raises CompileError where the source is refused, a CompilerFailedError where the compiler
        fails, or failed before.
        """
        key = self._device.machine_code_key(source)
        if (program := self.kept(key, source, sizes)) is not None:
            return program
        if (failure := self.attempts.failure(key)) is not None:
            raise failure
        worker = self._opened()
        if worker is None:
            self.attempts.forget(key)
            with self.attempts.begun(key), stage("compile"):
                return self._device.compile(source, sizes)
        with stage("compile"):
            machine = self._machine_code(worker, key, source)
        self._device.binaries.put(key, machine)
        return self._device.load(Compiled(source, machine), sizes)

    def kept(self, key: str, source: KernelSource, sizes: Sequence[int]) -> CompiledProgram | None:
        """The program from the cache of machine code; None where it holds none."""
        machine = self._device.binaries.get(key)
        if machine is not None:
            with suppress(CompileError):  # another driver by the same name and number
                return self._device.load(Compiled(source, machine), sizes)
        return None

    def call(self, function: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
        """Calls a function of the package in the compiler's process, off this one's interpreter.

        Arguments, results and errors are pickled. Where there is no process, or it ends, the
        function is called in this one.
        """
        if (worker := self._opened()) is None:
            return function(*args, **options)
        try:
            request = {"function": packed((function, args, options))}
            with compiling():
                reply = worker.call(request, _MOST_WAITING)
        except TuningError:
            self._fail_if_closed()
            return function(*args, **options)
        if "raised" in reply:
            raise unpacked(reply["raised"])
        return unpacked(reply["returned"])

    @property
    def is_ready(self) -> bool:
        """Whether the process runs."""
        worker = self._worker
        return worker is not None and self._process == os.getpid() and worker.pid is not None

    def rest(self) -> None:
        """Ends the process; the next request starts another."""
        with self._lock:
            worker = self._worker
            self._worker = None
        if worker is not None and self._process == os.getpid():
            worker.close()

    def close(self) -> None:
        """Ends the process for good; pending compilations raise CompileError."""
        self._is_closed = True
        if self._worker is not None and self._process == os.getpid():
            self._worker.kill()

    def _opened(self) -> Worker | None:
        """The worker, opened; None where this process has to compile."""
        self._fail_if_closed()
        if self._is_refused or self._device.compiler is None or not may_start():
            return None
        from mdtensor.autotune.worker.worker import Worker

        with self._lock:
            if self._worker is None or self._process != os.getpid():
                self._worker = Worker(
                    COMPILER,
                    self._device.compiler,
                    start_timeout_s=_MOST_WAITING,
                    environment=_ENVIRONMENT,
                )
                self._process = os.getpid()
            worker = self._worker
        try:
            with compiling():
                worker.begin()
        except TuningError as error:
            self._fail_if_closed()
            _log("there is no process for compilers: %s", error.message)
            self._is_refused = True
            return None
        return worker

    def _fail_if_closed(self) -> None:
        if self._is_closed:
            raise CompileError("nothing is compiled while the process ends")

    def _machine_code(self, worker: Worker, key: str, source: KernelSource) -> MachineCode:
        failure: CompilerFailedError | None = None
        for _ in range(_TRIES):
            try:
                with compiling():
                    reply = worker.call({"source": packed(source)}, _MOST_WAITING)
            except TuningError as error:
                self._fail_if_closed()
                failure = _failure_of(error)
                if failure.failure != "cut off":
                    break
                continue
            self.attempts.forget(key)
            if "refused" in reply:
                raise CompileError(reply["refused"])
            return unpacked(reply["machine"])
        assert failure is not None
        head = takewhile(lambda line: line.startswith(("//", ";")), source.text.splitlines())
        _log("%s\n%s", failure.message, "\n".join(head))
        self.attempts.keep(key, failure)
        raise failure


class CompilerHere:
    """A compiler in this process, except for programs that have crashed a process before."""

    def __init__(self, device: ComputeDevice, apart: CompilerApart) -> None:
        self.target = device.target
        self._device = device
        self._apart = apart

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> CompiledProgram:
        """The program, bound to run-time sizes; raises the errors of `CompilerApart`."""
        key = self._device.machine_code_key(source)
        if (program := self._apart.kept(key, source, sizes)) is not None:
            return program
        try:
            with self._apart.attempts.begun(key), stage("compile"):
                return self._device.compile(source, sizes)
        except CompilerFailedError as error:
            if error.failure != "cut off":
                raise
        return self._apart.compile(source, sizes)

    def is_kept(self, source: KernelSource) -> bool:
        """Whether the cache of machine code holds the program."""
        return self._device.binaries.get(self._device.machine_code_key(source)) is not None


def may_start() -> bool:
    """Whether the interpreter can be started as a subprocess; not in a frozen program."""
    name = Path(sys.executable or "").name.lower()
    is_python = name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
    return is_python and os.environ.get(VARIABLE) != "0"


def _failure_of(error: TuningError) -> CompilerFailedError:
    """The error for a program whose compiling worker did not reply: hung, cut off or crashed."""
    from mdtensor.autotune.worker.worker import WorkerCrashed, WorkerTimeout

    if isinstance(error, WorkerTimeout):
        return CompilerFailedError("hung", f"for {_MOST_WAITING:.0f} seconds")
    if not isinstance(error, WorkerCrashed):
        return CompilerFailedError("cut off", error.message)
    name = "" if error.signal is None else signal.Signals(error.signal).name
    if name == "SIGXCPU":
        return CompilerFailedError("hung", f"for {_MOST_WORKING} seconds of processor time")
    if name in _ENDED_BY_OTHERS or not (name or error.exit_code):
        return CompilerFailedError("cut off", error.message)
    return CompilerFailedError("crashed", error.message)


def _log(text: str, *values: object) -> None:
    import logging  # which calls do without

    logging.getLogger("mdtensor").info(text, *values)


def open_compiler(description: Mapping[str, str]) -> Callable[[dict[str, str]], dict[str, str]]:
    """The worker's entry point: a handler that compiles sources and calls functions."""
    make_room_for_others()
    from mdtensor.backends.select import open_compiler as compiler_of

    compiler = compiler_of(description)

    def handle(request: dict[str, str]) -> dict[str, str]:
        _limit()
        if "function" in request:
            return called(request["function"])
        try:
            return {"machine": packed(compiler.compiled(unpacked(request["source"])).machine)}
        except CompileError as error:
            return {"refused": str(error)}

    return handle


def called(text: str) -> dict[str, str]:
    """Calls a pickled function on its arguments; returns its result or error, pickled."""
    function, args, options = unpacked(text)
    try:
        return {"returned": packed(function(*args, **options))}
    except MdtensorError as error:
        return {"raised": packed(error)}


def make_room_for_others() -> None:
    """Lowers this process's scheduling priority."""
    with suppress(AttributeError, OSError):
        os.nice(_NICE)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_NICE), encoding="ascii")


def _limit() -> None:
    """Limits the CPU time of this process from now on; the system kills it beyond that."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        allowed = int(time.process_time()) + _MOST_WORKING
        resource.setrlimit(resource.RLIMIT_CPU, (allowed, most))
