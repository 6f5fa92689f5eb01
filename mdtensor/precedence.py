"""Precedence of calls: while calls are prepared, background threads leave the processor to them.

Threads of Python take turns of milliseconds, and a call is prepared in less: the first pass of a
model on known shapes took 1.4 times as long beside a thread that ranked schedules.
"""

from __future__ import annotations

import time

# Seconds between calls that still are one burst, and seconds of it after which nobody waits for
# its end: where every call is a new one, the background's work is what makes them faster.
_GAP, _LONGEST = 0.05, 1.0
_BREATH = 0.0005  # seconds between the steps of background work in any case

_first = _begun = _ended = float("-inf")  # when the burst began, and its last call; and that ended


def preparing() -> None:
    """Notes that a call is being prepared, until it is `prepared`."""
    global _first, _begun
    now = time.monotonic()
    if now - max(_begun, _ended) > _GAP:
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
