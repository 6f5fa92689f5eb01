"""What a call costs in a compiled program of JAX, on its default device.

`python -m bench.jax_calls` times, by turns, a product by XLA, by `mdtensor.jax`, and by mdtensor
in `jax.pure_callback`; and sums of two arrays, where what is copied shows. Least and median of many
calls whose results are waited for. On a GPU there are products of bfloat16 instead, of layers of a
language model, and no callback that copies.
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
ON_GPU = {
    "ij,jk->ik, 64x64 by 64x64": ("ij,jk->ik", (64, 64), (64, 64), 1000),
    "ij,kj->ik, 8x4096 by 14336x4096": ("ij,kj->ik", (8, 4096), (14336, 4096), 300),
    "ij,kj->ik, 4096x4096 by 4096x4096": ("ij,kj->ik", (4096, 4096), (4096, 4096), 200),
    "bhqd,bhkd->bhqk, 8x16x512x64": ("bhqd,bhkd->bhqk", (8, 16, 512, 64), (8, 16, 512, 64), 300),
}


def ways(text: str, result: jax.ShapeDtypeStruct, *, on_gpu: bool) -> dict[str, Callable[..., Any]]:
    """Compiled programs of one einsum."""

    def called(a: Any, b: Any) -> Any:
        return jax.pure_callback(
            lambda x, y: mdt.einsum(text, np.asarray(x), np.asarray(y)), result, a, b
        )

    found = {
        "XLA": jax.jit(partial(jax.numpy.einsum, text)),
        "mdtensor.jax": jax.jit(partial(mdtensor.jax.einsum, text)),
    }
    return found if on_gpu else found | {"pure_callback": jax.jit(called)}


def main() -> None:
    """Prints a line for each case and way."""
    [device, *_] = jax.devices()
    on_gpu = device.platform == "gpu"
    dtype = jax.numpy.bfloat16 if on_gpu else np.float32
    name = device.device_kind if on_gpu else processor()
    print(f"{now()}, {name}, commit {commit()}, jax {jax.__version__}, numpy {np.__version__}")
    print(f"{'microseconds, least and median':<32}{'least':>10}{'median':>10}")
    for name, (text, first, second, count) in (ON_GPU if on_gpu else CASES).items():
        rng = np.random.default_rng(0)
        a, b = (jax.numpy.asarray(rng.random(shape), dtype) for shape in (first, second))
        expected = np.einsum(
            text, np.asarray(a, np.float64), np.asarray(b, np.float64), optimize=True
        )
        programs = ways(text, jax.ShapeDtypeStruct(expected.shape, dtype), on_gpu=on_gpu)
        seconds: dict[str, list[float]] = {way: [] for way in programs}
        for program in programs.values():
            for _ in range(20):
                found = np.asarray(program(a, b), np.float64)
                np.testing.assert_allclose(found, expected, rtol=1e-2 if on_gpu else 1e-4)
        time.sleep(1.0)  # in which the shape gets a kernel of its own
        for program in programs.values():
            program(a, b).block_until_ready()
        for _ in range(count):
            for way, program in programs.items():
                begun = time.perf_counter()
                program(a, b).block_until_ready()
                seconds[way].append(time.perf_counter() - begun)
        for way, times in seconds.items():
            least, median = min(times) * 1e6, statistics.median(times) * 1e6
            print(f"{name + ', ' + way:<48}{least:>10.1f}{median:>10.1f}")


if __name__ == "__main__":
    sys.exit(main())
