"""Random chains that share rows, as one kernel, against NumPy in float64.

`python -m tests.api.engine.fuzz_row_chains [--seed N] [--count N]` draws expressions of lazy
arrays: maps, reductions along the last axis, products with other arrays. Each is computed step by
step, then by the one kernel that the chain gets; both are compared with NumPy.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

import mdtensor as mdt
from mdtensor.api.engine import fused_calls, registry
from mdtensor.api.engine.fused_calls import FusedPrograms
from mdtensor.errors import LoweringError

TOLERANCE = 3e-4
Function = Callable[..., Any]

MAPS: tuple[Function, ...] = (
    lambda x: x * np.float32(0.5),
    lambda x: x + np.float32(1),
    np.tanh,
    lambda x: np.exp(-x * x),
    lambda x: np.maximum(x, np.float32(0)),
    lambda x: np.sqrt(x * x + np.float32(1)),
)
OF_ROWS: tuple[Function, ...] = (
    lambda x: x - x.max(-1, keepdims=True),
    lambda x: x - x.mean(-1, keepdims=True),
    lambda x: x / ((x * x).sum(-1, keepdims=True) + np.float32(1)),
    lambda x: np.exp(x - x.max(-1, keepdims=True)),
    lambda x: x + x.min(-1, keepdims=True),
)
ENDS: tuple[Function, ...] = (
    lambda x: x,
    lambda x: x.sum(-1),
    lambda x: x.max(-1),
    lambda x: x.mean(-1, keepdims=True),
)


class Drawn:
    """A random chain: its arrays, and the function of them."""

    def __init__(self, rng: np.random.Generator) -> None:
        axes = int(rng.integers(2, 4))
        shape = [int(rng.choice((1, 2, 3, 5))) for _ in range(axes - 2)]
        shape += [int(n) for n in rng.integers(1, 130, 2)]
        steps: list[tuple[Function, int]] = []
        arrays, width = [drawn(rng, *shape)], shape[-1]
        for _ in range(int(rng.integers(1, 4))):
            kind = rng.choice(("map", "rows", "product", "other"))
            if kind == "product":
                after = int(rng.integers(1, 90))
                arrays.append(drawn(rng, width, after) / np.float32(width**0.5))
                steps.append((lambda x, y: np.einsum("...ij,jk->...ik", x, y), len(arrays) - 1))
                width = after
            elif kind == "other":
                rows = shape[-2] if rng.random() < 0.5 else 1
                arrays.append(drawn(rng, rows, width))
                steps.append((lambda x, y: x * y, len(arrays) - 1))
            else:
                of = MAPS if kind == "map" else OF_ROWS
                steps.append((of[rng.integers(len(of))], 0))
        steps.append((OF_ROWS[rng.integers(len(OF_ROWS))], 0))
        steps.append((ENDS[rng.integers(len(ENDS))], 0))
        self.arrays, self.steps = arrays, steps

    def __call__(self, *arrays: Any) -> Any:
        """The chain of these arrays."""
        x = arrays[0]
        for step, other in self.steps:
            x = step(x, arrays[other]) if other else step(x)
        return x


def drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def outcome(seed: int) -> str:
    """Whether a chain became one kernel: "by rows" or "apart"."""
    chain = Drawn(np.random.default_rng(seed))
    due = chain(*[array.astype("f8") for array in chain.arrays])
    engine = registry.engine_for()
    engine.joined.made.clear()
    for turn in range(3):
        found = chain(*map(mdt.lazy, chain.arrays)).evaluate()
        error = np.abs(found - due).max() / max(1.0, np.abs(due).max())
        if not error <= TOLERANCE:
            raise AssertionError(f"seed {seed}, turn {turn}: off by {error}")
        engine.settle(timeout=600)
    return "by rows" if any(made.kernels for made in engine.joined.made.values()) else "apart"


def main() -> None:
    """Draws and compares, and says how many became one kernel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    seen: Counter[str] = Counter()
    soon = mock.patch.object(fused_calls, "WORTH_OFTEN", 1e-12)
    always = mock.patch.object(fused_calls, "is_worth_joining", return_value=True)
    never_alone = mock.patch.object(
        FusedPrograms, "_compiled", side_effect=LoweringError("by rows")
    )
    with soon, always, never_alone:
        for seed in range(options.seed, options.seed + options.count):
            seen[outcome(seed)] += 1
    print(f"{options.count} chains from seed {options.seed}: {dict(seen)}, none wrong")


if __name__ == "__main__":
    sys.exit(main())
