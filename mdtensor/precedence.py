"""Background threads yield to calls that are being prepared, which have precedence.

Calls that are computed without a kernel yield to these threads, and leave a core to a compiler.

Threads of Python take turns of milliseconds, and a call is prepared in less: the first pass of a
model on known shapes took 1.4 times as long beside a thread that ranked schedules.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

# Seconds behind a call in which the next one may come, and seconds of a burst after which nobody
# waits for its end: where calls in full go on, the background's work is what makes them faster.
_GAP, _LONGEST = 0.02, 0.3
_BREATH = 0.0005  # seconds between the steps of background work in any case

_first = _begun = _ended = float("-inf")  # when the burst began, and its last call; and that ended
_working: set[object] = set()  # an element for each background thread that has work
_compiling: set[object] = set()  # an element for each compiler at work


@contextmanager
def _noted_in(others: set[object]) -> Generator[None]:
    own = object()
    try:
        others.add(own)
        yield
    finally:
        others.discard(own)


def working() -> AbstractContextManager[None]:
    """Context manager that marks a background thread as busy."""
    return _noted_in(_working)


def take_turns() -> None:
    """Yields the GIL to a background thread, if one is busy.

    It would wait 5 ms for the lock, again and again, beside calls that NumPy computes.
    """
    if _working:
        time.sleep(0)


def compiling() -> AbstractContextManager[None]:
    """Context manager that marks a compiler in a process of its own as running."""
    return _noted_in(_compiling)


def is_compiling() -> bool:
    """Whether a compiler runs in a process of its own."""
    return bool(_compiling)


def preparing() -> None:
    """Marks the preparation of a call as begun, until `prepared`."""
    global _first, _begun
    now = time.monotonic()
    if now - max(_begun, _ended) > _LONGEST:
        _first = now
    _begun = now


def prepared() -> None:
    """Marks the preparation of a call as done."""
    global _ended
    _ended = time.monotonic()


def give_way() -> None:
    """Sleep between steps of background work, longer while a burst of calls is prepared."""
    time.sleep(_BREATH)
    while (now := time.monotonic()) - _first < _LONGEST and (
        _begun > _ended or now - _ended < _GAP
    ):
        time.sleep(_GAP / 5)
