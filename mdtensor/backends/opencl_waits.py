"""Waits for OpenCL that the end of a process lets return.

They are without Python's lock. A daemon thread that takes it again while the process ends is
unwound by Python, through C++ that catches whatever comes and has the process aborted.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType

_LONGEST_S = 5.0  # for kernels that are under way
_ended: list[None] = []  # an element once no thread but the main one may begin to wait
_codes: set[CodeType] = set()  # what threads run while they wait


def returning(wait: Callable[[], None]) -> Callable[[], None]:
    """A wait that no thread but the main one begins once the process ends."""
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
    latest = time.monotonic() + _LONGEST_S
    while _is_waiting() and time.monotonic() < latest:
        time.sleep(0.001)


atexit.register(_end)
