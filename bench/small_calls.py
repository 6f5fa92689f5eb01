"""Small everyday calls beside NumPy and torch.

A line for each call: microseconds of the second call of its shape; then, hot and by turns, of a
call with a new result, of one with `out`, of the enqueue of its kernels alone, of a new result that
is touched page by page, and of the peers (torch with two threads, and alone with one); and the best
peer's time over ours. The first second of hot calls is not timed, in which frequent shapes get
kernels of their own. The enqueue is that of all steps' kernels, also where calls have one for all.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.calls import Case as OfCalls
from bench.calls import enqueue_of
from bench.timing import batch
from bench.workload import Call

WARM_SECONDS, BATCH_SECONDS, TURNS = 1.0, 0.01, 9
WAYS = ("call", "out", "enqueue", "result")
_PAGE = 4096


@dataclass(frozen=True)
class Case:
    """A call on arrays, and what others make of these; torch's are tensors on the same memory."""

    name: str
    function: Callable[..., Any]
    given: Sequence[Any]
    numpys: Mapping[str, Callable[..., Any]]
    torchs: Callable[..., Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    has_out: bool = True

    @property
    def arrays(self) -> list[np.ndarray]:
        """The arrays among what is given."""
        return [value for value in self.given if type(value) is np.ndarray]

    def call(self) -> Any:
        """The call of the public interface."""
        return self.function(*self.given, **self.options)

    def ways(self) -> dict[str, Call]:
        """All that takes turns, by name."""
        torch: Any = importlib.import_module("torch")
        ways: dict[str, Call] = {"call": functools.partial(self.function, *self.given)}
        if self.options:
            ways["call"] = functools.partial(self.function, *self.given, **self.options)
        result = self.call()
        if self.has_out and isinstance(result, np.ndarray):
            out = np.empty_like(result)
            ways["out"] = functools.partial(self.function, *self.given, out=out, **self.options)
        planned = OfCalls(self.name, self.function, self.given, options=self.options).planned
        ways["enqueue"] = enqueue_of(planned)
        ways["result"] = functools.partial(_touched, planned.result.shape, planned.result.dtype)
        for name, function in self.numpys.items():
            ways[f"np.{name}"] = functools.partial(function, *self.arrays)
        if self.torchs is not None:
            ways["torch"] = functools.partial(self.torchs, *map(torch.from_numpy, self.arrays))
            ways["torch alone"] = ways["torch"]
        return ways


def _touched(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """A new array whose pages are there."""
    made = np.empty(shape, dtype)
    made.reshape(-1).view(np.uint8)[::_PAGE] = 1
    return made


def _drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(0.5, 1.5, shape).astype("f4")


def _einsum(text: str, *arrays: np.ndarray, **numpys: Callable[..., Any]) -> Case:
    """An einsum; torch's is measured too."""
    mdt, torch = importlib.import_module("mdtensor"), importlib.import_module("torch")
    shapes = " ".join("x".join(map(str, array.shape)) for array in arrays)
    peers = {**numpys, "einsum": functools.partial(np.einsum, text)}
    if len(arrays) > 2:
        peers["einsum"] = functools.partial(np.einsum, text, optimize=True)
    return Case(
        f"{text} {shapes}",
        mdt.einsum,
        (text, *arrays),
        peers,
        functools.partial(torch.einsum, text),
    )


def _outer_products() -> Iterator[Case]:
    for m, n in ((100, 100), (300, 300), (500, 500), (1000, 1200), (2000, 2000), (4000, 4000)):
        yield _einsum("i,j->ij", _drawn(m), _drawn(n), outer=np.multiply.outer)


def _products() -> Iterator[Case]:
    for batched, m, k, n in ((64, 8, 8, 8), (1000, 4, 4, 4), (32, 32, 32, 8), (32, 32, 32, 32)):
        a, b = _drawn(batched, m, k), _drawn(batched, k, n)
        yield _einsum("bij,bjk->bik", a, b, matmul=np.matmul)
    for n in (4, 10, 24, 50, 100):
        yield _einsum("ij,jk->ik", _drawn(n, n), _drawn(n, n), matmul=np.matmul)
    for n in (10, 30, 100, 300, 1000):
        yield _einsum("ij,j->i", _drawn(n, n), _drawn(n), matmul=np.matmul)
    for n in (10, 1000, 10000):
        yield _einsum("i,i->", _drawn(n), _drawn(n), dot=np.dot)


def _chains() -> Iterator[Case]:
    def product(*arrays: np.ndarray) -> np.ndarray:
        return functools.reduce(np.matmul, arrays)

    for n in (10, 24, 50, 100):
        yield _einsum("ij,jk,kl->il", *(_drawn(n, n) for _ in range(3)), matmul=product)
    a, b, c, d = _drawn(20, 30), _drawn(30, 40), _drawn(40, 50), _drawn(50, 25)
    yield _einsum("ij,jk,kl,lm->im", a, b, c, d, matmul=product)
    for n in (10, 50, 100):
        yield _einsum("ij,jk,kl,lm->im", *(_drawn(n, n) for _ in range(4)), matmul=product)
    bilinear = lambda x, m, y: x @ m @ y  # noqa: E731
    for n in (10, 100):
        yield _einsum("i,ij,j->", _drawn(n), _drawn(n, n), _drawn(n), matmul=bilinear)


def _sums() -> Iterator[Case]:
    for n in (10, 100, 1000):
        yield _einsum("ij->i", _drawn(n, n), sum=lambda a: a.sum(1))
        yield _einsum("ij->j", _drawn(n, n), sum=lambda a: a.sum(0))
    yield _einsum("ij->", _drawn(100, 100), sum=lambda a: a.sum())
    yield _einsum("ii->", _drawn(100, 100), trace=np.trace)
    yield _einsum("bii->b", _drawn(20, 30, 30), trace=lambda a: np.trace(a, 0, 1, 2))
    yield _einsum("bij->j", _drawn(20, 30, 40), sum=lambda a: a.sum((0, 1)))


def _elements() -> Iterator[Case]:
    for n in (10, 100, 300, 1000):
        yield _einsum("ij,ij->ij", _drawn(n, n), _drawn(n, n), multiply=np.multiply)
    yield _einsum("ij,ji->ij", _drawn(100, 100), _drawn(100, 100), multiply=lambda a, b: a * b.T)
    yield _einsum("ij,j->ij", _drawn(100, 100), _drawn(100), multiply=np.multiply)
    yield _einsum("ii,i->i", _drawn(100, 100), _drawn(100), multiply=lambda a, b: a.diagonal() * b)


def _signals() -> Iterator[Case]:
    mdt, torch = importlib.import_module("mdtensor"), importlib.import_module("torch")

    def conv1d(x: Any, taps: Any) -> Any:
        return torch.nn.functional.conv1d(x[None, None], taps[None, None])

    for n, k in ((100, 5), (1000, 9), (10000, 31)):
        for name in ("convolve", "correlate"):
            numpys = {name: functools.partial(getattr(np, name), mode="valid")}
            given = (_drawn(n), _drawn(k))
            torchs = conv1d if name == "correlate" else None
            shape, mode = f"{name} valid {n} {k}", {"mode": "valid"}
            yield Case(shape, getattr(mdt, name), given, numpys, torchs, mode, has_out=False)
    for n, k in ((100, 5), (1000, 9)):
        given = (_drawn(n), _drawn(k))
        numpys = {"convolve": np.convolve}
        yield Case(f"convolve full {n} {k}", mdt.convolve, given, numpys, has_out=False)


def cases() -> list[Case]:
    """All calls, in the order of the table."""
    makers = (_outer_products, _products, _chains, _sums, _elements, _signals)
    return [case for maker in makers for case in maker()]


def _once(call: Call) -> float:
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def timed(case: Case, turns: int) -> dict[str, float]:
    """Seconds of the second call, and hot ones of every way."""
    pipeline: Any = importlib.import_module("mdtensor.api.engine.registry")
    found = {"first": _once(case.call), "second": _once(case.call)}
    until = time.perf_counter() + WARM_SECONDS
    while time.perf_counter() < until:
        case.call()
    pipeline.engine_for().settle()
    ways = case.ways()
    medians: dict[str, list[float]] = {name: [] for name in ways}
    torch: Any = importlib.import_module("torch")
    for _ in range(turns):
        for name, way in ways.items():
            torch.set_num_threads(1 if name == "torch alone" else 2)
            medians[name].append(statistics.median(batch(way, BATCH_SECONDS)))
    # The least: other processes may have had a core for a while.
    return found | {name: min(times) for name, times in medians.items()}


def line_of(name: str, found: Mapping[str, float]) -> str:
    """A case's times for people.

    >>> line_of("ij->i", {"second": 3e-4, "call": 4e-6, "np.sum": 2e-6, "torch": 5e-6})
    'ij->i   |  300.0     4.0        –        –        – |    0.50   np.sum 2.0, torch 5.0'
    """
    known = ("first", "second", *WAYS)
    peers = {way: seconds for way, seconds in found.items() if way not in known}
    shown = (f"{found[way] * 1e6:8.1f}" if way in found else f"{'–':>8}" for way in WAYS)
    ratio = min(peers.values()) / found["call"]
    others = ", ".join(f"{way} {seconds * 1e6:.1f}" for way, seconds in peers.items())
    times = f"{found['second'] * 1e6:6.1f}" + " ".join(shown)
    return f"{name:<8}| {times} | {ratio:7.2f}   {others}"


def main(arguments: list[str] | None = None) -> None:
    """Measures the chosen cases and prints them, worst ratios marked."""
    parser = argparse.ArgumentParser(prog="python -m bench.small_calls", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument(
        "--by-python", action="store_true", help="without the built-in function of hot calls"
    )
    options = parser.parse_args(arguments)
    if options.by_python:
        guarded: Any = importlib.import_module("mdtensor.backends.llvm.guarded_calls")
        guarded.is_possible = lambda: False
    pipeline: Any = importlib.import_module("mdtensor.api.engine.registry")
    torch: Any = importlib.import_module("torch")
    target = pipeline.engine_for().target
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    print(f"{target.name}, {target.cores} cores, {target.driver}")
    print(f"{versions}, torch {torch.__version__}; µs, the least of turns' medians")
    print(f"{'':<40}| second" + " ".join(f"{way:>8}" for way in WAYS) + " | peer/ours")
    for case in cases():
        if options.only in case.name:
            print(line_of(f"{case.name:<40}", timed(case, options.turns)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
