"""Elementary functions of arrays beside NumPy, SciPy and torch, by turns, each with `out`.

`python -m bench.functions [--elements N]` prints picoseconds for an element.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import bench.machine as machines
import mdtensor as mdt
from mdtensor.translate.scalar import apply

FUNCTIONS = (
    *("exp", "log", "tanh", "sin", "cos", "expm1", "log1p", "erf", "log2", "log10", "sqrt"),
)
DTYPES = ("float32", "float64")
# Threads of the other libraries spin behind their calls, on cores that ours would have.
WARM_S, ROUNDS, ROUND_S, PAUSE_S = 1.0, 9, 0.01, 0.2


def ways_of(name: str, x: np.ndarray) -> dict[str, Callable[[], object]]:
    """The calls on an array, by who computes."""
    torch: Any = importlib.import_module("torch")
    special: Any = importlib.import_module("scipy.special")
    out, given = np.empty_like(x), torch.from_numpy(x)
    plan = mdt.compile(mdt.stencil(lambda a: apply(name, a[0])), mdt.spec(x.shape, x.dtype))
    peer = getattr(np, name, None) or getattr(special, name)
    return {
        "mdtensor": partial(plan, x, out=out),
        "numpy or scipy": partial(peer, x, out=np.empty_like(x)),
        "torch": partial(getattr(torch, name), given, out=torch.empty_like(given)),
    }


def by_turns(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The seconds of each way, of its fastest round: other work on a core makes others longer."""
    end = time.perf_counter() + WARM_S
    while time.perf_counter() < end:
        for way in ways.values():
            way()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            time.sleep(PAUSE_S)
            way()
            begin, calls = time.perf_counter(), 0
            while time.perf_counter() < begin + ROUND_S:
                way()
                calls += 1
            taken[name].append((time.perf_counter() - begin) / calls)
    return {name: min(each) for name, each in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=200_000)
    elements: int = parser.parse_args().elements
    print(f"python -m bench.functions, {machines.now()}, {machines.processor()}")
    print(f"commit {machines.commit()}, {elements} elements from 0.1 to 2.1, ps an element")
    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        x = rng.uniform(0.1, 2.1, elements).astype(dtype)
        for name in FUNCTIONS:
            found = by_turns(ways_of(name, x))
            each = ", ".join(f"{way} {1e12 * s / elements:7.0f}" for way, s in found.items())
            ours, *others = found.values()
            print(f"{dtype} {name:6} {each}; best peer / mdtensor {min(others) / ours:.2f}")


if __name__ == "__main__":
    main()
