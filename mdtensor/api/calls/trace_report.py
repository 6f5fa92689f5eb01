"""Reports of traces: a table of calls, and events for a trace viewer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from mdtensor.dataclass import dataclass
from mdtensor.errors import ArgumentError, shown
from mdtensor.stage_timer import STAGES

_COLUMNS = 115
_WIDTHS = (16, 17, 10)  # of front end, cache and tier; then of calls and milliseconds
_NUMBERS = {
    "calls": 6,
    "ms": 7,
    "open": 6,
    "translate": 10,
    "choose": 7,
    "lower": 7,
    "render": 7,
    "compile": 8,
    "run": 7,
    "other": 7,
}


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """A kernel that served a call: its tier, problem key, and schedule as text.

    The tier is "generic" (for all shapes of a structure), "compiling" (generic, while the
    background looks for a better one), "fallback" (generic, until the shape's own is compiled),
    "own" (with the shape's constants, by the cost model), "tuned", or "fused" (one program of
    several kernels). Where no kernel serves a call, it is "numpy", with the reason in the place of
    the problem, "view" or "filled".
    """

    tier: str
    problem: str
    schedule: str


@dataclass(frozen=True, slots=True)
class StageSpan:
    """A stage's time span: seconds on `time.perf_counter`'s clock, excluding nested stages."""

    stage: str
    begin: float
    end: float
    alone: float
    thread: int


@dataclass(slots=True)
class CallRecord:
    """A traced call: front end, cache lookup, kernels, and seconds on the clock.

    `cache` is "hit", or "miss: " and the reason. The seconds of all stages and of what is `other`
    are those of the call.
    """

    front_end: str
    begin: float
    thread: int
    cache: str = ""
    end: float = 0.0
    error: str = ""
    kernels: list[KernelRecord] = field(default_factory=list[KernelRecord])
    spans: list[StageSpan] = field(default_factory=list[StageSpan])

    @property
    def seconds(self) -> float:
        """The seconds that the call took."""
        return self.end - self.begin

    @property
    def other(self) -> float:
        """Seconds outside of all STAGES, such as checks of arguments."""
        return self.seconds - sum(map(self.seconds_in, STAGES))

    def seconds_in(self, stage: str) -> float:
        """Seconds in one of STAGES, in the calling thread, without stages inside of it."""
        return sum(s.alone for s in self.spans if s.stage == stage and s.thread == self.thread)


def table(calls: Sequence[CallRecord], left_out: int) -> str:
    """A table of traces, two lines per kind of call: stages in milliseconds, then kernels."""
    texts = "".join(f"{n:<{w}}" for n, w in zip(("call", "cache", "tier"), _WIDTHS, strict=True))
    numbers = "".join(f"{n:>{w}}" for n, w in _NUMBERS.items())
    rows: dict[tuple[str, ...], list[CallRecord]] = {}
    for call in calls:
        tiers = "+".join(dict.fromkeys(k.tier for k in call.kernels))
        kernels = "; ".join(text for k in call.kernels if (text := _line(k)))
        name = f"{call.front_end} !" if call.error else call.front_end
        rows.setdefault((name, call.cache, tiers or "-", kernels), []).append(call)
    lines = [texts + numbers]
    for (*cells, kernels), alike in rows.items():
        found = [sum(call.seconds for call in alike)]
        found += [sum(call.seconds_in(s) for call in alike) for s in STAGES]
        found.append(sum(call.other for call in alike))
        head = "".join(f"{_cut(t, w - 1):<{w}}" for t, w in zip(cells, _WIDTHS, strict=True))
        values = [str(len(alike)), *map(_milliseconds, found)]
        lines.append(
            head + "".join(f"{v:>{w}}" for v, w in zip(values, _NUMBERS.values(), strict=True))
        )
        lines += [f"  {_cut(kernels, _COLUMNS - 2)}"] if kernels else []
        lines += _beside(cells[0], alike)
    if left_out:
        lines.append(f"{left_out} more calls are not shown")
    return "\n".join(lines)


def _line(kernel: KernelRecord) -> str:
    schedule = " ".join(kernel.schedule.split())
    return f"{kernel.problem} by {schedule}" if schedule else kernel.problem


def _beside(name: str, calls: Sequence[CallRecord]) -> list[str]:
    """A line on the stages that other threads ran for these calls; none where there are none."""
    spans = [s for call in calls for s in [*call.spans] if s.thread != call.thread]
    seconds = [(stage, sum(s.alone for s in spans if s.stage == stage)) for stage in STAGES]
    found = ", ".join(f"{stage} {_milliseconds(of)}" for stage, of in seconds if of)
    return [f"  other threads, for {name}: {found}"] if found else []


def _milliseconds(seconds: float) -> str:
    ms = 1e3 * seconds
    return f"{ms:.{2 if ms < 10 else 1 if ms < 100 else 0}f}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def events(calls: Sequence[CallRecord]) -> list[dict[str, Any]]:
    """Complete events (ph X) with microseconds, one for each call and each stage."""
    found: list[dict[str, Any]] = []
    for call in calls:
        about = {
            "cache": call.cache,
            "error": call.error,
            "kernels": [f"{k.tier}: {k.problem}\n{k.schedule}" for k in call.kernels],
        }
        spans = [(s.stage, s.begin, s.end, s.thread) for s in [*call.spans]]
        found.append(event(call.front_end, call.begin, call.end, call.thread, about))
        found += [event(*span, {}) for span in spans]
    return found


def event(
    name: str, begin: float, end: float, thread: int, about: Mapping[str, Any]
) -> dict[str, Any]:
    """A complete event; seconds are on the clock of `time.perf_counter`."""
    micros = {"ts": begin * 1e6, "dur": (end - begin) * 1e6}
    place = {"pid": os.getpid(), "tid": thread}
    return {"name": name, "cat": "mdtensor", "ph": "X", **micros, **place, "args": {**about}}


def save_events(path: str | os.PathLike[str], found: Sequence[Mapping[str, Any]]) -> None:
    """Writes events as JSON, which ui.perfetto.dev opens.

    Raises ArgumentError for what is no path, OSError where it cannot be written.
    """
    if not isinstance(cast("object", path), str | os.PathLike):
        raise ArgumentError(f"path is {shown(path)}", hint='a path, such as "trace.json"')
    import json  # which calls do without

    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": found, "displayTimeUnit": "ms"}, file)
