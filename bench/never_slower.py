"""Products of shapes drawn at random, untuned and tuned by turns: is anything slower than before?

`python -m bench.never_slower --out FILE` draws 40 of them in float32, float16 and bfloat16, on
torch's CUDA tensors. It calls each, tunes all of them within one budget, and then has the plan and
the plan in the mode "off", which runs what ran before, take turns: the L2 cache flushed before each
run, the host ahead of the device. A line has medians and quartiles of the device's time, and apart
from it the median time of the host until a call returns. SLOWER or faster is said where paired
turns make it certain, by the rule of searches; a result further from float64 than `MOST_WRONG` is
WRONG. It ends with a summary, and with status 1 where something was slower or wrong.

`--device cpu --count 3 --seconds 8 --operations 2e7` does the same on NumPy's arrays, whose caches
stay as they are.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import commit, now, tell
from mdtensor.autotune.paired_turns import is_faster

MOST_WRONG = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-5}  # of the largest result
_WARM, _TURNS, _MOST_TURNS, _CALLS = 8, 16, 64, 100
_MOST_ELEMENTS = 1 << 27
Run = Callable[[], Any]


@dataclass(frozen=True)
class Product:
    """An einsum of two matrices of a type."""

    text: str
    shapes: tuple[tuple[int, int], tuple[int, int]]
    dtype: str

    def __str__(self) -> str:
        sizes = " ".join("x".join(map(str, shape)) for shape in self.shapes)
        return f"{self.dtype} {self.text} {sizes}"


def drawn(count: int, seed: int, most: float) -> Iterator[Product]:
    """Products of random shapes and types, of so many multiply-adds at most."""
    rng = random.Random(seed)
    for _ in range(count):
        while True:
            m, k, n = (round(2 ** rng.uniform(0, 14)) for _ in range(3))
            if m * k * n < most and max(m * k, k * n, m * n) < _MOST_ELEMENTS:
                break
        text = rng.choice(("ik,jk->ij", "ik,kj->ij"))
        second = (n, k) if text == "ik,jk->ij" else (k, n)
        yield Product(text, ((m, k), second), rng.choice(list(MOST_WRONG)))


class Host:
    """NumPy's arrays, and the clock of the processor."""

    arrays = "numpy"

    def __init__(self) -> None:
        from mdtensor.api.tuning.cpu_timer import HostClock

        self.clock = HostClock()
        self.name = "the processor"

    def operands(self, product: Product) -> list[Any]:
        """Operands with elements between -1 and 1."""
        rng = np.random.default_rng(0)
        return [(rng.random(s) * 2 - 1).astype(product.dtype) for s in product.shapes]

    def wrong(self, product: Product, operands: Sequence[Any], result: Any) -> float:
        """The greatest difference from float64, as a part of the largest result."""
        exact = np.einsum(product.text, *(array.astype("f8") for array in operands))
        return float(abs(result.astype("f8") - exact).max() / abs(exact).max())

    def times(self, runs: Sequence[Run]) -> list[list[float]]:
        """Seconds of some turns of each."""
        found = [self.clock.by_turns(runs) for _ in range(_TURNS // 4)]
        return [[t for times in each for t in times or ()] for each in zip(*found, strict=True)]

    def wait(self) -> None:
        """Nothing is under way."""


class Device(Host):
    """Torch's tensors on the first GPU, and its clock."""

    arrays = "cupy"

    def __init__(self) -> None:
        from mdtensor.api.engine import registry
        from mdtensor.backends.cuda.cuda_timer import CudaClock

        device: Any = registry.engine_for(self.arrays).device
        self.torch: Any = importlib.import_module("torch")
        self.gpu_clock = CudaClock(device)
        self.name = f"{self.torch.cuda.get_device_name()}, torch {self.torch.__version__}"

    def operands(self, product: Product) -> list[Any]:
        """Operands with elements between -1 and 1."""
        self.torch.manual_seed(0)
        dtype = getattr(self.torch, product.dtype)
        made = (self.torch.rand(shape, device="cuda") * 2 - 1 for shape in product.shapes)
        return [tensor.to(dtype) for tensor in made]

    def wrong(self, product: Product, operands: Sequence[Any], result: Any) -> float:
        """The greatest difference from float64, as a part of the largest result."""
        if not self.torch.is_tensor(result):
            is_short = result.dtype.name == "bfloat16"
            result = self.torch.from_dlpack(result.view("i2") if is_short else result)
            result = result.view(self.torch.bfloat16) if is_short else result
        exact = self.torch.einsum(product.text, *(tensor.double() for tensor in operands))
        return float((result.double() - exact).abs().max() / exact.abs().max())

    def times(self, runs: Sequence[Run]) -> list[list[float]]:
        """Seconds of some turns of each on the device."""
        return self.gpu_clock.times(runs, _TURNS, ahead=True)

    def wait(self) -> None:
        """Waits until the device is idle."""
        self.torch.cuda.synchronize()


def host_us(side: Host, run: Run) -> float:
    """Microseconds of a call until it returns, on an idle device: the median."""
    found: list[float] = []
    for _ in range(_CALLS):
        side.wait()
        begun = time.perf_counter()
        run()
        found.append(time.perf_counter() - begun)
    return statistics.median(found) * 1e6


def measured(side: Host, product: Product, gains: list[float]) -> str:
    """A line on a product that was tuned; what it gained is added to the others'."""
    import mdtensor as mdt

    operands = side.operands(product)
    plan = mdt.compile(product.text, *operands)

    def in_mode(mode: Any) -> Any:  # which costs the host as much in either
        with mdt.tuning(mode):
            return plan(*operands)

    runs = {"untuned": partial(in_mode, "off"), "tuned": partial(in_mode, "cached")}
    for name, run in runs.items():
        for _ in range(_WARM):
            result = run()
        if not (wrong := side.wrong(product, operands, result)) <= MOST_WRONG[product.dtype]:
            return f"{product}: {name} WRONG by {wrong:.1e}"
    before, after = list[float](), list[float]()
    while len(before) < _MOST_TURNS:
        more = side.times([*runs.values()])
        before, after = before + more[0], after + more[1]
        if is_faster(before, after) or is_faster(after, before):
            break
    with mdt.tuning("off"):
        host = host_us(side, lambda: plan(*operands))
    host_tuned = host_us(side, lambda: plan(*operands))
    ratio = statistics.median(b / a for b, a in zip(before, after, strict=True))
    gains.append(ratio)
    verdict = " SLOWER" if is_faster(before, after) else ""
    verdict = " faster" if is_faster(after, before) else verdict
    return (
        f"{product}: untuned {_shown(before)}, tuned {_shown(after)}, {ratio:.3f}x{verdict}; "
        f"host {host:.1f} and {host_tuned:.1f} us"
    )


def _shown(seconds: Sequence[float]) -> str:
    first, middle, third = (t * 1e6 for t in statistics.quantiles(seconds, n=4))
    return f"{middle:.2f} us ({first:.2f} to {third:.2f})"


def recorded(side: Host, products: Sequence[Product]) -> list[Any]:
    """What calls of all products compute, for a search."""
    import mdtensor as mdt

    with mdt.tuning("record") as seen:
        for product in products:
            mdt.einsum(product.text, *side.operands(product))
    return list(seen)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints, also to a file; 1 where something was slower or wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.never_slower", description=__doc__)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--count", type=int, default=40, help="products")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=200.0, help="of the search for all")
    parser.add_argument("--limit", type=float, default=350.0, help="seconds after which it ends")
    parser.add_argument("--operations", type=float, default=float(1 << 35), help="of a product")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    ends = time.monotonic() + options.limit
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MDTENSOR_CACHE_DIR"] = folder
        import ml_dtypes  # noqa: F401  # gives NumPy the name bfloat16

        import mdtensor as mdt
        from mdtensor.api.engine import registry

        side = Host() if options.device == "cpu" else Device()
        told = f"seed {options.seed}, {options.seconds:.0f} s of search"
        tell(f"{now()}, {side.name}, commit {commit()}, {told}", options.out)
        products = list(drawn(options.count, options.seed, options.operations))
        work = recorded(side, products)
        registry.engine_for(side.arrays).settle()
        reports = mdt.tune(work, options.seconds, quiet=True)
        tell(str(reports), options.out)
        gains, bad, done = list[float](), list[str](), 0
        for product in products:
            if time.monotonic() > ends:
                break
            done += 1
            line = measured(side, product, gains)
            tell(line, options.out)
            bad += [line] if "SLOWER" in line or "WRONG" in line else []
        mean = math.exp(statistics.fmean(map(math.log, gains))) if gains else math.nan
        left = f", {len(products) - done} not measured" if done < len(products) else ""
        line = f"{done} products{left}: {len(bad)} slower or wrong, {mean:.3f}x in the mean"
        tell(line, options.out)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
