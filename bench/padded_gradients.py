"""Gradients of a padded convolution beside those after `numpy.pad`, in both layouts.

`python -m bench.padded_gradients [--log FILE]`: 32 images of 16×16×32 and 64 filters 3×3. For each
layout a process with an empty cache prints milliseconds of the first gradients, and medians of
later ones by turns with those of the convolution without padding on padded images; both are
compared with float64.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LAYOUTS = {"NHWC": "NHWC,KRSC->NPQK", "NCHW": "NCHW,KCRS->NKPQ"}
WARM, TURNS, SETTLE_SECONDS = 60, 15, 3
MOST_WRONG = 1e-5


def measured(name: str) -> tuple[float, float, float, float]:
    """Milliseconds: of the first gradients, padded by the call, after `numpy.pad`; and the error.

    The error is that of the largest element, relative to it.
    """
    import mdtensor as mdt

    rng, is_last = np.random.default_rng(0), name == "NHWC"
    image = rng.random((32, 16, 16, 32) if is_last else (32, 32, 16, 16), np.float32)
    filters = rng.random((64, 3, 3, 32) if is_last else (64, 32, 3, 3), np.float32)
    given = rng.random((32, 16, 16, 64) if is_last else (32, 64, 16, 16), np.float32)
    margins = [(0, 0), (1, 1), (1, 1), (0, 0)] if is_last else [(0, 0), (0, 0), (1, 1), (1, 1)]
    inside = tuple([slice(low, -high or None) for low, high in margins])

    def gradients(padding: int, *arrays: np.ndarray, given: np.ndarray = given) -> Any:
        def convolution(x: Any, w: Any) -> Any:
            return mdt.conv(x, w, padding=padding, layout=LAYOUTS[name])

        _, back = mdt.vjp(convolution, *arrays)
        return back(given)

    def after_padding() -> Any:
        of_image, of_filters = gradients(0, np.pad(image, margins), filters)
        return of_image[inside], of_filters

    def padded() -> Any:
        return gradients(1, image, filters)

    first = milliseconds(padded)
    ways = padded, after_padding
    for _ in range(WARM):
        for way in ways:
            way()
    time.sleep(SETTLE_SECONDS)
    taken = [[milliseconds(way) for way in ways] for _ in range(TURNS)]
    exact = gradients(1, image.astype("f8"), filters.astype("f8"), given=given.astype("f8"))
    pairs = [(part, due) for way in ways for part, due in zip(way(), exact, strict=True)]
    wrong = max(float(abs(part - due).max() / abs(due).max()) for part, due in pairs)
    one, other = map(statistics.median, zip(*taken, strict=True))
    return first, one, other, wrong


def milliseconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begin)


def main() -> int:
    """Prints a line for each layout; 1 where a gradient is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--log", type=Path, help="a file to append the lines to")
    parser.add_argument("--layout", choices=LAYOUTS, help="measure this one here, as JSON")
    options = parser.parse_args()
    if options.layout:
        print(json.dumps(measured(options.layout)))
        return 0
    from bench.machine import commit, now, processor, tell

    tell(f"{now()}, commit {commit()}, {processor()}", options.log)
    worst = 0.0
    for name in LAYOUTS:
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-m", "bench.padded_gradients", "--layout", name]
            environment = os.environ | {"MDTENSOR_CACHE_DIR": cache}
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, env=environment
            )
        first, one, other, wrong = json.loads(done.stdout.splitlines()[-1])
        worst = max(worst, wrong)
        tell(
            f"{name}: first {first:.0f} ms; later {one:.2f}, after numpy.pad {other:.2f}, "
            f"{one / other:.2f} times as long; within {wrong:.1e} of float64",
            options.log,
        )
    return int(worst > MOST_WRONG)


if __name__ == "__main__":
    sys.exit(main())
