"""First calls on random structures, beside the better of evaluating them and compiling a kernel.

`python -m bench.first_structures [--count 500] [--seed 0] [--turns 3] [--log FILE]` draws calls of
all front ends, of thousands to millions of points. Each is made first in forks of one process, in
which the engine is open, the modules are imported and nothing is kept: as it is, by a compiled
kernel only, and evaluated only, by turns. The ratio is the median time of the call as it is, by
the lesser median of the two others; what is above the bound is measured again, by three times as
many turns.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import commit, now, processor, tell

BOUND = 1.5  # times the better of both
SHOWN = 15
SECONDS = 20.0  # that a call may take; one that takes longer is stopped, and left out
WAYS = ("as it is", "compiled", "evaluated")
DTYPES = ("f4", "f4", "f4", "f8", "f8", "i4", "i8", "f2", "c8")
Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A call and its words."""

    words: str
    call: Call


class Draw:
    """Random choices of a case; `points` is how much its call computes, about."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.points = 10 ** self.rng.uniform(3, 7.5)

    def extents(self, count: int, points: float | None = None) -> list[int]:
        """Extents with a product of about `points`."""
        shares = [self.rng.uniform(0.2, 1) for _ in range(count)]
        whole = self.points if points is None else points
        return [max(1, round(whole ** (share / sum(shares)))) for share in shares]

    def array(
        self, shape: Sequence[int], dtype: str | None = None, least: float = 1.0
    ) -> np.ndarray:
        """Random numbers from `least` to one more, in C order or Fortran's."""
        values = np.random.default_rng(self.rng.getrandbits(32)).random(shape, np.float32) + least
        array = values.astype(dtype or self.rng.choice(("f4", "f4", "f8")))
        return array.copy("F") if self.rng.random() < 0.15 else array


def _einsum(draw: Draw) -> Case:
    import mdtensor as mdt

    rng, letters = draw.rng, "ijklm"[: draw.rng.choice((2, 3, 3, 4, 5))]
    terms = ["".join(rng.sample(letters, rng.randint(1, min(4, len(letters))))) for _ in range(2)]
    terms = terms[: rng.choice((1, 2, 2, 2))] + (terms[:1] if rng.random() < 0.2 else [])
    used = sorted(set("".join(terms)))
    text = f"{','.join(terms)}->{''.join(rng.sample(used, rng.randrange(len(used))))}"
    extents = dict(zip(used, draw.extents(len(used)), strict=True))
    dtype = rng.choice(DTYPES)
    arrays = [draw.array([extents[c] for c in term], dtype) for term in terms]
    return Case(f"einsum {text} {dtype} {extents}", lambda: mdt.einsum(text, *arrays))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "x": lambda x: x,
    "x*x+1": lambda x: x * x + 1,
    "exp": lambda x: np.exp(-x),
    "sin(sqrt)": lambda x: np.sin(np.sqrt(x)),
    "tanh of a cubic": lambda x: np.tanh(x + 0.044715 * x * x * x),
    "where": lambda x: np.where(x > 1.5, x, 1 / x),
}
_TUPLES: dict[str, Callable[[Any, Any], Any]] = {
    "sum and largest": lambda x, y: (x[0] + y[0], np.maximum(x[1], y[1])),
    "lines": lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]),
}


def _reduce(draw: Draw) -> Case:
    import mdtensor as mdt

    rng = draw.rng
    term = "ijk"[: rng.choice((1, 2, 2, 3))]
    output = "".join(rng.sample(term, rng.randrange(len(term))))
    combine = rng.choice(("add", "max", "mul", "min", "logaddexp", *_TUPLES))
    name, dtype = rng.choice(list(_FUNCTIONS)), rng.choice(("f4", "f4", "f8"))
    array, function = draw.array(draw.extents(len(term)), dtype), _FUNCTIONS[name]
    f = (lambda x: (function(x), x)) if combine in _TUPLES else function
    text = f"{term}->{output}"
    words = f"reduce {text} {combine} of {name} {dtype}{array.shape}"
    operator: Any = _TUPLES.get(combine, combine)
    return Case(words, lambda: mdt.reduce(text, array, f=f, combine=operator))


def _scan(draw: Draw) -> Case:
    import mdtensor as mdt

    rng, text = draw.rng, draw.rng.choice(("i->i", "ij->ij", "ij->ji"))
    combine, dtype = rng.choice(("add", "max", "mul")), rng.choice(DTYPES[:-1])
    # Sums that stay finite, also those of float16.
    array = draw.array(draw.extents(text.index("-")), dtype, least=-0.5)
    along: Any = combine if array.ndim == 1 else {"j": combine}
    exclusive = rng.random() < 0.3
    words = f"scan {text} {combine} exclusive={exclusive} {dtype}{array.shape}"
    return Case(words, lambda: mdt.scan(text, array, combine=along, exclusive=exclusive))


