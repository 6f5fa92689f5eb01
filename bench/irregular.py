"""Loops of `mdh` whose bounds or indices are data, beside other ways to compute the same, by turns.

`python -m bench.irregular [--rows N] [--threads 1,2]` takes the families of arrays of
`bench.sparse`. A line for each computation and each other way: medians in microseconds of the
other way and of a call of the loops, and the median of the other's time over the loops' in the same
turn. scipy and NumPy compute with one thread. Results are compared first.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.machine import commit, now, processor
from bench.sparse import FAMILIES, Call, array_of, measured, run_children


def product(y: Any, ptr: Any, col: Any, val: Any, x: Any) -> None:
    """A sparse matrix by rows times a vector."""
    for i in range(len(y)):
        total = 0.0
        for k in range(ptr[i], ptr[i + 1]):
            total += val[k] * x[col[k]]
        y[i] = total


def shortest(y: Any, ptr: Any, col: Any, val: Any, x: Any) -> None:
    """The same with the least sum in the place of the sum of products."""
    for i in range(len(y)):
        least = np.inf
        for k in range(ptr[i], ptr[i + 1]):
            least = min(least, val[k] + x[col[k]])
        y[i] = least


def by_coordinates(y: Any, row: Any, col: Any, val: Any, x: Any) -> None:
    """A sparse matrix by coordinates times a vector."""
    for i in range(len(y)):
        y[i] = 0
    for e in range(len(val)):
        y[row[e]] += val[e] * x[col[e]]


def sums(y: Any, ptr: Any, val: Any) -> None:
    """Sums of segments between pointers."""
    for i in range(len(y)):
        total = 0.0
        for k in range(ptr[i], ptr[i + 1]):
            total += val[k]
        y[i] = total


def sums_by_number(y: Any, number: Any, val: Any) -> None:
    """Sums of segments by the number of each element's segment."""
    for i in range(len(y)):
        y[i] = 0
    for e in range(len(val)):
        y[number[e]] += val[e]


def computations_of(sparse: Any, rng: np.random.Generator) -> Iterator[tuple[str, str, Call, Call]]:
    """Names of computations and of other ways, what computes by these, and by loops."""
    import mdtensor as mdt

    rows, columns = sparse.shape
    x, y, other = rng.random(columns), np.zeros(rows), np.zeros(rows)
    ptr, col, val = sparse.indptr, sparse.indices, sparse.data
    listed = sparse.tocoo()
    row, number = listed.row, listed.row.astype(np.int64)
    loops = {f: mdt.mdh(f) for f in (product, shortest, by_coordinates, sums, sums_by_number)}

    def call(function: Any, *given: Any) -> Call:
        kernel = loops[function]

        def called() -> Any:
            kernel(y, *given)
            return y

        return called

    def add_at() -> Any:
        other[...] = 0
        np.add.at(other, number, val)
        return other

    ours = call(product, ptr, col, val, x)
    yield "product", "einsum", lambda: mdt.einsum("ij,j->i", sparse, x), ours
    yield "product", "scipy", lambda: sparse @ x, ours

    def least() -> Any:
        return mdt.einsum("ij,j->i", sparse, x, semiring="min_plus")

    yield "min-plus", "einsum", least, call(shortest, ptr, col, val, x)
    ours = call(by_coordinates, row, listed.col, val, x)
    yield "scatter", "einsum", lambda: mdt.einsum("ij,j->i", listed, x), ours
    yield "scatter", "scipy", lambda: listed @ x, ours
    if np.diff(ptr).min() > 0:  # which `reduceat` asks for
        starts = ptr[:-1].astype(np.int64)
        yield "segments", "reduceat", lambda: np.add.reduceat(val, starts), call(sums, ptr, val)
    ours = call(sums_by_number, number, val)
    yield "by number", "add.at", add_at, ours
    yield "by number", "bincount", lambda: np.bincount(number, val, rows), ours


def report(rows: int) -> None:
    """Prints a line for each computation of each family and each other way."""
    rng = np.random.default_rng(0)
    for family in FAMILIES:
        for name, way, others, ours in computations_of(array_of(family, rows, rng), rng):
            theirs, own, ratio = measured(others, ours)
            line = f"{family:12}{name:10}{way:10}{theirs * 1e6:12.1f}{own * 1e6:12.1f}{ratio:8.2f}"
            print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        report(options.rows)
        return 0
    print(f"{now()}, commit {commit()}, {processor()}, load {os.getloadavg()[0]:.1f}")
    head = f"{'family':12}{'':10}{'other':10}{'other':>12}{'loops':>12}{'ratio':>8}"
    run_children("bench.irregular", options.threads, options.rows, head)
    return 0


if __name__ == "__main__":
    sys.exit(main())
