"""Record the shapes of a program, tune them once, and compare; the second run tunes nothing.

python examples/tune_shapes.py [seconds]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import mdtensor as mdt


def power_iteration(matrix: np.ndarray, steps: int = 50) -> np.float32:
    """The largest eigenvalue of a symmetric matrix."""
    vector = np.ones(len(matrix), matrix.dtype)
    for _ in range(steps):
        image = mdt.einsum("ij,j->i", matrix, vector)
        vector = image / np.sqrt(mdt.einsum("i,i->", image, image))
    return mdt.einsum("i,ij,j->", vector, matrix, vector, optimize=True)


def seconds_of(work: Callable[[], object]) -> float:
    """The shortest of five runs."""
    times: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    budget = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    factor = np.random.default_rng(0).standard_normal((1500, 1500), np.float32)
    matrix = mdt.einsum("ik,jk->ij", factor, factor) / np.float32(len(factor))

    with mdt.tuning("record") as seen:
        value = power_iteration(matrix)
    print(seen)
    print(mdt.tune(seen, budget))

    with mdt.tuning("off"):
        untuned = seconds_of(lambda: power_iteration(matrix))
    tuned = seconds_of(lambda: power_iteration(matrix))
    print(
        f"largest eigenvalue {value:.2f}: {untuned * 1e3:.1f} ms untuned, {tuned * 1e3:.1f} tuned"
    )


if __name__ == "__main__":
    main()
