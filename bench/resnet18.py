"""ResNet-18 as a user writes it: first passes, another batch size, a second process, ten passes.

`python -m bench.resnet18 [--log FILE]` runs both layouts, each in two processes that share a cache
which is empty at first, and prints milliseconds of passes: the first and second ones of a batch of
1, then of a batch of 8, and the twelfth of all, a batch of 1 again. Batch norms are folded into the
filters; arithmetic is 3.6 GFLOP an image.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

LAYOUTS = {"NCHW": "NCHW,KCRS->NKPQ", "NHWC": "NHWC,KRSC->NPQK"}
STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels, stride of the first block
COLUMNS = ("first", "second", "of 8", "second of 8", "twelfth")
PASSES = 12


class ResNet:
    """The network, random weights of it, in one of the two layouts."""

    def __init__(self, layout: str) -> None:
        self.layout, self.channels_last = LAYOUTS[layout], layout == "NHWC"
        rng = np.random.default_rng(0)

        def filters(out: int, into: int, extent: int) -> tuple[np.ndarray, np.ndarray]:
            shape = (
                (out, extent, extent, into) if self.channels_last else (out, into, extent, extent)
            )
            spread = (2 / (into * extent**2)) ** 0.5
            weights = spread * rng.standard_normal(shape)
            return weights.astype(np.float32), 0.1 * rng.standard_normal(out).astype(np.float32)

        self.stem, self.blocks, into = filters(64, 3, 7), list[Any](), 64
        for channels, first in STAGES:
            for stride in (first, 1):
                shorter = filters(channels, into, 1) if stride != 1 or into != channels else None
                self.blocks.append(
                    (stride, filters(channels, into, 3), filters(channels, channels, 3), shorter)
                )
                into = channels
        self.last = 0.05 * rng.standard_normal((1000, 512)).astype(np.float32)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The logits of images."""
        import mdtensor as mdt

        def conv(
            x: Any, weights: Any, stride: int, padding: int, *more: Any, **options: Any
        ) -> Any:
            filters, bias = weights
            return mdt.conv(
                *(x, filters, *more),
                stride=stride,
                padding=padding,
                bias=bias,
                layout=self.layout,
                **options,
            )

        axes = (1, 2) if self.channels_last else (2, 3)
        x = conv(x, self.stem, 2, 3, epilogue="relu")
        x = mdt.max_pool(x, (3, 3), stride=2, padding=1, axes=axes)
        for stride, first, second, shorter in self.blocks:
            rest = x if shorter is None else conv(x, shorter, stride, 0)
            x = conv(x, first, stride, 1, epilogue="relu")
            x = conv(x, second, 1, 1, rest, epilogue=lambda y, r: np.maximum(y + r, 0))
        return mdt.einsum("nc,kc->nk", mdt.mean(x, axes), self.last)

    def images(self, count: int) -> np.ndarray:
        """Random images."""
        shape = (count, 224, 224, 3) if self.channels_last else (count, 3, 224, 224)
        return np.random.default_rng(1).random(shape, np.float32)


def measured(layout: str) -> list[float]:
    """Milliseconds in this process, in the order of `COLUMNS`."""
    net = ResNet(layout)
    one, eight = net.images(1), net.images(8)
    times: list[float] = []
    for x in [one, one, eight, eight, *[one] * (PASSES - 4)]:
        begin = time.perf_counter()
        net(x)
        times.append(1e3 * (time.perf_counter() - begin))
    return [*times[:4], times[-1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--log", type=Path, help="a file to write the lines to")
    parser.add_argument("--layout", choices=LAYOUTS, help="measure this one here, as JSON")
    options = parser.parse_args()
    if options.layout:
        print(json.dumps(measured(options.layout)))
        return
    from bench.machine import commit, now, processor, tell

    tell(f"{now()}, commit {commit()}, {processor()}", options.log)
    tell(f"{'ms':12}{'process':>8}" + "".join(f"{name:>13}" for name in COLUMNS), options.log)
    for layout in LAYOUTS:
        with tempfile.TemporaryDirectory() as cache:
            for process in ("first", "second"):
                command = [sys.executable, "-m", "bench.resnet18", "--layout", layout]
                environment = os.environ | {"MDTENSOR_CACHE_DIR": cache}
                done = subprocess.run(
                    command, capture_output=True, text=True, check=True, env=environment
                )
                times = json.loads(done.stdout.splitlines()[-1])
                row = "".join(f"{each:13.1f}" for each in times)
                tell(f"{layout:12}{process:>8}{row}", options.log)


if __name__ == "__main__":
    main()
