"""Operands larger than memory, beside reading their files: `python -m bench.streaming`.

`[--gigabytes 48] [--limit 4GB] [--folder PLACE] [--only sum,scan]`: a file of float32 numbers, of
so many bytes, is written to the folder, and each call has it as its operand, by a map. Then half of
it, with results that are as long, which go to a map too: their operands and results have the same
bytes together.

A line for each call: the bytes that it reads and writes; seconds to read the file alone, and to
write a file of the results' size, in turn before and after the call; seconds of the call, and their
ratio; what the plan says is its peak, and the most memory that the process had besides pages of
files while it ran, less what it had before. Pages of the file are dropped from memory before each
of them, and results are synced. Kernels are compiled before, on the first rows. Results are
compared with float64's, on parts of the file where they are long. Linux only.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mdtensor as mdt
from bench.machine import commit, now, processor
from mdtensor.api.engine import registry

WIDTH, IMAGE = 4096, (128, 128, 16)  # numbers of a row, and of an image of the convolution
BLOCK = 1 << 26  # bytes that are read, written and checked at once
_STATUS = Path("/proc/self/status")
Check = Callable[[np.ndarray, Any], None]


@dataclass(frozen=True)
class Case:
    """A streamed call: `plan` of an operand and an `out`, the operand's shape, and its check.

    `has_long_results` says that results are as long as the operand.
    """

    name: str
    plan: Callable[..., Any]
    shape: tuple[int, ...]
    check: Check
    has_long_results: bool = False


def blocks(x: np.ndarray) -> Iterator[np.ndarray]:
    """Parts of an operand along its first axis, in float64."""
    rows = max(1, BLOCK // x[:1].nbytes)
    for start in range(0, len(x), rows):
        yield x[start : start + rows].astype(np.float64)


def some_rows(x: np.ndarray) -> Iterator[slice]:
    """Sixteen parts of an operand along its first axis: its ends, and others between."""
    for start in np.linspace(0, len(x) - 8, 16).astype(int):
        yield slice(start, start + 8)


def check_sum(x: np.ndarray, found: Any) -> None:
    np.testing.assert_allclose(found, sum(block.sum() for block in blocks(x)), rtol=1e-4)


def check_product(x: np.ndarray, found: Any) -> None:
    for rows in some_rows(x):
        wanted = x[rows].astype(np.float64) @ FACTOR
        np.testing.assert_allclose(found[rows], wanted, rtol=1e-4)


def check_images(x: np.ndarray, found: Any) -> None:
    windows = np.lib.stride_tricks.sliding_window_view
    for rows in some_rows(x):
        seen = windows(x[rows].astype(np.float64), (3, 3), (1, 2))[:, ::4, ::4]
        wanted = np.einsum("npqcrs,krsc->npqk", seen, FILTERS, optimize=True)
        np.testing.assert_allclose(found[rows], wanted, rtol=1e-4)


def check_means(x: np.ndarray, found: Any) -> None:
    for rows in some_rows(x):
        u = x[rows].astype(np.float64)
        wanted = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
        np.testing.assert_allclose(found[rows][1:-1, 1:-1], wanted, rtol=1e-5)


def check_totals(x: np.ndarray, found: Any) -> None:
    for rows in some_rows(x):
        wanted = np.cumsum(x[rows].astype(np.float64), 1)
        np.testing.assert_allclose(found[rows], wanted, rtol=1e-4)


def check_counts(x: np.ndarray, found: Any) -> None:
    counted = np.zeros(len(found), np.int64)
    for start in range(0, len(x), 4096):
        rows = x[start : start + 4096]
        counted += np.bincount((rows * BINS).astype(np.int64).ravel(), minlength=len(found))
    np.testing.assert_array_equal(found, counted)


RNG = np.random.default_rng(0)
FACTOR = RNG.random((WIDTH, 64), np.float32)
FILTERS = RNG.random((4, 3, 3, IMAGE[-1]), np.float32)
BINS = np.float32(64)
mean = mdt.stencil(lambda u: 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]), border="nearest")


def counts(x: np.ndarray, _: Any, **limit: Any) -> Any:
    def is_there(value: Any, *, b: Any) -> Any:
        return 1 if (value * BINS).astype(np.int64) == b else 0

    return mdt.stream(mdt.reduce, "ij->b", x, f=is_there, extents={"b": int(BINS)}, **limit)


CASES = [
    Case(
        "sum", lambda x, _, **limit: mdt.stream(mdt.reduce, "ij->", x, **limit), (WIDTH,), check_sum
    ),
    Case(
        "product",
        lambda x, _, **limit: mdt.stream(mdt.einsum, "ij,jk->ik", x, FACTOR, **limit),
        (WIDTH,),
        check_product,
    ),
    Case(
        "convolution",
        lambda x, _, **limit: mdt.stream(mdt.conv, x, FILTERS, stride=4, **limit),
        IMAGE,
        check_images,
    ),
    Case("histogram", counts, (WIDTH,), check_counts),
    Case(
        "stencil",
        lambda x, out, **limit: mdt.stream(mean, x, out=out, **limit),
        (WIDTH,),
        check_means,
        has_long_results=True,
    ),
    Case(
        "scan",
        lambda x, out, **limit: mdt.stream(
            mdt.scan, "ij->ij", x, out=out, combine={"j": "add"}, **limit
        ),
        (WIDTH,),
        check_totals,
        has_long_results=True,
    ),
]


def write_numbers(file: Path, size: int) -> None:
    """Writes random numbers from 0 to 1: the same megabytes again and again, each time moved."""
    drawn = RNG.random(BLOCK // 4 + WIDTH, np.float32)
    with file.open("wb") as stream:
        for _ in range(0, size, BLOCK):
            start = int(RNG.integers(WIDTH))
            stream.write(drawn[start : start + BLOCK // 4].data)
        os.fsync(stream.fileno())


def drop(file: Path) -> None:
    """Drops a file's pages from memory."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds_of_files(file: Path, written: int) -> float:
    """Seconds to read a file, and to write as many bytes as results have."""
    drop(file)
    buffer = np.empty(BLOCK, np.uint8)
    before = time.perf_counter()
    with file.open("rb", buffering=0) as stream:
        while stream.readinto(buffer.data):
            pass
    if written:
        other = file.with_name("alone")
        with other.open("wb", buffering=0) as stream:
            for _ in range(0, written, BLOCK):
                stream.write(buffer.data)
            os.fsync(stream.fileno())
        taken = time.perf_counter() - before
        other.unlink()
        return taken
    return time.perf_counter() - before


