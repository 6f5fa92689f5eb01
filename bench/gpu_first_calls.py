"""First calls on shapes that nobody used, of structures that are known, on a GPU.

`python -m bench.gpu_first_calls --out FILE`, with an empty cache: the first call of each structure;
calls on 20 other shapes right behind it, and on 20 more once the background has nothing to do; what
the general kernel that serves them takes beside the one with constants, how long that one takes to
replace it in calls that go on, and what such calls take on the host meanwhile.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.machine import tell

SHAPES, PATIENCE = 20, 4.0  # of each kind; seconds that a kernel of its own may take to come
Call = Callable[[], Any]


def structures() -> dict[str, Callable[[random.Random], Call]]:
    """Makers of calls on new shapes, by their names."""
    import cupy
    import ml_dtypes  # noqa: F401  # gives NumPy the name bfloat16

    import mdtensor as mdt

    def array(*shape: int, dtype: str = "f4") -> Any:
        return cupy.zeros(shape, dtype)

    def product(rng: random.Random, dtype: str = "f4") -> Call:
        a, b = array(rng.randint(300, 2000), 1024, dtype=dtype), array(1024, 2048, dtype=dtype)
        return lambda: mdt.einsum("ik,kj->ij", a, b)

    def attention(rng: random.Random) -> Call:
        length = rng.randint(200, 1000)
        q, k = (array(4, 16, length, 64, dtype="bfloat16") for _ in range(2))
        return lambda: mdt.einsum("bhqd,bhkd->bhqk", q, k)

    def convolution(rng: random.Random) -> Call:
        images = array(rng.randint(4, 16), rng.randint(20, 60), rng.randint(20, 60), 64)
        filters = array(64, 3, 3, 64)
        return lambda: mdt.conv(images, filters)

    def rows(rng: random.Random) -> Call:
        a = array(rng.randint(2000, 20000), rng.randint(200, 3000))
        return lambda: mdt.reduce("ij->i", a, combine="max")

    return {
        "product": product,
        "product, bfloat16": lambda rng: product(rng, "bfloat16"),
        "scores, bfloat16": attention,
        "convolution": convolution,
        "maxima of rows": rows,
    }


class Measured:
    """One structure's calls, on the current device."""

    def __init__(self, make: Callable[[random.Random], Call]) -> None:
        import cupy

        from mdtensor.api.engine import registry
        from mdtensor.backends.cuda.cuda_timer import CudaClock

        self.wait = cupy.cuda.get_current_stream().synchronize
        self.engine: Any = registry.engine_for("cupy")
        self.clock = CudaClock(self.engine.device)
        self.rng, self.make = random.Random(0), make

    def lines(self) -> list[str]:
        """What was found."""
        first = self.first()
        behind = [self.first() for _ in range(SHAPES)]
        self.engine.settle()
        later = [self.first() for _ in range(SHAPES)]
        compiling = sum(seconds > 0.02 for seconds in behind)
        found = [
            f"first call {first * 1e3:.1f} ms",
            f"{SHAPES} other shapes behind it: {_summary(behind)}, {compiling} above 20 ms",
            f"{SHAPES} more: {_summary(later)}",
        ]
        self.engine.settle()
        return found + self.replaced()

    def first(self) -> float:
        """Seconds of a first call on a new shape, until the device is done."""
        call = self.make(self.rng)
        self.wait()
        begun = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - begun

    def standing(self) -> set[object]:
        """The problems that a general kernel serves until their own comes."""
        table = self.engine.tiers.table
        return {key for key, reached in table.items() if getattr(reached, "is_general", False)}

    def replaced(self) -> list[str]:
        """How a shape is served until its own kernel comes, and then."""
        call = self.make(self.rng)
        call()
        standing = self.standing()
        (general,) = self.clock.times([call], 1)  # its second call: from now on it comes again
        begun, hosts = time.perf_counter(), []
        while time.perf_counter() - begun < PATIENCE:
            if standing != self.standing():
                break
            before = time.perf_counter()
            call()
            hosts.append(time.perf_counter() - before)
            self.wait()
            time.sleep(1e-3)
        taken = time.perf_counter() - begun
        self.engine.settle()
        call()
        own = self.clock.times([call], 5)[0]
        once, last = statistics.median(general), statistics.median(own)
        return [
            f"general kernel {once * 1e6:.1f} us, its own {last * 1e6:.1f} us ({once / last:.2f})",
            f"its own after {taken:.2f} s and {len(hosts)} calls, of {_summary(hosts)} on the host",
        ]


def _summary(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    return f"median {statistics.median(seconds) * 1e3:.2f} ms, most {max(seconds) * 1e3:.1f} ms"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the structures and prints what was found, also to a file."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_first_calls", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of structures")
    parser.add_argument("--out", type=Path, help="a file to write")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MDTENSOR_CACHE_DIR"] = folder
        begun = time.perf_counter()
        for name, make in structures().items():
            if options.only not in name:
                continue
            text = "\n  ".join([name, *Measured(make).lines()])
            tell(text, options.out, f"[{time.perf_counter() - begun:5.1f}] ")


if __name__ == "__main__":
    sys.exit(main())
