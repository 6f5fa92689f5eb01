"""Blocking waits for OpenCL (`clFinish`) that daemon threads may be in when the process ends.

A wait releases Python's lock (GIL). A daemon thread that takes it again while the interpreter
finalises is unwound by Python (`pthread_exit`), through C++ frames that abort the process. So the
end of the process lets no thread begin a wait, and gives those that wait a few seconds to return.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType

from mdtensor.process_end import FOR_KERNELS_S, seconds_left

_ended: list[None] = []  # an element once no thread but the main one may begin to wait
_codes: set[CodeType] = set()  # what threads run while they wait


def returning(wait: Callable[[], None]) -> Callable[[], None]:
    """The same wait, which blocks every thread but the main one once the process ends."""
    ended = _ended

    def waits() -> None:
        if ended:
            _stay_unless_main()
        wait()

    _codes.add(waits.__code__)
    return waits


def _stay_unless_main() -> None:
    """Returns in the main thread; any other stays here, and ends with the process."""
    while threading.current_thread() is not threading.main_thread():
        threading.Event().wait()


def _is_waiting() -> bool:
    """Whether another thread waits: what it runs of Python ends with a call of C++."""
    own = threading.get_ident()
    frames: dict[int, FrameType] = vars(sys)["_current_frames"]()
    return any(frame.f_code in _codes for thread, frame in frames.items() if thread != own)


def _end() -> None:
    """Lets no other thread begin to wait, and those that do return."""
    _ended.append(None)
    latest = time.monotonic() + seconds_left(FOR_KERNELS_S, spare=0.0)
    while _is_waiting() and time.monotonic() < latest:
        time.sleep(0.001)


atexit.register(_end)
