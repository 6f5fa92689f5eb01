"""One shared deadline for all waits at process exit."""

from __future__ import annotations

import threading
import time

# A compilation that is under way, beside other work: where it goes on, what it uses is taken away
# below it. Eleven seconds are the most that one took alone.
LONGEST_S = 60.0
# Of these, for kernels, which are waited for last.
FOR_KERNELS_S = 5.0
_began: list[float] = []  # when the first thing was waited for


def seconds_left(most: float = LONGEST_S, *, spare: float = FOR_KERNELS_S) -> float:
    """Seconds that one wait at process exit may take: `most`, or what is left of the deadline.

    The first to ask begins the end. `spare` seconds are left to what is waited for later.

    """
    if not _began:
        _began.append(time.monotonic())
    return max(0.0, min(most, _began[0] + LONGEST_S - spare - time.monotonic()))


def stay_unless_main() -> None:
    """Block any thread but the main one until the process ends."""
    while threading.current_thread() is not threading.main_thread():
        threading.Event().wait()
