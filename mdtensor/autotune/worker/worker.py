"""Worker: a child process that may crash, hang or run out of memory without harm to its parent."""

from __future__ import annotations

import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from mdtensor.closing import Closing
from mdtensor.errors import TuningError
from mdtensor.paths import CACHE, cache_directory
from mdtensor.signals import uninterrupted

# They make OpenBLAS take another processor's kernels, at half the speed, as some images have it.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
STDERR_LINES = 40
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from mdtensor.autotune.worker.worker_main import main; main(*sys.argv[1:])"
)


class WorkerError(TuningError):
    """A request to a worker failed; `stderr` has the last lines that it wrote."""

    def __init__(self, message: str, *, stderr: tuple[str, ...] = (), hint: str | None = None):
        super().__init__(message, notes=stderr[-12:], hint=hint)
        self.stderr = stderr


class WorkerTimeout(WorkerError):  # noqa: N818 — what happened, not what it is
    """The worker did not reply in time, and was killed."""


class WorkerRaised(WorkerError):  # noqa: N818
    """The handler raised; the worker lives on. `stderr` has the traceback."""


class WorkerCrashed(WorkerError):  # noqa: N818
    """The worker died, or broke the protocol and was killed.

    `signal` is the number of the signal that ended it, if one did, else `exit_code` its status.
    """

    def __init__(
        self, message: str, *, exit_code: int | None = None, stderr: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, stderr=stderr)
        died = exit_code is not None and exit_code < 0
        self.signal = -exit_code if exit_code is not None and died else None
        self.exit_code = None if died else exit_code


