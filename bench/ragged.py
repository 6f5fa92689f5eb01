"""Ragged batches beside padding and beside a loop over sequences, by turns.

`python -m bench.ragged [--sequences N] [--mean N] [--width N] [--threads 1,2]` makes families of
batches: all of one length, lengths drawn evenly, lengths that follow a power law, and short ones of
which half are empty. A line for each call: medians in microseconds of NumPy's `einsum` (with
optimize=True) on the padded array, of a loop of Python that calls NumPy for each sequence, and of
mdtensor on the ragged batch; then the medians of the other times over mdtensor's in the same turn.
Padding itself, and taking the padding off, is not timed. Results are compared first.

Attention, of each sequence to itself with scores of one head, has two axes of other lengths:
mdtensor is called for each sequence. The padded arrays are computed by NumPy, then by mdtensor.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench.machine import commit, now, processor

# Calls before which the engine compiles what it thinks worth it.
WARM_CALLS, TURNS, BATCH_SECONDS = 20, 7, 0.01
Call = Callable[..., Any]
FAMILIES = ("equal", "even", "power law", "half empty")


def lengths_of(family: str, count: int, mean: int, rng: np.random.Generator) -> np.ndarray:
    """The lengths of the sequences of a family."""
    if family == "even":
        return rng.integers(0, 2 * mean + 1, count)
    if family == "power law":
        drawn = rng.pareto(1.5, count)
        return np.minimum(drawn * (mean / drawn.mean()), 8 * mean).astype(np.int64)
    if family == "half empty":
        return np.where(rng.random(count) < 0.5, mean // 4, 0)
    return np.full(count, mean)


def calls_of(
    family: str, count: int, mean: int, width: int
) -> Iterator[tuple[str, Call, Call, Call]]:
    """Names of calls, and what computes them on padded arrays, in a loop, and by mdtensor."""
    import mdtensor as mdt

    rng = np.random.default_rng(0)
    lengths = lengths_of(family, count, mean, rng)
    values = rng.random((int(lengths.sum()), width), np.float32)
    batch = mdt.ragged(values, np.cumsum([0, *lengths]))
    padded, sequences = batch.padded(), list(batch)
    least = batch.padded(-np.inf)
    w, x = rng.random((width, width), np.float32), rng.random((count, width), np.float32)
    yield (
        "btd,de->bte",
        lambda: np.einsum("btd,de->bte", padded, w, optimize=True),
        lambda: [one @ w for one in sequences],
        lambda: mdt.einsum("btd,de->bte", batch, w),
    )
    yield (
        "btd->bd",
        lambda: padded.sum(1),
        lambda: [one.sum(0) for one in sequences],
        lambda: mdt.einsum("btd->bd", batch),
    )
    yield (
        "max btd->bd",
        lambda: least.max(1),
        lambda: [one.max(0, initial=-np.inf) for one in sequences],
        lambda: mdt.reduce("btd->bd", batch, combine="max"),
    )
    yield (
        "btd,btd->b",
        lambda: np.einsum("btd,btd->b", padded, padded, optimize=True),
        lambda: [np.vdot(one, one) for one in sequences],
        lambda: mdt.einsum("btd,btd->b", batch, batch),
    )
    yield (
        "btd,bd->bt",
        lambda: np.einsum("btd,bd->bt", padded, x, optimize=True),
        lambda: [one @ row for one, row in zip(sequences, x, strict=True)],
        lambda: mdt.einsum("btd,bd->bt", batch, x),
    )
    is_there = np.arange(padded.shape[1]) < lengths[:, None]
    mask = np.where(is_there, 0, np.float32(-1e9))[:, None]

    def in_turn() -> list[Any]:
        return [attention(one, np.einsum, softmax) for one in sequences]

    def ours() -> list[Any]:
        return [attention(one, mdt.einsum, mdt.softmax) for one in sequences]

    def of_padded(einsum: Any, softmax: Call) -> Any:
        scores = einsum("bqd,bkd->bqk", padded, padded, optimize=True)
        return einsum("bqk,bkd->bqd", softmax(scores + mask, axis=2), padded, optimize=True)

    yield "attention", partial(of_padded, np.einsum, softmax), in_turn, ours
    yield "by mdtensor", partial(of_padded, mdt.einsum, mdt.softmax), in_turn, ours


def attention(one: np.ndarray, einsum: Any, softmax: Call) -> Any:
    """What the values of a sequence take from all of them."""
    weights = softmax(einsum("qd,kd->qk", one, one, optimize=True), axis=1)
    return einsum("qk,kd->qd", weights, one, optimize=True)


def softmax(scores: np.ndarray, axis: int) -> np.ndarray:
    """NumPy's steps of a softmax."""
    powers = np.exp(scores - scores.max(axis, keepdims=True, initial=-np.inf))
    powers /= powers.sum(axis, keepdims=True)
    return powers


def check(in_turn: Sequence[Any], ours: Any) -> None:
    """Raises AssertionError where mdtensor's sequences are not those of the loop."""
    for one, other in zip(in_turn, ours, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4)


def sample(call: Call) -> float:
    """Seconds of a call, of a batch that is long enough for the clock."""
    count, before = 0, time.perf_counter()
    while True:
        call()
        count += 1
        taken = time.perf_counter() - before
        if taken > BATCH_SECONDS:
            return taken / count


def report(count: int, mean: int, width: int) -> None:
    """Prints a line for each call on each family."""
    from mdtensor.api.engine import registry

    engine = registry.engine_for()
    for family in FAMILIES:
        for name, padded, loop, ours in calls_of(family, count, mean, width):
            check(loop(), ours())
            for _ in range(WARM_CALLS):
                padded()
                ours()
                engine.settle(timeout=300)
            turns = [(sample(padded), sample(loop), sample(ours)) for _ in range(TURNS)]
            medians = [statistics.median(times) * 1e6 for times in zip(*turns, strict=True)]
            ratios = [statistics.median(turn[n] / turn[2] for turn in turns) for n in (0, 1)]
            line = "".join(f"{t:12.1f}" for t in medians) + "".join(f"{r:9.2f}" for r in ratios)
            print(f"{family:12}{name:13}{line}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sequences", type=int, default=1000)
    parser.add_argument("--mean", type=int, default=32, help="values of a sequence")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        report(options.sequences, options.mean, options.width)
        return 0
    print(f"{now()}, commit {commit()}, {processor()}, load {os.getloadavg()[0]:.1f}")
    sizes = ["--sequences", options.sequences, "--mean", options.mean, "--width", options.width]
    for threads in options.threads.split(","):
        what = f"{options.sequences} sequences of {options.mean} times {options.width}"
        print(f"\n{what}, threads: {threads}; µs")
        head = "".join(f"{name:>12}" for name in ("padded", "loop", "mdtensor"))
        print(f"{'family':12}{'':13}{head}{'padded/':>9}{'loop/':>9}", flush=True)
        asked = [sys.executable, "-m", "bench.ragged", "--child", *map(str, sizes)]
        env = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        subprocess.run(asked, env=env, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
