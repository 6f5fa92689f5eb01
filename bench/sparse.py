"""Products with sparse arrays beside scipy.sparse, by turns, with one thread and with several.

`python -m bench.sparse [--rows N] [--threads 1,2]` makes five families of arrays by rows, all with
16 elements in a row on average: equal rows of random columns, a band, rows whose lengths follow a
power law, dense blocks, and rows of which nine in ten are empty. A line for each product: medians
in microseconds of scipy and of a call of mdtensor, and the median of scipy's time over
mdtensor's in the same turn. scipy computes with one thread. Results are compared first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.machine import commit, now, processor

MEAN = 16  # elements of a row
COLUMNS = 32  # of the dense factor
WARM_SECONDS, TURNS, BATCH_SECONDS = 2.0, 9, 0.01  # kernels are compiled meanwhile
Call = Callable[[], Any]


def lengths_of(family: str, rows: int, rng: np.random.Generator) -> np.ndarray:
    """How many elements the rows of a family have."""
    if family == "power law":
        drawn = rng.pareto(1.5, rows)
        return np.minimum(drawn * (MEAN / drawn.mean()), rows / 4).astype(np.int64)
    if family == "empty rows":
        return np.where(rng.random(rows) < 0.1, 10 * MEAN, 0)
    return np.full(rows, MEAN)


def array_of(family: str, rows: int, rng: np.random.Generator) -> Any:
    """The sparse array of a family, by rows; some elements of random columns coincide."""
    import scipy.sparse

    row = np.repeat(np.arange(rows), lengths_of(family, rows, rng))
    column = rng.integers(0, rows, row.size)
    if family == "band":
        column = (row + np.arange(row.size) % MEAN - MEAN // 2).clip(0, rows - 1)
    if family == "blocks":
        first = rng.integers(0, rows // MEAN, rows // MEAN + 1) * MEAN
        column = first[row // MEAN] + np.arange(row.size) % MEAN
    at = row.astype(np.int32), column.astype(np.int32)
    listed = scipy.sparse.coo_array((rng.random(row.size), at), shape=(rows, rows))
    return listed.tocsr()


FAMILIES = ("uniform", "band", "power law", "blocks", "empty rows")


def products_of(sparse: Any, rng: np.random.Generator) -> Iterator[tuple[str, Call, Call]]:
    """Names of products, and what computes them by scipy and by mdtensor."""
    import mdtensor as mdt

    columns: int = sparse.shape[1]
    x, b = rng.random(columns), rng.random((columns, COLUMNS))
    yield "A x", lambda: sparse @ x, lambda: mdt.einsum("ij,j->i", sparse, x)
    yield "A' x", lambda: sparse.T @ x, lambda: mdt.einsum("ij,i->j", sparse, x)
    yield "A B", lambda: sparse @ b, lambda: mdt.einsum("ij,jk->ik", sparse, b)


def sample(call: Call) -> float:
    """Seconds of a call, of a batch that is long enough for the clock."""
    count, before = 0, time.perf_counter()
    while True:
        call()
        count += 1
        taken = time.perf_counter() - before
        if taken > BATCH_SECONDS:
            return taken / count


def measured(scipys: Call, ours: Call) -> tuple[float, float, float]:
    """Medians of both, and of their ratio in one turn, once kernels are there."""
    np.testing.assert_allclose(ours(), scipys(), rtol=1e-10)
    until = time.perf_counter() + WARM_SECONDS
    while time.perf_counter() < until:
        ours()
    turns = [(sample(scipys), sample(ours)) for _ in range(TURNS)]
    ratio = statistics.median(one / other for one, other in turns)
    return *map(statistics.median, zip(*turns, strict=True)), ratio  # pyright: ignore[reportReturnType]


def report(rows: int) -> None:
    """Prints a line for each product of each family."""
    rng = np.random.default_rng(0)
    for family in FAMILIES:
        sparse = array_of(family, rows, rng)
        for name, scipys, ours in products_of(sparse, rng):
            theirs, own, ratio = measured(scipys, ours)
            line = f"{family:12}{name:6}{theirs * 1e6:12.1f}{own * 1e6:12.1f}{ratio:8.2f}"
            print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        report(options.rows)
        return 0
    print(f"{now()}, commit {commit()}, {processor()}, load {os.getloadavg()[0]:.1f}")
    head = f"{'family':12}{'':6}{'scipy':>12}{'mdtensor':>12}{'ratio':>8}"
    run_children("bench.sparse", options.threads, options.rows, head)
    return 0


def run_children(module: str, threads: str, rows: int, head: str) -> None:
    """Runs a benchmark's module with each number of threads, of which a list is given."""
    for count in threads.split(","):
        print(f"\n{rows} rows, threads: {count}; µs\n{head}", flush=True)
        asked = [sys.executable, "-m", module, "--child", "--rows", str(rows)]
        subprocess.run(asked, env={**os.environ, "OMP_NUM_THREADS": count}, check=True)


if __name__ == "__main__":
    sys.exit(main())
