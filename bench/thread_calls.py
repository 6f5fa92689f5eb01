"""Calls by eight Python threads at once, beside the same calls in turn.

`python -m bench.thread_calls [--threads 8] [--log FILE]` prints, for calls of several sizes, the
calls in a second by one thread and by all threads together, and how many times as many those are;
medians of five pairs of turns, and the same of NumPy's calls where it has them. Calls make their
results. A second of calls warms up, and then all kernels in the background are waited
for.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import mdtensor as mdt
from bench.machine import commit, now, processor, tell
from mdtensor.api.engine.registry import engine_for

SECONDS, TURNS = 0.5, 5
_RNG = np.random.default_rng(0)
Call = Callable[[], object]


def _einsums(size: int) -> tuple[Call, Call]:
    a, b = _RNG.random((2, size, size), np.float32)
    return lambda: mdt.einsum("ij,jk->ik", a, b), lambda: np.einsum(
        "ij,jk->ik", a, b, optimize=True
    )


def _sums(rows: int) -> tuple[Call, Call]:
    x = _RNG.random((rows, 1000), np.float32)
    return lambda: mdt.sum(x, axis=1), lambda: np.sum(x, axis=1)


def _convolution() -> tuple[Call, Call | None]:
    images, filters = _RNG.random((1, 28, 28, 64), np.float32), _RNG.random((64, 3, 3, 64), "f4")
    return lambda: mdt.conv(images, filters, padding=1, epilogue="relu"), None


CASES: dict[str, tuple[Call, Call | None]] = {
    "product of 16x16": _einsums(16),
    "product of 128x128": _einsums(128),
    "product of 512x512": _einsums(512),
    "sums of 10 rows": _sums(10),
    "sums of 1000 rows": _sums(1000),
    "convolution of 28x28": _convolution(),
}


def calls_in_a_second(call: Call, threads: int) -> float:
    """Calls of all threads, of which each begins when all are there."""
    counts, begin = [0] * threads, threading.Barrier(threads + 1)
    end = 0.0

    def calls(number: int) -> None:
        begin.wait()
        while time.perf_counter() < end:
            call()
            counts[number] += 1

    workers = [threading.Thread(target=calls, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    begun = time.perf_counter()
    end = begun + SECONDS
    begin.wait()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--log", type=Path, help="a file to write the lines to")
    options = parser.parse_args()
    tell(f"{now()}, commit {commit()}, {processor()}, {options.threads} threads", options.log)
    tell(f"{'calls in a second':26}{'in turn':>10}{'at once':>10}{'times':>8}", options.log)
    for name, calls in CASES.items():
        for library, call in zip(("mdtensor", "numpy"), calls, strict=True):
            if call is None:
                continue
            until = time.perf_counter() + 1.0
            while time.perf_counter() < until:
                call()
            engine_for().settle(600)
            turns = [
                [calls_in_a_second(call, threads) for threads in (1, options.threads)]
                for _ in range(TURNS)
            ]
            one, several = map(statistics.median, zip(*turns, strict=True))
            times = statistics.median(b / a for a, b in turns)
            row = f"{one:10.0f}{several:10.0f}{times:8.2f}"
            tell(f"{name:22}{library[:3]} {row}", options.log)


if __name__ == "__main__":
    main()
