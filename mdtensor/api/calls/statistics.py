"""Counts of calls by engine: generated kernels, views, NumPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from mdtensor import specs
from mdtensor.dataclass import dataclass
from mdtensor.options import flag
from mdtensor.stage_timer import ran

GENERATED = "generated"
EVALUATED = "evaluated"
VIEW = "view"
FILLED = "filled"
NUMPY = "numpy"
_COUNTED = GENERATED, EVALUATED, VIEW, FILLED

# The kinds of data that kernels are generated for.
KINDS = ("int", "float", "bool", "complex")


class Tally:
    """A counter that a hot path holds and increments: `tally.calls += 1`.

    It only grows; what was there at the last reset is `before`. Python's global lock changes hands
    where functions are called and where loops begin again, and so not within an increment: none is
    lost to another thread. (Without that lock, two at the same moment may count once.) What counts
    `elsewhere` is added when somebody asks.
    """

    __slots__ = ("before", "calls", "elsewhere", "engine", "kind", "reason")

    def __init__(self, engine: str, kind: str, reason: str) -> None:
        self.engine = engine
        self.kind = kind
        self.reason = reason
        self.calls = 0
        self.before = 0
        self.elsewhere: list[Callable[[], int]] = []

    def since(self, *, reset: bool) -> int:
        """The calls since the last reset; `reset` resets the counter."""
        calls, before = self.calls + sum([count() for count in self.elsewhere]), self.before
        if reset:
            self.before = calls
        return calls - before

    def __reduce__(self) -> tuple[Any, ...]:
        # The counter of another process has its own count.
        key = (self.engine, self.kind, self.reason)
        return (_of_key, key) if key in _tallies else (uncounted, ())


_tallies: dict[tuple[str, str, str], Tally] = {}


def tally(engine: str, dtype: np.dtype, reason: str = "") -> Tally:
    """The unique counter of an engine, a kind of data, and a reason for NumPy."""
    return _of_key(engine, kind_of(dtype), reason)


def count(engine: str, dtype: np.dtype, reason: str = "") -> None:
    """Counts a call without a kernel, and reports it to the open trace."""
    counter = tally(engine, dtype, reason)
    counter.calls += 1
    ran(counter)


def _of_key(*key: str) -> Tally:
    engine, kind, reason = key
    return _tallies.setdefault((engine, kind, reason), Tally(engine, kind, reason))


def uncounted() -> Tally:
    """A throwaway counter."""
    return Tally("", "", "")


def kind_of(dtype: np.dtype) -> str:
    """The kind of data: one of KINDS, or the name of the type where no kernel is generated."""
    if dtype.type in (np.longdouble, np.clongdouble):
        return "longdouble"
    return {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}.get(
        specs.kind_of(dtype), dtype.type.__name__.rstrip("_")
    )


@dataclass(frozen=True, slots=True)
class Stats:
    """Call counts: per kind for generated kernels, views and fills, per reason for NumPy.

    A call is filled when its result is empty or a sum over nothing. `numpy` maps (kind, reason)
    to calls. An `evaluated` call had no kernel yet for some step, which NumPy's functions computed.
    """

    generated: Mapping[str, int]
    views: Mapping[str, int]
    filled: Mapping[str, int]
    numpy: Mapping[tuple[str, str], int]
    evaluated: Mapping[str, int] = MappingProxyType({})

    def __reduce__(self) -> tuple[Any, ...]:
        counts = self.generated, self.views, self.filled, self.numpy, self.evaluated
        return Stats, tuple([dict(each) for each in counts])

    @property
    def share(self) -> float:
        """Share of generated kernels in the arithmetic on int, float, bool and complex data."""
        ours = sum(self.generated.get(kind, 0) for kind in KINDS)
        theirs = sum(calls for (kind, _), calls in self.numpy.items() if kind in KINDS)
        theirs += sum(self.evaluated.get(kind, 0) for kind in KINDS)
        return ours / (ours + theirs) if ours + theirs else 1.0

    def __str__(self) -> str:
        lines = [f"{'engine':<10} {'kind':<12} {'calls':>8}"]
        for engine in ("generated", "evaluated", "views", "filled"):
            counts: Mapping[str, int] = getattr(self, engine)
            lines += [f"{engine:<10} {kind:<12} {calls:>8}" for kind, calls in counts.items()]
        lines += [
            f"{'numpy':<10} {kind:<12} {calls:>8}  {reason}"
            for (kind, reason), calls in self.numpy.items()
        ]
        lines.append(f"generated kernels: {self.share:.1%} of the arithmetic on {', '.join(KINDS)}")
        return "\n".join(lines)


def stats(*, reset: bool = False) -> Stats:
    """The counts of calls by engine since the start, or since the last reset.

    Calls of other threads that go on meanwhile are counted now or the next time, and never lost.

    >>> print(Stats({"float": 3}, {"int": 1}, {}, {("object", "dtype object"): 2}))
    engine     kind            calls
    generated  float               3
    views      int                 1
    numpy      object              2  dtype object
    generated kernels: 100.0% of the arithmetic on int, float, bool, complex
    """
    reset = flag("reset", reset)
    by_engine: dict[str, Counter[str]] = {e: Counter() for e in _COUNTED}
    numpy: Counter[tuple[str, str]] = Counter()
    for counter in sorted([*_tallies.values()], key=lambda t: (t.engine, t.kind, t.reason)):
        calls = counter.since(reset=reset)
        if calls and counter.engine == NUMPY:
            numpy[counter.kind, counter.reason] += calls
        elif calls:
            by_engine[counter.engine][counter.kind] += calls
    counts = by_engine[GENERATED], by_engine[VIEW], by_engine[FILLED], numpy, by_engine[EVALUATED]
    return Stats(*map(MappingProxyType, counts))  # pyright: ignore[reportArgumentType]
