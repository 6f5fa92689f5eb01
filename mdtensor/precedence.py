"""Precedence of calls: while calls are prepared, background threads leave the processor to them.

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
_GAP, _LONGEST = 0.05, 0.3
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
    """Context manager within which a background thread has work."""
    return _noted_in(_working)


def take_turns() -> None:
    """Yields the interpreter lock to a background thread, where one has work.

    It would wait 5 ms for the lock, again and again, beside calls that NumPy computes.
    """
    if _working:
        time.sleep(0)


def compiling() -> AbstractContextManager[None]:
    """Context manager within which a compiler is at work, in a process of its own."""
    return _noted_in(_compiling)


def is_compiling() -> bool:
    """Whether a compiler is at work in a process of its own."""
    return bool(_compiling)


def preparing() -> None:
    """Notes that a call is being prepared, until it is `prepared`."""
    global _first, _begun
    now = time.monotonic()
    if now - max(_begun, _ended) > _LONGEST:
        _first = now
    _begun = now


def prepared() -> None:
    """Notes that a call was prepared, and made."""
    global _ended
    _ended = time.monotonic()


def give_way() -> None:
    """Waits for a moment, and while calls are being prepared, not for longer than a burst lasts."""
    time.sleep(_BREATH)
    while (now := time.monotonic()) - _first < _LONGEST and (
        _begun > _ended or now - _ended < _GAP
    ):
        time.sleep(_GAP / 5)
