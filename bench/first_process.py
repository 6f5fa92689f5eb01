"""First calls in new processes, evaluated and compiled by turns, each with an empty cache.

`python -m bench.first_process [--turns 7] [--kept] [--log FILE]` prints medians of milliseconds: of
NumPy's import, of mdtensor's, of the first call and of the second one. `--kept` has a cache that an
earlier process left.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

Arrays = Callable[..., Any]  # random float32 of a shape
# From NumPy, mdtensor and what makes arrays to a call.
CASES: dict[str, Callable[[Any, Any, Arrays], Any]] = {
    "i,i->": lambda np, mdt, x: partial(mdt.einsum, "i,i->", x(1000), x(1000)),
    "ij,jk->ik": lambda np, mdt, x: partial(mdt.einsum, "ij,jk->ik", x(64, 128), x(128, 32)),
    "bhqd,bhkd->bhqk": lambda np, mdt, x: partial(
        mdt.einsum, "bhqd,bhkd->bhqk", x(2, 4, 32, 16), x(2, 4, 48, 16)
    ),
    "conv": lambda np, mdt, x: partial(mdt.conv, x(1, 28, 28, 8), x(8, 3, 3, 8)),
    "conv, same, relu": lambda np, mdt, x: partial(
        mdt.conv, x(1, 28, 28, 8), x(8, 3, 3, 8), padding="same", epilogue="relu"
    ),
    "gaussian_filter": lambda np, mdt, x: partial(mdt.ndimage.gaussian_filter, x(200, 200), 1.5),
    "softmax": lambda np, mdt, x: partial(mdt.softmax, x(64, 100)),
    "scan": lambda np, mdt, x: partial(mdt.scan, "i->i", x(1000)),
    "gelu of a lazy array": lambda np, mdt, x: partial(_gelu, np, mdt, x(100, 100)),
}
COLUMNS, WIDTHS = ("numpy", "mdtensor", "first", "second"), (8, 10, 8, 8)
TIERS = {"evaluated": "1", "compiled": "0"}


def _gelu(np: Any, mdt: Any, array: Any) -> Any:
    x = mdt.lazy(array)
    return (x * (1 + np.tanh(x + 0.044715 * x * x * x))).evaluate()


def measured(case: str) -> list[float]:
    """Milliseconds in this process: NumPy's import, mdtensor's, the first call, the second."""
    times = [time.perf_counter()]
    import numpy as np

    times.append(time.perf_counter())
    import mdtensor as mdt

    times.append(time.perf_counter())
    rng = np.random.default_rng(0)
    arrays = lambda *shape: rng.random(shape, np.float32)  # noqa: E731
    for _ in range(2):
        times.append(time.perf_counter())
        CASES[case](np, mdt, arrays)()  # names of mdtensor are loaded when they are first used
    times.append(time.perf_counter())
    steps = [1e3 * (end - begin) for begin, end in itertools.pairwise(times)]
    return [steps[0], steps[1], steps[3], steps[4]]


def _in_a_process(case: str, tier: str, cache: str) -> list[float]:
    environment = os.environ | {"MDTENSOR_TIER0": TIERS[tier], "MDTENSOR_CACHE_DIR": cache}
    command = [sys.executable, "-m", "bench.first_process", "--case", case]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--kept", action="store_true", help="the cache is an earlier process's")
    parser.add_argument("--log", type=Path, help="a file to write the lines to")
    parser.add_argument("--case", choices=CASES, help="measure this one here, as JSON")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measured(options.case)))
        return
    from bench.machine import commit, now, processor  # which loads NumPy

    kept = "cache of an earlier process" if options.kept else "empty cache"
    lines = [f"{now()}, commit {commit()}, {processor()}, {kept}, {options.turns} processes each"]
    head = "".join(f"{name:>{w}}" for name, w in zip(COLUMNS, WIDTHS, strict=True))
    lines.append(f"{'ms, medians':22}{'tier':>11}{head}")
    print(*lines, sep="\n", flush=True)
    for case in CASES:
        found: dict[str, list[list[float]]] = {tier: [] for tier in TIERS}
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(options.turns):
                for tier in TIERS:
                    cache = Path(folder) / (tier if options.kept else f"{tier}{turn}")
                    if options.kept and not turn:
                        _in_a_process(case, tier, str(cache))
                    found[tier].append(_in_a_process(case, tier, str(cache)))
        for tier, runs in found.items():
            medians = [statistics.median(column) for column in zip(*runs, strict=True)]
            numbers = "".join(f"{m:{w}.1f}" for m, w in zip(medians, WIDTHS, strict=True))
            lines.append(f"{case:22}{tier:>11}{numbers}")
            print(lines[-1], flush=True)
    lines.append("load averages " + " ".join(f"{load:.1f}" for load in os.getloadavg()))
    if options.log:
        options.log.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
