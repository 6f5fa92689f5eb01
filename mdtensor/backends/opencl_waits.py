"""Waits for OpenCL that the end of a process lets return.

They are without Python's lock. A daemon thread that takes it again while the process ends is
unwound by Python, through C++ that catches whatever comes and has the process aborted.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable

_LONGEST_S = 5.0  # for kernels that are under way
_waiting: list[None] = []  # an element for each thread that waits
_ended: list[None] = []  # an element once no other thread may begin to


def returning(wait: Callable[[], None]) -> Callable[[], None]:
    """A wait that no other thread than the main one begins once the process ends."""
    begin, end, ended = _waiting.append, _waiting.pop, _ended

    def waits() -> None:
        begin(None)
        try:
            if not ended or _may_go_on():
                wait()
        finally:
            end()

    return waits


def _may_go_on() -> bool:
    """True in the main thread; any other stays here, and ends with the process."""
    if threading.current_thread() is threading.main_thread():
        return True
    _waiting.pop()
    while True:
        threading.Event().wait()


def _end() -> None:
    """Lets no other thread begin to wait, and those that do return."""
    _ended.append(None)
    latest = time.monotonic() + _LONGEST_S
    while _waiting and time.monotonic() < latest:
        time.sleep(0.001)


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_waiting.clear)  # no other thread is in a child
