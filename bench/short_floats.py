"""Products, convolutions and reductions of float32, float16 and bfloat16, by turns.

`python -m bench.short_floats [--only PATTERN] [--rounds 40]`

Results are compared with those of float64. A time is the least of all rounds, of the processor's
time of all threads, which other work on the machine lengthens least; behind it stands how many
times as long float32 takes. Shapes are untuned; kernels for them were compiled before.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import mdtensor as mdt
from bench.machine import commit, now, processor
from mdtensor.api.engine import registry

TYPES = ("float32", "float16", np.dtype(ml_dtypes.bfloat16).name)
Shapes = tuple[tuple[int, ...], ...]
WARM_SECONDS = 0.3  # of calls that are worth a kernel for one shape alone


def _convolved(image: Any, taps: Any, out: Any = None) -> Any:
    return mdt.conv(image, taps, padding="same", out=out)


def _product(text: str) -> Callable[..., Any]:
    return lambda *arrays, out=None: mdt.einsum(text, *arrays, out=out)


def _smoothed(u: Any) -> Any:
    return 0.25 * u[0, -1] + 0.5 * u[0, 0] + 0.25 * u[0, 1]


_stencil = mdt.stencil(_smoothed, border="nearest")
CASES: dict[str, tuple[Callable[..., Any], Shapes]] = {
    "einsum ij,jk->ik 1024^3": (_product("ij,jk->ik"), ((1024, 1024), (1024, 1024))),
    "einsum ij,kj->ik 1024^3": (_product("ij,kj->ik"), ((1024, 1024), (1024, 1024))),
    "einsum 16x1000x2048": (_product("ij,jk->ik"), ((16, 2048), (2048, 1000))),
    "matrix times vector 4096^2": (_product("ij,j->i"), ((4096, 4096), (4096,))),
    "conv 3x3 64 56x56": (_convolved, ((1, 56, 56, 64), (64, 3, 3, 64))),
    "conv 1x1 256 28x28": (_convolved, ((1, 28, 28, 256), (256, 1, 1, 256))),
    "sum of rows 4096^2": (
        lambda a, out=None: mdt.reduce("ij->i", a, out=out),
        ((4096, 4096),),
    ),
    "stencil of three 4096^2": (lambda a, out=None: _stencil(a, out=out), ((4096, 4096),)),
}


def timed(call: Callable[..., Any], arrays: Sequence[np.ndarray], out: np.ndarray) -> float:
    """Seconds of the processor that a call takes."""
    begin = time.process_time()
    call(*arrays, out=out)
    return time.process_time() - begin


def measured(name: str, rounds: int) -> dict[str, float]:
    """The least seconds of each type; AssertionError where a result is wrong."""
    call, shapes = CASES[name]
    rng = np.random.default_rng(0)
    wide = [rng.uniform(-1, 1, shape) for shape in shapes]
    given = {dtype: [array.astype(dtype) for array in wide] for dtype in TYPES}
    results: dict[str, np.ndarray] = {}
    for dtype, arrays in given.items():
        exact = np.asarray(call(*(array.astype(float) for array in arrays)))
        results[dtype] = np.empty(exact.shape, dtype)
        for _ in range(3):
            end = time.monotonic() + WARM_SECONDS
            while time.monotonic() < end:
                call(*arrays, out=results[dtype])
            registry.engine_for().settle(timeout=60)
        error = np.abs(results[dtype].astype(float) - exact).max() / np.abs(exact).max()
        bound = 2 * float(ml_dtypes.finfo(dtype).eps) + 1e-5
        assert error < bound, f"{name} of {dtype} is wrong by {error:.2e}"
    least = dict.fromkeys(TYPES, math.inf)
    for _ in range(rounds):
        for dtype, arrays in given.items():
            least[dtype] = min(least[dtype], timed(call, arrays, results[dtype]))
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    print(processor(), mdt.device().name, now(), commit())
    for name in CASES:
        if not re.search(options.only, name):
            continue
        least = measured(name, options.rounds)
        columns = [
            f"{dtype} {seconds * 1e3:8.3f} ms ({least['float32'] / seconds:.2f})"
            for dtype, seconds in least.items()
        ]
        print(f"{name:<28}", *columns, f"load {os.getloadavg()[0]:.1f}", sep="  ", flush=True)


if __name__ == "__main__":
    main()
