"""How long a call takes: batches of samples after a warm-up, and what is made of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence

# A sample is long enough for the clock not to matter.
SAMPLE_SECONDS = 200e-6
WARM_SECONDS = 0.01


def batch(call: Callable[[], object], seconds: float, least: int = 3) -> list[float]:
    """Seconds per call of at least `least` samples, taken one after the other for `seconds`.

    The warm-up wakes threads and brings operands back that another process drove out of caches.
    """
    clock = time.perf_counter
    started = before = clock()
    while True:
        call()
        now = clock()
        single, before = now - before, now
        if now - started > WARM_SECONDS:
            break
    count = max(1, round(SAMPLE_SECONDS / single))
    samples: list[float] = []
    enabled = gc.isenabled()
    gc.disable()
    try:
        until = clock() + seconds
        while len(samples) < least or clock() < until:
            before = clock()
            for _ in range(count):
                call()
            samples.append((clock() - before) / count)
    finally:
        if enabled:
            gc.enable()
    return samples


def after_pauses(call: Callable[[], object], pause: float, samples: int) -> list[float]:
    """Seconds of single calls, each after a pause in which the device's threads fall asleep."""
    clock = time.perf_counter
    measured: list[float] = []
    for _ in range(samples):
        time.sleep(pause)
        before = clock()
        call()
        measured.append(clock() - before)
    return measured


def spread(medians: Sequence[float]) -> float:
    """How far batches lie apart, as a share of their median."""
    return (max(medians) - min(medians)) / statistics.median(medians)
