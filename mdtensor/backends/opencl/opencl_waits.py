"""Blocking waits for OpenCL (`clFinish`) that are safe at process exit and in forks.

A wait releases Python's lock (GIL). A daemon thread that takes it again while the interpreter
finalises is unwound by Python (`pthread_exit`), through C++ frames that abort the process. So the
end of the process lets no thread begin a wait, and gives those that wait a few seconds to return.
Within these it also waits for commands that no thread waits for: what runs them calls what the
runtime takes apart when the process ends.

The child of a fork has none of the runtime's threads: what was under way there stays so for ever,
and so does whoever waits for it, as handlers of the runtime's end do. So forks wait, too.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, TypeVar

from mdtensor.forks import keep_over_forks
from mdtensor.process_end import FOR_KERNELS_S, seconds_left, stay_unless_main

_Result = TypeVar("_Result")
_BETWEEN_LOOKS_US = 50
# Threads that wait for a processor get it by then; those that work on something else keep it.
_UNTIL_AT_REST_S = 0.25
_ended: list[None] = []  # an element once no thread but the main one may begin to wait
_codes: set[CodeType] = set()  # what threads run while they wait
_queues: list[tuple[Any, Any, int]] = []  # PyOpenCL, a queue of it, and the process that made it


def returning(wait: Callable[[], None]) -> Callable[[], None]:
    """Wrap a blocking wait so that it parks every thread but the main one at process exit."""
    ended = _ended

    def waits() -> None:
        if ended:
            stay_unless_main()
        wait()

    _codes.add(waits.__code__)
    return waits


def enqueuing(command: Callable[[], _Result]) -> Callable[[], _Result]:
    """Wrap a command so that it ends every thread but the main one at process exit.

    PyOpenCL's copies release Python's lock as waits do, and callers hold locks of their own, which
    a thread that stays would keep.
    """
    ended = _ended

    def enqueues() -> _Result:
        if ended and threading.current_thread() is not threading.main_thread():
            raise SystemExit
        return command()

    _codes.add(enqueues.__code__)
    return enqueues


def drained_at_end(cl: Any, queue: Any) -> None:
    """Register a queue that process exit drains, for a few seconds at most."""
    _queues.append((cl, queue, os.getpid()))


def _markers(*, inherited: bool = False) -> list[Callable[[], bool]]:
    """Predicates, one per queue, for the completion of all commands enqueued so far."""
    found: list[Callable[[], bool]] = []
    for cl, queue, process in _queues:
        with suppress(Exception):  # of a device that is lost
            if inherited or process == os.getpid():
                marker, done = cl.enqueue_marker(queue), cl.command_execution_status.COMPLETE
                queue.flush()
                found.append(lambda marker=marker, d=done: marker.command_execution_status <= d)
    return found


def _are_done(markers: list[Callable[[], bool]]) -> bool:
    with suppress(Exception):
        return all(is_done() for is_done in markers)
    return True


def _is_waiting() -> bool:
    """Whether another thread is in a wrapped wait or command."""
    return any(map(_has_codes, _other_frames().values()))


def _other_frames() -> dict[int, FrameType]:
    """The current Python frames of all other threads."""
    frames: dict[int, FrameType] = vars(sys)["_current_frames"]()
    del frames[threading.get_ident()]
    return frames


def _has_codes(frame: FrameType | None) -> bool:
    """Whether a thread's stack has a wrapped function, and is not parked."""
    while frame is not None and frame.f_code not in _codes:
        if frame.f_code is stay_unless_main.__code__:
            return False
        frame = frame.f_back
    return frame is not None


def _end() -> None:
    """The exit handler: forbid new waits, then let running waits and commands finish."""
    _ended.append(None)
    latest = time.monotonic() + seconds_left(FOR_KERNELS_S, spare=0.0)
    while _is_waiting() and time.monotonic() < latest:
        time.sleep(0.001)
    markers = _markers()
    while not _are_done(markers) and time.monotonic() < latest:
        time.sleep(0.001)


class _Commands:
    """All commands under way, as a lock that a fork acquires when they are done or time is up.

    It is waited for with Python's lock (GIL), by functions of C that keep it, so that no other
    thread begins a command before the fork.
    """

    def acquire(self) -> None:
        """Wait for the commands, and briefly for the runtime's threads to become idle."""
        threads, begun = _stat_files(), time.monotonic()
        at_rest, latest = begun + _UNTIL_AT_REST_S, begun + FOR_KERNELS_S
        is_quiet = False
        while not is_quiet:
            # Threads that go on nevertheless may begin a command, and one that waits begins a
            # command of its own: by the last look there were none.
            frames, markers, is_quiet = _other_frames(), _markers(inherited=True), True
            _c.usleep(_BETWEEN_LOOKS_US)
            while not _are_done(markers) or (
                time.monotonic() < at_rest and any(map(_is_running, threads))
            ):
                if time.monotonic() >= latest:
                    return
                is_quiet = False
                _c.usleep(_BETWEEN_LOOKS_US)
            is_quiet &= frames == _other_frames()

    def release(self) -> None:
        """No-op: nothing was stopped."""


def _stat_files() -> list[bytes]:
    """Paths of Linux's stat files for all other threads; empty on other systems."""
    with suppress(OSError):
        own = str(threading.get_native_id())
        tasks = [task for task in os.listdir("/proc/self/task") if task != own]
        return [b"/proc/self/task/%s/stat" % task.encode() for task in tasks]
    return []


def _is_running(stat_file: bytes) -> bool:
    """Whether a thread is runnable (state R)."""
    content = ctypes.create_string_buffer(256)
    if (file := _c.open(stat_file, os.O_RDONLY | os.O_CLOEXEC)) < 0:  # it has ended
        return False
    _c.read(file, content, len(content) - 1)
    _c.close(file)
    return content.value.rpartition(b")")[2][1:2] == b"R"


def _leave_by_exit() -> None:
    """Make a forked child exit without libraries' exit handlers, which wait for lost threads.

    Python has ended by then, as have its handlers: files of C are written, and the process ends
    by its exit code. The latest that is registered is called first.
    """
    if _queues:
        with suppress(AttributeError):  # of GNU's library alone
            _c.on_exit(_c._exit, None)
            _c.__cxa_atexit(_c.fflush, None, None)


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    _c = ctypes.PyDLL(None)
    keep_over_forks(_Commands(), innermost=True)
    os.register_at_fork(after_in_child=_leave_by_exit)
