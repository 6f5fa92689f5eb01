"""Blocking waits for OpenCL (`clFinish`) that daemon threads may be in when the process ends.

A wait releases Python's lock (GIL). A daemon thread that takes it again while the interpreter
finalises is unwound by Python (`pthread_exit`), through C++ frames that abort the process. So the
end of the process lets no thread begin a wait, and gives those that wait a few seconds to return.
Within these it also waits for commands that no thread waits for: what runs them calls what the
runtime takes apart when the process ends.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, TypeVar

from mdtensor.process_end import FOR_KERNELS_S, seconds_left

_Result = TypeVar("_Result")
_ended: list[None] = []  # an element once no thread but the main one may begin to wait
_codes: set[CodeType] = set()  # what threads run while they wait
_queues: list[tuple[Any, Any, int]] = []  # PyOpenCL, a queue of it, and the process that made it


def returning(wait: Callable[[], None]) -> Callable[[], None]:
    """The same wait, which blocks every thread but the main one once the process ends."""
    ended = _ended

    def waits() -> None:
        if ended:
            _stay_unless_main()
        wait()

    _codes.add(waits.__code__)
    return waits


def enqueuing(command: Callable[[], _Result]) -> Callable[[], _Result]:
    """The same command, which ends every thread but the main one once the process ends.

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
    """The end of this process waits until the commands of a queue are done, a few seconds."""
    _queues.append((cl, queue, os.getpid()))


def _markers() -> list[Callable[[], bool]]:
    """For each queue of this process, whether all that it was given until now is done."""
    found: list[Callable[[], bool]] = []
    for cl, queue, process in _queues:
        with suppress(Exception):  # of a device that is lost
            if process == os.getpid():
                marker, done = cl.enqueue_marker(queue), cl.command_execution_status.COMPLETE
                queue.flush()
                found.append(lambda marker=marker, d=done: marker.command_execution_status <= d)
    return found


def _are_done(markers: list[Callable[[], bool]]) -> bool:
    with suppress(Exception):
        return all(is_done() for is_done in markers)
    return True


def _stay_unless_main() -> None:
    """Returns in the main thread; any other stays here, and ends with the process."""
    while threading.current_thread() is not threading.main_thread():
        threading.Event().wait()


def _is_waiting() -> bool:
    """Whether another thread waits or enqueues: what it runs of Python ends with a call of C++."""
    own = threading.get_ident()
    frames: dict[int, FrameType] = vars(sys)["_current_frames"]()
    return any(_has_codes(frame) for thread, frame in frames.items() if thread != own)


def _has_codes(frame: FrameType | None) -> bool:
    """Whether a thread is in a function that is watched, and does not stay there for ever."""
    while frame is not None and frame.f_code not in _codes:
        if frame.f_code is _stay_unless_main.__code__:
            return False
        frame = frame.f_back
    return frame is not None


def _end() -> None:
    """Lets no other thread begin to wait, and those that do return, as commands do."""
    _ended.append(None)
    latest = time.monotonic() + seconds_left(FOR_KERNELS_S, spare=0.0)
    while _is_waiting() and time.monotonic() < latest:
        time.sleep(0.001)
    markers = _markers()
    while not _are_done(markers) and time.monotonic() < latest:
        time.sleep(0.001)


atexit.register(_end)
