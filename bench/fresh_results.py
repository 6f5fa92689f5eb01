"""Calls that make their results, by turns in one process: `python -m bench.fresh_results`.

Each case is called with `out`, with its result in the pool's memory, and with its result in new
memory, and afterwards computed by NumPy, with a new result, a few times. A call's result is kept
until the next one of its kind is there, as `result = call()` in a loop does. Times are the least.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import mdtensor as mdt
from bench.kernels.stencils import GAUSSIAN
from bench.machine import commit, facts, processor
from bench.workloads import CCSDT
from mdtensor.api.engine import registry
from mdtensor.backends.host.result_pool import BOUND, POOL

WAYS = ("out", "pool", "new")
PEER_TURNS = 3
SEVENTH = np.float32(1 / 7)


@dataclass(frozen=True)
class Case:
    """A call, and the same by NumPy, which also says in float64 what is right."""

    name: str
    call: Callable[..., np.ndarray]
    operands: tuple[np.ndarray, ...]
    numpys: Callable[..., np.ndarray]


def cases() -> Iterator[Case]:
    """The calls of which new memory was a large part, and a product of matrices."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> np.ndarray:
        return rng.random(shape, np.float32)

    triples = CCSDT[0]
    text = triples.subscripts

    def contracted(*operands: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.einsum(text, *operands, optimize=True))

    def triple(*operands: np.ndarray, **given: Any) -> np.ndarray:
        return mdt.einsum(text, *operands, **given)

    yield Case("CCSD(T)", triple, tuple(drawn(*shape) for shape in triples.shapes), contracted)
    yield Case("Gaussian 4096²", mdt.stencil(_blurred), (drawn(4096, 4096),), _blurred_by_slices)
    yield Case("Jacobi 256³", mdt.stencil(_mean), (drawn(256, 256, 256),), _mean_of_slices)
    scan = mdt.scan

    def scanned(x: np.ndarray, **given: Any) -> np.ndarray:
        return scan("i->i", x, **given)

    whole = rng.integers(-1, 2, 1 << 24).astype(np.float32)
    yield Case("scan 2²⁴", scanned, (whole,), np.cumsum)

    def product(a: np.ndarray, b: np.ndarray, **given: Any) -> np.ndarray:
        return mdt.einsum("ij,jk->ik", a, b, **given)

    yield Case("product 1024³", product, (drawn(1024, 1024), drawn(1024, 1024)), np.matmul)


def _blurred(u: Any) -> Any:
    weights = GAUSSIAN.tolist()
    return sum(weights[r][s] * u[r - 2, s - 2] for r in range(5) for s in range(5))


def _blurred_by_slices(u: np.ndarray) -> np.ndarray:
    weights, (n, m) = GAUSSIAN.astype(u.dtype), u.shape
    total = weights[0, 0] * u[: n - 4, : m - 4]
    for r, s in [(r, s) for r in range(5) for s in range(5)][1:]:
        total += weights[r, s] * u[r : n - 4 + r, s : m - 4 + s]
    return total


def _mean(u: Any) -> Any:
    near = u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] + u[0, 0, -1] + u[0, 0, 1]
    return (u[0, 0, 0] + near) * SEVENTH


def _mean_of_slices(u: np.ndarray) -> np.ndarray:
    inner = slice(1, -1)
    total = u[inner, inner, inner] + u[:-2, inner, inner]
    total += u[2:, inner, inner]
    total += u[inner, :-2, inner]
    total += u[inner, 2:, inner]
    total += u[inner, inner, :-2]
    total += u[inner, inner, 2:]
    total *= SEVENTH
    return total


def milliseconds(case: Case, turns: int) -> dict[str, list[float]]:
    """What the calls of each way took; the first two of ours do not count."""
    operands, bound = case.operands, BOUND()
    out = case.call(*operands)
    exact = case.numpys(*(operand.astype(np.float64) for operand in operands))
    np.testing.assert_allclose(out, exact, rtol=1e-4, atol=1e-4)
    del exact
    registry.engine_for().settle(timeout=300)
    ways: dict[str, Callable[[], np.ndarray]] = {
        "out": lambda: case.call(*operands, out=out),
        "pool": lambda: case.call(*operands),
        "new": lambda: case.call(*operands),
    }
    results: dict[str, np.ndarray] = {}
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(turns + 2):
        for way in WAYS:
            BOUND.set(0 if way == "new" else bound)
            before = time.perf_counter()
            results[way] = ways[way]()
            found[way].append(1e3 * (time.perf_counter() - before))
            BOUND.set(bound)
    peers: list[float] = []
    for _ in range(PEER_TURNS):
        before = time.perf_counter()
        results["numpy"] = case.numpys(*operands)
        peers.append(1e3 * (time.perf_counter() - before))
    return {**{way: times[2:] for way, times in found.items()}, "numpy": peers}


def main() -> None:
    """Prints a row for each case, and the loads of the machine before and after."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=15)
    turns = parser.parse_args().turns
    found = facts()
    print(f"{found['date']}, {processor()}, {os.cpu_count()} cores, {found['device']['name']}")
    print(f"commit {commit()}, numpy {found['numpy']}, load {os.getloadavg()[0]:.1f}")
    print(
        f"{'ms, least of ' + str(turns):<18}",
        *(f"{way:>8}" for way in (*WAYS, "numpy")),
        "pool/out new/out",
    )
    for case in cases():
        times = {way: min(each) for way, each in milliseconds(case, turns).items()}
        ratios = [times[way] / times["out"] for way in ("pool", "new")]
        row = [f"{times[way]:8.2f}" for way in (*WAYS, "numpy")] + [
            f"{ratio:8.2f}" for ratio in ratios
        ]
        print(f"{case.name:<18}", *row, flush=True)
    print(POOL.now())
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
