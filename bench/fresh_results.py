"""Calls that make their results, by turns in one process: `python -m bench.fresh_results`.

Each case is called with `out`, with its result in the pool's memory, and with its result in new
memory, and afterwards computed by NumPy, with a new result, a few times. A call's result is kept
until the next one of its kind is there, as `result = call()` in a loop does. Times are the least,
of the clock and of all cores' work for the process; page faults are those of a median call.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
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
CALLS = 6  # of one way in a turn
PEER_CALLS = 3
SEVENTH = np.float32(1 / 7)
Cost = tuple[float, float, float]  # milliseconds, those of all cores' work, page faults


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


def measured(call: Callable[[], np.ndarray], count: int) -> list[Cost]:
    """What so many calls cost, each of which drops the result of the one before."""
    found: list[Cost] = []
    result = None
    for _ in range(count):
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        work, before = time.process_time(), time.perf_counter()
        result = call()
        after, worked = time.perf_counter(), time.process_time()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
        found.append((1e3 * (after - before), 1e3 * (worked - work), faults))
    del result
    return found


def costs(case: Case, turns: int) -> dict[str, Cost]:
    """What a call of each way costs; the first two of ours in each turn do not count."""
    operands, bound = case.operands, BOUND()
    out = case.call(*operands)
    exact = case.numpys(*(operand.astype(np.float64) for operand in operands))
    np.testing.assert_allclose(out, exact, rtol=1e-4, atol=1e-4)
    del exact
    registry.engine_for().settle(timeout=300)

    def into() -> np.ndarray:
        return case.call(*operands, out=out)

    def fresh() -> np.ndarray:
        return case.call(*operands)

    found: dict[str, list[Cost]] = {way: [] for way in WAYS}
    for _ in range(turns):
        for way in WAYS:
            BOUND.set(0 if way == "new" else bound)
            found[way] += measured(into if way == "out" else fresh, CALLS)[2:]
    BOUND.set(bound)
    found["numpy"] = measured(lambda: case.numpys(*operands), PEER_CALLS)
    return {way: _least(each) for way, each in found.items()}


def _least(found: Sequence[Cost]) -> Cost:
    times, works, faults = zip(*found, strict=True)
    return min(times), min(works), statistics.median(faults)


def main() -> None:
    """Prints rows for each case, and the loads of the machine before and after."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=6)
    turns = parser.parse_args().turns
    found = facts()
    print(f"{found['date']}, {processor()}, {os.cpu_count()} cores, {found['device']['name']}")
    print(f"commit {commit()}, numpy {found['numpy']}, load {os.getloadavg()[0]:.1f}")
    print(f"{'':<30}" + "".join(f"{way:>9}" for way in (*WAYS, "numpy", "pool/out", "new/out")))
    for case in cases():
        each = costs(case, turns)
        for number, what in enumerate(("ms", "ms of all cores", "page faults")):
            values = [each[way][number] for way in (*WAYS, "numpy")]
            ratios = [] if number == 2 else [values[1] / values[0], values[2] / values[0]]
            row = "".join(f"{value:9.{2 if number < 2 else 0}f}" for value in values)
            row += "".join(f"{ratio:9.2f}" for ratio in ratios)
            print(f"{'' if number else case.name:<14}{what:>16}{row}", flush=True)
    print(POOL.now())
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