def _conv(draw: Draw) -> Case:
    import mdtensor as mdt

    rng, dtype = draw.rng, draw.rng.choice(("f4", "f4", "f8", "i4", "f2"))
    size, channels, filters = rng.choice((1, 3, 3, 5)), *rng.choices((1, 3, 8, 16, 32), k=2)
    most = draw.points / (size * size * channels * filters)
    n, h, w = (max(size, extent) for extent in draw.extents(3, max(1, most)))
    images, taps = draw.array((min(n, 8), h, w, channels), dtype), (filters, size, size, channels)
    kernels = draw.array(taps, dtype)
    options: dict[str, Any] = {
        "stride": rng.choice((1, 1, 2)),
        "padding": rng.choice(("valid", "same")),
        "dilation": 1 if min(h, w) < 2 * size else rng.choice((1, 1, 2)),
        "epilogue": rng.choice((None, None, "relu")),
    }
    words = f"conv {dtype}{images.shape} {taps} {options}"
    return Case(words, lambda: mdt.conv(images, kernels, **options))


def _stencil(draw: Draw) -> Case:
    import mdtensor as mdt

    rng, ndim = draw.rng, draw.rng.choice((1, 2, 2, 3))
    reach, parts = rng.choice((1, 2)), rng.randint(2, 9)
    reads = [tuple(rng.randint(-reach, reach) for _ in range(ndim)) for _ in range(parts)]
    places = [read if ndim > 1 else read[0] for read in reads]
    border = rng.choice(("valid", "fixed", "constant", "nearest", "reflect", "mirror", "wrap"))
    dtype, is_sum = rng.choice(("f4", "f4", "f8")), rng.random() < 0.6

    def step(u: Any) -> Any:
        found = u[places[0]]
        for n, place in enumerate(places[1:]):
            found = found + 0.1 * n * u[place] if is_sum else np.maximum(found, u[place])
        return found

    array = draw.array([max(8, e) for e in draw.extents(ndim, draw.points / parts)], dtype)
    made = mdt.stencil(step, border=border)
    what = "sum" if is_sum else "largest"
    return Case(f"stencil {what} of {places} {border} {dtype}{array.shape}", lambda: made(array))


def _filter(draw: Draw) -> Case:
    import mdtensor as mdt

    rng, ndim = draw.rng, draw.rng.choice((1, 2, 2, 3))
    name, given = rng.choice(
        (
            ("gaussian_filter", rng.choice((0.5, 1.5))),
            ("uniform_filter", rng.choice((2, 3, 5))),
            ("maximum_filter", 3),
            ("median_filter", 3 if ndim < 3 else 2),
            ("sobel", 0),
            ("correlate", np.ones((3,) * ndim)),
        )
    )
    mode = rng.choice(("reflect", "constant", "nearest", "mirror", "wrap"))
    array = draw.array([max(8, e) for e in draw.extents(ndim, draw.points / 10)])
    call = getattr(mdt.ndimage, name)
    words = f"{name} {np.shape(given) or given} {mode} {array.dtype}{array.shape}"
    return Case(words, lambda: call(array, given, mode=mode))


def _along_axes(draw: Draw) -> Case:
    import mdtensor as mdt

    rng, ndim = draw.rng, draw.rng.choice((1, 2, 2, 3))
    names = "softmax", "logsumexp", "layer_norm", "var", "mean", "sum", "max", "argmax", "max_pool"
    name, array = rng.choice(names), draw.array(draw.extents(ndim))
    call, axis = getattr(mdt, name), rng.randrange(ndim)
    words = f"{name} {axis} {array.dtype}{array.shape}"
    if name == "max_pool":
        return Case(words, lambda: call(array, (1,), axes=(axis,)))
    return Case(words, lambda: call(array, axis=axis))


def _lazy(draw: Draw) -> Case:
    import mdtensor as mdt

    rng, ndim = draw.rng, draw.rng.choice((1, 2, 2, 3))
    shape, names = draw.extents(ndim), [rng.choice([*_FUNCTIONS]) for _ in range(rng.randint(1, 4))]
    one, other = draw.array(shape), draw.array(shape[-1:])
    total = rng.choice((None, None, 0, ndim - 1))

    def call() -> Any:
        x: Any = mdt.lazy(one)
        for name in names:
            x = _FUNCTIONS[name](x) * mdt.lazy(other)
        return (x if total is None else x.sum(total)).evaluate()

    return Case(f"lazy {names}, sum {total}, {one.dtype}{one.shape}", call)


KINDS = (_einsum, _einsum, _reduce, _reduce, _scan, _conv, _stencil, _filter, _along_axes, _lazy)


def case_of(seed: int, number: int) -> Case:
    """The case of a number; ten in a row are of all kinds."""
    return KINDS[number % len(KINDS)](Draw(f"{seed}/{number}"))


