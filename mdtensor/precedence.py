"""Precedence of calls: while calls are prepared, background threads leave the processor to them.

And calls may ask whether a compiler is at work, which takes a core.

Threads of Python take turns of milliseconds, and a call is prepared in less: the first pass of a
model on known shapes took 1.4 times as long beside a thread that ranked schedules.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

# Seconds behind a call in which the next one may come, and seconds of a burst after which nobody
# waits for its end: where calls in full go on, the background's work is what makes them faster.
_GAP, _LONGEST = 0.05, 0.3
_BREATH = 0.0005  # seconds between the steps of background work in any case

_first = _begun = _ended = float("-inf")  # when the burst began, and its last call; and that ended
_working: list[None] = []  # an element for each background thread that has work
_compiling: list[None] = []  # an element for each compiler at work


@contextmanager
def working() -> Generator[None]:
    """A background thread does a piece of work within."""
    _working.append(None)
    try:
        yield
    finally:
        _working.pop()


def take_turns() -> None:
    """Lets a background thread go on, where one has work.

    It would wait 5 ms for Python's lock, again and again, beside calls that NumPy computes.
    """
    if _working:
        time.sleep(0)


@contextmanager
def compiling() -> Generator[None]:
    """A compiler is at work within, in a process of its own."""
    _compiling.append(None)
    try:
        yield
    finally:
        _compiling.pop()


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