class Peak:
    """The most memory of this process besides pages of files, less what it has at the start."""

    def __enter__(self) -> Peak:
        self.before = self.most = self._now()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def bytes(self) -> int:
        return self.most - self.before

    def _watch(self) -> None:
        while not self._ended.wait(0.01):
            self.most = max(self.most, self._now())

    def _now(self) -> int:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
        (line,) = (line for line in lines if line.startswith("RssAnon"))
        return int(line.split()[1]) * 1024


def measured(case: Case, file: Path, limit: str) -> str:
    """What is said of a call on a file."""
    x = np.memmap(file, np.float32, "r").reshape(-1, *case.shape)
    place = file.with_name("results")

    def long_results(rows: int) -> np.ndarray | None:
        if not case.has_long_results:
            return None
        return np.memmap(place, np.float32, "w+", shape=(rows, *case.shape))

    few = min(len(x), 4096 if case.shape == (WIDTH,) else 256)
    for _ in range(3):
        case.plan(x[:few], long_results(few), memory_limit=limit)()
        registry.engine_for().settle(timeout=600)
    written = x.nbytes if case.has_long_results else 0
    place.unlink(missing_ok=True)
    alone = [seconds_of_files(file, written)]
    out = long_results(len(x))
    plan = case.plan(x, out, memory_limit=limit)
    drop(file)
    before = time.perf_counter()
    with Peak() as peak:
        found = plan()
        if out is not None:
            out.flush()
    taken = time.perf_counter() - before
    case.check(x, found)
    planned = plan.peak
    del found, out, plan
    place.unlink(missing_ok=True)
    alone.append(seconds_of_files(file, written))
    least = sum(alone) / 2
    return (
        f"{case.name:12}{x.nbytes / 1e9:9.1f}{written / 1e9:9.1f}{least:9.1f}{taken:9.1f}"
        f"{taken / least:8.2f}{planned / 1e9:9.2f}{peak.bytes / 1e9:9.2f}"
    )


def main() -> int:
    """Writes the file, measures every call, and removes what was written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=48)
    parser.add_argument("--limit", default="4GB")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--only", default="", help="names of calls, with commas between")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [case.name for case in CASES]
    print(f"{now()}, commit {commit()}, {processor()}, load {os.getloadavg()[0]:.1f}")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    print(f"memory of the machine {memory / 1e9:.1f} GB, limit {options.limit}; GB and seconds")
    heads = ("read", "written", "files", "call", "ratio", "planned", "peak")
    print(
        f"{'':12}" + "".join(f"{head:>{8 if head == 'ratio' else 9}}" for head in heads), flush=True
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        file = Path(folder) / "numbers"
        size = max(1, int(options.gigabytes * 1e9) // (2 * BLOCK)) * 2 * BLOCK
        write_numbers(file, size)
        wanted = [case for case in CASES if case.name in names]
        for case in sorted(wanted, key=lambda case: case.has_long_results):
            if case.has_long_results and file.stat().st_size == size:
                os.truncate(file, size // 2)
            print(measured(case, file, options.limit), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