def seconds_of(call: Call, way: str) -> float | None:
    """Seconds of a call in a fork of this process; None where it raises or takes too long."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        try:
            _go(way)
            begun = time.perf_counter()
            call()
            os.write(write, json.dumps(time.perf_counter() - begun).encode())
        except Exception:
            traceback.print_exc(limit=-1)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        said = told.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else None


def _go(way: str) -> None:
    """Makes all first calls of this process be served that way."""
    from mdtensor.api.engine import evaluated, registry

    signal.alarm(int(SECONDS))
    if way == "compiled":
        registry.engine_for()._evaluates = False
    elif way == "evaluated":
        evaluated.COMPILING = evaluated.LOADING = float("inf")


@dataclass(frozen=True)
class Found:
    """Median seconds of a case's first call, as it is, compiled and evaluated."""

    words: str
    seconds: tuple[float, float, float]

    @property
    def ratio(self) -> float:
        """Times of the better of both."""
        return self.seconds[0] / min(self.seconds[1:])

    def __str__(self) -> str:
        times = "".join(f"{1e3 * each:11.1f}" for each in self.seconds)
        return f"{self.ratio:5.2f}{times}  {self.words}"


def measured(case: Case, turns: int) -> Found | None:
    """The times of a case, again where they are above the bound; None where a call fails."""
    found = _turns(case, turns)
    return _turns(case, 3 * turns) if found is not None and found.ratio > BOUND else found


def _turns(case: Case, turns: int) -> Found | None:
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(turns):
        for way in (*WAYS[turn % 3 :], *WAYS[: turn % 3]):
            seconds = seconds_of(case.call, way)
            if seconds is None:
                return None
            found[way].append(seconds)
    as_it_is, compiled, evaluated = map(statistics.median, found.values())
    return Found(case.words, (as_it_is, compiled, evaluated))


def warm() -> None:
    """Opens the engine, and imports what calls of all kinds need, on either tier."""
    from mdtensor.api.engine import registry

    engine = registry.engine_for()
    for evaluates in (True, False):
        engine._evaluates = evaluates
        for number, kind in enumerate(KINDS):
            draw = Draw(f"warm/{evaluates}/{number}")
            draw.points = 1e3
            kind(draw).call()
    engine._evaluates = True
    engine.settle()
    gc.freeze()  # which forks would copy as they collect


def summary(found: Sequence[Found], left_out: int) -> list[str]:
    """The worst cases, and the line that counts.

    >>> print(*summary([Found("a", (3.0, 2.0, 9.0)), Found("b", (1.0, 2.0, 1.0))], 0), sep="\\n")
    ratio   as it is   compiled  evaluated  (ms)
     1.50     3000.0     2000.0     9000.0  a
     1.00     1000.0     2000.0     1000.0  b
    2 structures, 0 left out: median ratio 1.25, largest 1.50, 0 above 1.5; 1 compiled sooner
    """
    worst = sorted(found, key=lambda each: -each.ratio)
    ratios = [each.ratio for each in found]
    head = "ratio" + "".join(f"{way:>11}" for way in WAYS) + "  (ms)"
    compiled = sum(each.seconds[1] < each.seconds[2] for each in found)
    above = sum(ratio > BOUND for ratio in ratios)
    counted = f"{len(found)} structures, {left_out} left out: median ratio"
    counted += f" {statistics.median(ratios):.2f}, largest {max(ratios):.2f},"
    counted += f" {above} above {BOUND}; {compiled} compiled sooner"
    return [head, *map(str, worst[:SHOWN]), counted]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures the cases; 1 where a first call is above the bound."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=500, help="structures")
    parser.add_argument("--first", type=int, default=0, help="number of the first structure")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--turns", type=int, default=3, help="first calls of each, in each way")
    parser.add_argument("--log", type=Path, help="a file to append the lines to")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"MDTENSOR_CACHE_DIR": cache, "MDTENSOR_CACHE_LIMIT": "0"}  # nothing is kept
        warm()
        return _measure(options)


def _measure(options: argparse.Namespace) -> int:
    tell(f"{now()}, commit {commit()}, {processor()}, {options.turns} forks each", options.log)
    found, left_out = list[Found](), 0
    for number in range(options.first, options.first + options.count):
        case = case_of(options.seed, number)
        each = measured(case, options.turns)
        if each is None:
            left_out += 1
            print(f"left out: {case.words}", flush=True)
            continue
        found.append(each)
        print(number, each, flush=True)
    for line in summary(found, left_out):
        tell(line, options.log)
    tell("load averages " + " ".join(f"{load:.1f}" for load in os.getloadavg()), options.log)
    return int(any(each.ratio > BOUND for each in found))


if __name__ == "__main__":
    sys.exit(main())
