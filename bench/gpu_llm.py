"""Products of language models in half precision against torch: by turns, in one run on a GPU.

`python -m bench.gpu_llm --out FILE` prints for every case the times of torch's function and of a
plan, and their ratio (above 1: faster than torch): at the first call, by the kernel that the cost
model chooses, and by the one that a search of `--seconds` finds. A result further from float64
than `MOST_WRONG` has no time. The L2 cache is flushed between runs.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import commit, now, tell

MOST_WRONG = {"float16": 2e-3, "bfloat16": 1e-2}  # of the largest result
ROUNDS, SOON = 21, 3  # before a better kernel takes the place of the first


@dataclass(frozen=True)
class Case:
    """An einsum of two operands, and how torch says it."""

    name: str
    text: str
    first: tuple[int, ...]
    second: tuple[int, ...]
    said: Callable[[Any, Any], Any]


def _torch(a: Any, b: Any) -> Any:
    return a @ b


def _turned(a: Any, b: Any) -> Any:
    return a @ b.mT


def _layers() -> list[Case]:
    found: list[Case] = []
    for rows in (1, 8, 16, 128, 2048):
        for k, n in ((4096, 14336), (14336, 4096)):
            case = functools.partial(Case, f"{rows} rows, {k} to {n}")
            found.append(case("ik,jk->ij", (rows, k), (n, k), _turned))
            found.append(case("ik,kj->ij", (rows, k), (k, n), _torch))
    return found


CASES = (
    *_layers(),
    Case("scores", "bhqd,bhkd->bhqk", (4, 16, 1024, 128), (4, 16, 1024, 128), _turned),
    Case("values", "bhqk,bhkd->bhqd", (4, 16, 1024, 1024), (4, 16, 1024, 128), _torch),
    Case("scores of one row", "bhqd,bhkd->bhqk", (16, 32, 1, 128), (16, 32, 2048, 128), _turned),
    Case("experts", "eik,ekj->eij", (8, 128, 4096), (8, 4096, 1536), _torch),
)


class Device:
    """The first GPU with an empty store, and its clock."""

    def __init__(self) -> None:
        import cupy
        import ml_dtypes  # noqa: F401  # gives NumPy the name bfloat16

        from mdtensor.api.engine import registry
        from mdtensor.backends.cuda.cuda_timer import CudaClock

        self.cupy = cupy
        self.engine: Any = registry.engine_for("cupy")
        self.clock = CudaClock(self.engine.device)
        self.torch: Any = importlib.import_module("torch")

    def measure(self, case: Case, dtype: str, seconds: float) -> str:
        """One line of what a case takes."""
        import mdtensor as mdt

        generator = self.cupy.random.default_rng(0)
        shapes = case.first, case.second
        a, b = ((generator.random(s, "f4") * 2 - 1).astype(dtype) for s in shapes)
        exact = self.cupy.einsum(case.text, a.astype("f8"), b.astype("f8"))
        element = getattr(self.torch, dtype)
        tensors = [self.torch.from_dlpack(x.view("i2")).view(element) for x in (a, b)]
        out = self.cupy.empty(exact.shape, dtype)
        plan = mdt.compile(mdt.einsum, case.text, a, b)
        told: list[str] = []

        def add(name: str, rounds: int) -> None:
            out.fill(math.nan)
            plan(a, b, out=out)
            found = self.cupy.abs(out.astype("f8") - exact).max() / self.cupy.abs(exact).max()
            if not float(found) <= MOST_WRONG[dtype]:
                told.append(f"{name} WRONG by {float(found):.1e}")
                return
            turns = [lambda: case.said(*tensors), lambda: plan(a, b, out=out)]
            theirs, ours = map(statistics.median, self.clock.times(turns, rounds, ahead=True))
            told.append(f"{name} {theirs * 1e6:.1f} / {ours * 1e6:.1f} us = {theirs / ours:.3f}")

        add("first", SOON)
        self.engine.settle()
        add("chosen", ROUNDS)
        if seconds:
            plan.tune(seconds, quiet=True)
            add("tuned", ROUNDS)
        return f"{dtype:8} {case.name:22} {case.text:16} {'  '.join(told)}"

    def facts(self) -> str:
        """Device, versions and date."""
        device = self.cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        versions = f"torch {self.torch.__version__}, CuPy {self.cupy.__version__}"
        return f"{now()}, {device}, {versions}, commit {commit() or 'not known'}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the cases and prints what was found, also to a file."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_llm", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--dtype", nargs="*", default=["bfloat16"], choices=list(MOST_WRONG))
    parser.add_argument("--seconds", type=float, default=10.0, help="of a search; 0 for none")
    parser.add_argument("--out", type=Path, help="a file to write")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MDTENSOR_CACHE_DIR"] = folder
        device = Device()
        lines = (
            device.measure(case, dtype, options.seconds)
            for dtype in options.dtype
            for case in CASES
            if options.only in f"{case.name} {case.text}"
        )
        for line in itertools.chain([device.facts()], lines):
            tell(line, options.out)


if __name__ == "__main__":
    sys.exit(main())