class Worker(Closing):
    """A child interpreter that serves requests, restarted after it crashed or was killed.

    `target` is `"module:function"`; in the child the function is called once, with the JSON-able
    `payload`, and returns the handler, which maps a JSON-able request to a JSON-able reply. What
    the child prints goes to its standard error, of which the last lines are kept. Ctrl-C does not
    reach it; it dies with its parent. May be called from several threads, one at a time.

    >>> with Worker("operator:methodcaller", "upper") as worker:
    ...     worker.call("a request", timeout_s=30)
    'A REQUEST'
    """

    def __init__(
        self,
        target: str,
        payload: object = None,
        *,
        start_timeout_s: float = 60.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if target.count(":") != 1:
            raise TuningError(f"{target!r} is not of the form 'module:function'")
        self._target = target
        self._payload = _line(payload)
        self._start_timeout_s = start_timeout_s
        self._environment = dict(environment or {})
        self._child: _Child | None = None
        self._finalizer: weakref.finalize[..., Worker] | None = None
        self._lock = threading.Lock()  # of whoever uses the child's pipes
        self._killed = False
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """The child's process id; None if it is not alive."""
        child = self._child
        return child.pid if child is not None and child.alive else None

    def begin(self) -> None:
        """Start the child unless an idle one exists; TuningError if that fails."""
        with self._lock:
            self._ready()

    def call(self, request: object, timeout_s: float) -> Any:
        """Send a request and wait for the reply; a child's start is not counted in the timeout.

        Raises `WorkerTimeout` and `WorkerCrashed` after killing the child and all that it started,
        `WorkerRaised` when the handler raised. The next call starts another child if needed.
        """
        line = _line(request)
        with self._lock:
            child = self._ready()
            try:
                reply = child.exchange(line, time.monotonic() + timeout_s)
            except BaseException:
                # The reply may still come: whoever serves the next request must not send it.
                self._discard()
                raise
        return _result(reply, child)

    def _ready(self) -> _Child:
        # One that died between requests harmed nobody.
        if self._child is not None and self._child.waits:
            return self._child
        self._discard()
        self._fail_if_killed()
        self.starts += 1
        child = self._child = _Child(self._target, self._environment)
        self._finalizer = weakref.finalize(self, _end, child, self._lock)
        try:
            self._fail_if_killed()  # by a thread that knew of no child yet
            reply = child.exchange(self._payload, time.monotonic() + self._start_timeout_s)
            _result(reply, child)
        except BaseException:
            self._discard()
            raise
        return child

    def _fail_if_killed(self) -> None:
        if self._killed:
            raise WorkerCrashed("the worker was killed")

    def _discard(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None
        if self._finalizer is not None:
            self._finalizer.detach()

    def close(self) -> None:
        """Let the child end by itself, for a second, then kill it."""
        with self._lock:
            if self._child is not None:
                self._child.finish(time.monotonic() + 1.0)
            self._discard()

    def kill(self) -> None:
        """Kill the child, and start no other; a call in another thread raises `WorkerCrashed`."""
        self._killed = True
        self.interrupt()

    def interrupt(self) -> None:
        """Kill the child, which fails a call in another thread; the next call starts another."""
        child = self._child
        if child is not None:
            child.end()


class _Child:
    """A child process: its pipes, and the thread that started it and drains its stderr."""

    def __init__(self, target: str, environment: Mapping[str, str]) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in UNSET}
        # A child in another folder has the same cache.
        self._environment = {**inherited, CACHE: str(cache_directory()), **environment}
        self._command = [sys.executable, "-c", BOOT, target, str(os.getpid())]
        self._command.append(json.dumps(sys.path))
        self._tail: deque[str] = deque(maxlen=STDERR_LINES)
        self._received = bytearray()
        started: queue.SimpleQueue[subprocess.Popen[bytes] | Exception] = queue.SimpleQueue()
        # The child dies with the *thread* that started it: so that thread waits for its end.
        self._thread = threading.Thread(target=self._attend, args=(started,), daemon=True)
        try:
            uninterrupted(self._thread.start)
            process = started.get()
        except RuntimeError as error:  # there are too many threads, or the interpreter ends
            process = error
        if isinstance(process, Exception):
            raise TuningError(f"cannot start a worker process: {process}")
        self._parent = os.getpid()
        self._process = process
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin.fileno()
        self._replies = self._process.stdout.fileno()
        os.set_blocking(self._requests, False)
        os.set_blocking(self._replies, False)

    def _attend(self, started: queue.SimpleQueue[subprocess.Popen[bytes] | Exception]) -> None:
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=self._environment,
                start_new_session=True,
            )
        except Exception as error:  # who waits for the process must learn of any
            started.put(error)
            return
        started.put(process)
        assert process.stderr is not None
        rest = b""
        while chunk := os.read(process.stderr.fileno(), 65536):
            *lines, rest = (rest + chunk[-STDERR_LINES * 1000 :]).split(b"\n")
            self._tail.extend(line.decode("utf-8", "replace") for line in lines)
        if rest:
            self._tail.append(rest.decode("utf-8", "replace"))
        process.wait()
        process.stderr.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def waits(self) -> bool:
        """Whether the child is alive and has sent nothing; an exiting one closes its pipe first."""
        if not self.alive:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            return not selector.select(0)

    @property
    def stderr(self) -> tuple[str, ...]:
        return tuple(self._tail)

    def exchange(self, line: bytes, deadline: float) -> dict[str, Any]:
        """Send a line and return the reply message."""
        self._send(line, deadline)
        while b"\n" not in self._received:
            self._wait(self._replies, selectors.EVENT_READ, deadline)
            with suppress(BlockingIOError):
                chunk = os.read(self._replies, 1 << 20)
                if not chunk:
                    raise self._crash()
                self._received += chunk
        text, _, rest = bytes(self._received).partition(b"\n")
        self._received = bytearray(rest)
        try:
            message = json.loads(text)
        except ValueError:
            message = None
        if not isinstance(message, dict) or rest:
            self.kill()
            shown = text[:80].decode("utf-8", "replace")
            raise WorkerCrashed(
                f"the worker was killed: its reply is not of the protocol: {shown!r}",
                stderr=self.stderr,
            )
        return cast("dict[str, Any]", message)

    def _send(self, line: bytes, deadline: float) -> None:
        left = memoryview(line)
        while left:
            self._wait(self._requests, selectors.EVENT_WRITE, deadline)
            try:
                left = left[os.write(self._requests, left) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self._crash() from None

    def _wait(self, handle: int, event: int, deadline: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(handle, event)
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    self.kill()
                    raise WorkerTimeout(
                        "the worker did not reply in time and was killed", stderr=self.stderr
                    )
                # In slices: a process that the child left behind may keep the pipe open.
                if selector.select(min(left, 0.25)):
                    return
                if not self.alive:
                    raise self._crash()

    def _crash(self) -> WorkerCrashed:
        with suppress(subprocess.TimeoutExpired):
            # A pipe is closed a moment before its process has ended.
            self._process.wait(5.0)
        self.kill()
        code = self._process.returncode
        if code is not None and code < 0:
            with suppress(ValueError):
                message = f"the worker was ended by {signal.Signals(-code).name}"
                return WorkerCrashed(message, exit_code=code, stderr=self.stderr)
        message = f"the worker ended with status {code}"
        return WorkerCrashed(message, exit_code=code, stderr=self.stderr)

    def finish(self, deadline: float) -> None:
        """Ask the child to exit, and wait for that."""
        with suppress(TuningError):
            self._send(b"\n", deadline)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(deadline - time.monotonic(), 0.0))

    def end(self) -> None:
        """Kill the child and its process group; the pipes stay open.

        Only its parent does: a fork of that one has its pipes, and no business with it.
        """
        if os.getpid() != self._parent:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the child and its process group, and close the pipes, which no other thread uses."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        self.end()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        # A forgotten worker is collected by any thread, and so perhaps by this very one.
        if threading.current_thread() is not self._thread:
            self._thread.join(5.0)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _end(child: _Child, lock: threading.Lock) -> None:
    """The finalizer of a worker that was garbage-collected, or is alive at exit: end the child.

    A daemon thread that uses the pipes then learns of the end there: they stay open for it.
    """
    child.end()
    if lock.acquire(blocking=False):
        child.kill()
        lock.release()


def _line(value: object) -> bytes:
    try:
        return json.dumps(value).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise TuningError(f"a worker is sent JSON only: {error}") from None


def _result(message: Mapping[str, Any], child: _Child) -> Any:
    if "raised" in message:
        trace = tuple(str(message.get("trace", "")).splitlines())
        raise WorkerRaised(f"in the worker: {message['raised']}", stderr=child.stderr + trace)
    return message.get("reply")
