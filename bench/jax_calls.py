"""What a call costs in a compiled program of JAX, on processors.

`python -m bench.jax_calls` times, by turns, a product by XLA, by `mdtensor.jax`, and by mdtensor
in `jax.pure_callback`; and sums of two arrays, where what is copied shows. Least and median of many
calls whose results are waited for.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

import mdtensor as mdt
import mdtensor.jax
from bench.machine import commit, now, processor

CASES = {
    "ij,jk->ik, 8x8 by 8x8": ("ij,jk->ik", (8, 8), (8, 8), 2000),
    "ij,jk->ik, 64x64 by 64x64": ("ij,jk->ik", (64, 64), (64, 64), 1000),
    "i,i->i, 2^24": ("i,i->i", (1 << 24,), (1 << 24,), 20),
}


def ways(text: str, result: jax.ShapeDtypeStruct) -> dict[str, Callable[..., Any]]:
    """Compiled programs of one einsum."""

    def called(a: Any, b: Any) -> Any:
        return jax.pure_callback(
            lambda x, y: mdt.einsum(text, np.asarray(x), np.asarray(y)), result, a, b
        )

    return {
        "XLA": jax.jit(partial(jax.numpy.einsum, text)),
        "mdtensor.jax": jax.jit(partial(mdtensor.jax.einsum, text)),
        "pure_callback": jax.jit(called),
    }


def main() -> None:
    """Prints a line for each case and way."""
    print(
        f"{now()}, {processor()}, commit {commit()}, jax {jax.__version__}, numpy {np.__version__}"
    )
    print(f"{'microseconds, least and median':<32}{'least':>10}{'median':>10}")
    for name, (text, first, second, count) in CASES.items():
        rng = np.random.default_rng(0)
        a, b = (jax.numpy.asarray(rng.random(shape, np.float32)) for shape in (first, second))
        expected = np.einsum(text, np.asarray(a, np.float64), np.asarray(b, np.float64))
        programs = ways(text, jax.ShapeDtypeStruct(expected.shape, np.float32))
        seconds: dict[str, list[float]] = {way: [] for way in programs}
        for program in programs.values():
            for _ in range(20):
                np.testing.assert_allclose(program(a, b), expected, rtol=1e-4)
        for _ in range(count):
            for way, program in programs.items():
                begun = time.perf_counter()
                program(a, b).block_until_ready()
                seconds[way].append(time.perf_counter() - begun)
        for way, found in seconds.items():
            least, median = min(found) * 1e6, statistics.median(found) * 1e6
            print(f"{name + ', ' + way:<48}{least:>10.1f}{median:>10.1f}")


if __name__ == "__main__":
    sys.exit(main())
