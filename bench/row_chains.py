"""Calls whose steps share rows, as one kernel and step by step: softmax, norms, cross entropy.

`python -m bench.row_chains [--log FILE]`: two processes of each kind take turns. Each calls a
function of float32 matrices until the background has compiled what it will, and then gives the
lower third of some calls' microseconds. The lesser of both processes is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import commit, now, processor, tell

SHAPES = (
    *((32, 64), (128, 1000), (1000, 100), (64, 4096)),
    *((1000, 1000), (4096, 512), (2000, 3000)),
)
ROUNDS, OFTEN_S, AGAIN_S, CALLS = 2, 0.6, 0.3, 60


def calls() -> dict[str, Callable[[], Any]]:
    """The calls, by the function and the shape."""
    import mdtensor as mdt

    rng = np.random.default_rng(0)
    found: dict[str, Callable[[], Any]] = {}
    for rows, columns in SHAPES:
        x = rng.standard_normal((rows, columns)).astype("f4")
        labels = rng.integers(0, columns, rows)
        functions: dict[str, Callable[..., Any]] = {
            "softmax": mdt.softmax,
            "log_softmax": mdt.log_softmax,
            "layer_norm": mdt.layer_norm,
            "rms_norm": mdt.rms_norm,
        }
        for name, function in functions.items():
            found[f"{name} {rows}x{columns}"] = lambda f=function, x=x: f(x)
        entropy = f"cross_entropy {rows}x{columns}"
        found[entropy] = lambda x=x, labels=labels: mdt.cross_entropy(x, labels)
    return found


def measured(*, apart: bool) -> dict[str, float]:
    """Microseconds of each call in this process; where `apart`, no chain becomes one kernel."""
    from mdtensor.api.engine import fused_calls, registry

    if apart:
        fused_calls.FusedPrograms._by_rows = lambda *_: None  # pyright: ignore
    every = calls()
    for seconds in (OFTEN_S, AGAIN_S):
        for call in every.values():
            begin = time.perf_counter()
            while time.perf_counter() - begin < seconds:
                call()
        registry.engine_for().settle(300)
    times: dict[str, float] = {}
    for name, call in every.items():
        taken: list[float] = []
        for _ in range(CALLS):
            begin = time.perf_counter()
            call()
            taken.append(time.perf_counter() - begin)
        times[name] = 1e6 * sorted(taken)[CALLS // 3]
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--log", type=Path, help="a file to append the lines to")
    parser.add_argument("--kind", choices=("chains", "apart"), help="measure this here, as JSON")
    options = parser.parse_args()
    if options.kind:
        print(json.dumps(measured(apart=options.kind == "apart")))
        return
    tell(f"{now()}, commit {commit()}, {processor()}", options.log)
    least: dict[str, dict[str, float]] = {"chains": {}, "apart": {}}
    for _ in range(ROUNDS):
        for kind, times in least.items():
            with tempfile.TemporaryDirectory() as cache:
                command = [sys.executable, "-m", "bench.row_chains", "--kind", kind]
                done = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    check=True,
                    env=os.environ | {"MDTENSOR_CACHE_DIR": cache},
                )
            for name, value in json.loads(done.stdout.splitlines()[-1]).items():
                times[name] = min(value, times.get(name, value))
    tell(f"{'µs':26}{'one kernel':>12}{'by steps':>12}{'ratio':>8}", options.log)
    for name, one in least["chains"].items():
        steps = least["apart"][name]
        tell(f"{name:26}{one:12.1f}{steps:12.1f}{steps / one:8.2f}", options.log)


if __name__ == "__main__":
    main()
