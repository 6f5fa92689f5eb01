"""Small hot calls on the `llvm` device and on OpenCL, by turns in processes of their own.

`python -m bench.llvm_calls --turns 3` prints the least and the median of 15 times 1,000 calls with
`out`, each device's from all its processes, and the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

import mdtensor as mdt

CASES = {
    "64x10.10x1": ("ij,jk->ik", (64, 10), (10, 1)),
    "10x64.64x500": ("ij,jk->ik", (10, 64), (64, 500)),
    "sums of 128x10": ("bk->b", (128, 10)),
    "bhqd,bhkd 2x4x64x32": ("bhqd,bhkd->bhqk", (2, 4, 64, 32), (2, 4, 64, 32)),
}
WARM_CALLS = 3000
WARM_SECONDS = 2.0
DEVICES = ("llvm", "opencl")


def measured(device: str) -> dict[str, list[float]]:
    """Microseconds of a call of each case: the least and the median."""
    mdt.device(device)
    return {case: _of_case(*CASES[case]) for case in CASES}


def _of_case(subscripts: str, *shapes: tuple[int, ...]) -> list[float]:
    rng = np.random.default_rng(0)
    operands = [rng.random(shape, dtype=np.float32) for shape in shapes]
    expected = np.einsum(subscripts, *operands)
    out = np.empty_like(expected)
    until = time.perf_counter() + WARM_SECONDS
    calls = 0
    while calls < WARM_CALLS or time.perf_counter() < until:
        mdt.einsum(subscripts, *operands, out=out)
        calls += 1
    np.testing.assert_allclose(out, expected, rtol=1e-4)
    times = []
    for _ in range(15):
        begin = time.perf_counter()
        for _ in range(1000):
            mdt.einsum(subscripts, *operands, out=out)
        times.append((time.perf_counter() - begin) * 1e3)
    return [min(times), statistics.median(times)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--device", choices=DEVICES, help="measure this one here, as JSON")
    options = parser.parse_args()
    if options.device:
        print(json.dumps(measured(options.device)))
        return
    found: dict[str, list[dict[str, list[float]]]] = {device: [] for device in DEVICES}
    for _ in range(options.turns):
        for device in DEVICES:
            command = [sys.executable, "-m", "bench.llvm_calls", "--device", device]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[device].append(json.loads(done.stdout.splitlines()[-1]))
    for case in CASES:
        row = [case.ljust(22)]
        for device, runs in found.items():
            least = min(run[case][0] for run in runs)
            median = statistics.median(run[case][1] for run in runs)
            row.append(f"{device}: least {least:6.2f}, median {median:6.2f} us")
        print("  ".join(row))
    print("load averages", *(f"{load:.1f}" for load in os.getloadavg()))


if __name__ == "__main__":
    main()
