"""ResNet-18 as a user writes it: first passes, another batch size, a second process, ten passes.

`python -m bench.resnet18 [--log FILE]` runs both layouts, each in two processes that share a cache
which is empty at first, and prints milliseconds of passes: the first and second ones of a batch of
1, then of a batch of 8, and the twelfth of all, a batch of 1 again. With `--steady`, each process
passes a batch of 1, or of 8, again and again for so many seconds, and what is printed are the
medians of passes that began within each of these seconds; a third process tunes first. Batch norms
are folded into the filters; arithmetic is 3.6 GFLOP an image.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
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


def steady(layout: str, batch: int, seconds: int) -> list[float]:
    """Medians of milliseconds, second by second, of passes of one batch again and again."""
    net = ResNet(layout)
    x = net.images(batch)
    times: list[list[float]] = [[] for _ in range(seconds)]
    first = time.perf_counter()
    while (begin := time.perf_counter()) < first + seconds:
        net(x)
        times[int(begin - first)].append(1e3 * (time.perf_counter() - begin))
    return [statistics.median(each) if each else math.nan for each in times]


def tuned(layout: str, batch: int, seconds: int) -> list[float]:
    """The same, when the network was tuned for that many seconds before."""
    import mdtensor as mdt

    net = ResNet(layout)
    x = net.images(batch)
    with mdt.tuning("record") as seen:
        net(x)
    mdt.tune(seen, seconds, quiet=True)
    return steady(layout, batch, 3)


def in_process(kind: str, layout: str, batch: int, seconds: int, cache: str) -> list[float]:
    """What a function of this module measures in a process of its own."""
    command = [sys.executable, "-m", "bench.resnet18", "--kind", kind, "--layout", layout]
    command += ["--batch", str(batch), "--seconds", str(seconds)]
    environment = os.environ | {"MDTENSOR_CACHE_DIR": cache}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--log", type=Path, help="a file to write the lines to")
    parser.add_argument("--steady", type=int, default=0, help="seconds of passes of one batch")
    parser.add_argument("--layout", choices=LAYOUTS, help="measure this one here, as JSON")
    parser.add_argument("--kind", choices=KINDS, default="first", help="what of it")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=1)
    options = parser.parse_args()
    if options.layout:
        print(json.dumps(KINDS[options.kind](options.layout, options.batch, options.seconds)))
        return
    from bench.machine import commit, now, processor, tell

    tell(f"{now()}, commit {commit()}, {processor()}", options.log)
    if options.steady:
        for layout, batch in itertools.product(LAYOUTS, (1, 8)):
            with tempfile.TemporaryDirectory() as cache:
                for process, kind in (
                    ("first", "steady"),
                    ("second", "steady"),
                    ("tuned", "tuned"),
                ):
                    times = in_process(kind, layout, batch, options.steady, cache)
                    row = "".join(f"{each:6.0f}" for each in times)
                    tell(f"{layout} of {batch} {process:>8}{row}", options.log)
        return
    tell(f"{'ms':12}{'process':>8}" + "".join(f"{name:>13}" for name in COLUMNS), options.log)
    for layout in LAYOUTS:
        with tempfile.TemporaryDirectory() as cache:
            for process in ("first", "second"):
                times = in_process("first", layout, 1, 1, cache)
                row = "".join(f"{each:13.1f}" for each in times)
                tell(f"{layout:12}{process:>8}{row}", options.log)


KINDS: dict[str, Callable[[str, int, int], list[float]]] = {
    "first": lambda layout, batch, seconds: measured(layout),
    "steady": steady,
    "tuned": tuned,
}


if __name__ == "__main__":
    main()
