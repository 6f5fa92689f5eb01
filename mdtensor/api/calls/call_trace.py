"""Traces: what served each call of a context, and what its seconds went to.

While a trace is on, `invalidation.watchers` has an element for it, so calls leave their shortest
way and are noted; without one, they are as short as ever.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mdtensor import stage_timer
from mdtensor.api.arrays import invalidation
from mdtensor.api.engine import registry
from mdtensor.api.engine.fallback_program import StandIn
from mdtensor.api.engine.kernel_choice import Choice
from mdtensor.errors import ArgumentError, shown
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.stage_timer import STAGES

MOST_CALLS = 10_000  # that a trace holds; more are counted only
_COLUMNS = 100
_WIDTHS = (10, 18, 9)  # of front end, cache and tier; then of calls and milliseconds
_NUMBERS = {
    "calls": 6,
    "ms": 8,
    "translate": 10,
    "choose": 8,
    "lower": 7,
    "render": 8,
    "compile": 9,
    "run": 7,
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that served a call: its tier, the key of its problem, and its schedule as text.

    The tier is "generic" (for all shapes of a structure), "compiling" (generic, while a better one
    is made), "fallback" (generic, until the shape's own is compiled), "own" (with the shape's
    constants, by the cost model) or "tuned".
    """

    tier: str
    problem: str
    schedule: str


@dataclass(frozen=True, slots=True)
class Span:
    """A stage: seconds on `time.perf_counter`'s clock, without those of stages inside of it."""

    stage: str
    begin: float
    end: float
    alone: float
    thread: int


@dataclass(slots=True)
class Call:
    """A call: its front end, what the call cache knew of it, kernels, and seconds on the clock.

    `cache` is "hit", or "miss: " and the reason.
    """

    front_end: str
    begin: float
    thread: int
    cache: str = ""
    end: float = 0.0
    error: str = ""
    kernels: list[Kernel] = field(default_factory=list[Kernel])
    spans: list[Span] = field(default_factory=list[Span])

    @property
    def seconds(self) -> float:
        """What the caller waited for."""
        return self.end - self.begin

    def seconds_in(self, stage: str) -> float:
        """Seconds in one of STAGES, in the calling thread, without stages inside of it."""
        return sum(s.alone for s in self.spans if s.stage == stage and s.thread == self.thread)


class Trace:
    """The calls that were made while it was on; `print` gives a table, `save` a file of events."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.left_out = 0
        self.has_ended = False
        # Of keys of calls that this trace saw: the generation in which they were kept, if at all.
        self.kept: dict[object, int | None] = {}

    def add(self, call: Call) -> None:
        """Notes a call; one of too many is counted."""
        if len(self.calls) < MOST_CALLS:
            self.calls.append(call)
        else:
            self.left_out += 1

    def __str__(self) -> str:
        return _table(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes Chrome's trace events as JSON, which ui.perfetto.dev opens.

        Raises ArgumentError for what is no path, OSError where it cannot be written.
        """
        _check_path(path)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": _events(self), "displayTimeUnit": "ms"}, file)


_entered: ContextVar[tuple[Trace, ...]] = ContextVar("traces", default=())
_everywhere: list[Trace] = []  # the trace of the whole process, where there is one
_open: ContextVar[_Recorder | None] = ContextVar("open", default=None)


def traces() -> list[Trace]:
    """The traces that note the calls of this context."""
    return [*_everywhere, *(trace for trace in _entered.get() if not trace.has_ended)]


@contextmanager
def trace() -> Generator[Trace]:
    """Notes what serves the calls inside, and what their seconds go to.

    A trace belongs to its context, as modes of `tuning` do: to the thread or the task that enters
    it. Where traces are nested, each notes the calls inside of it. A call that another call of
    mdtensor makes is a part of that one.

    >>> from mdtensor import einsum
    >>> with trace() as seen:
    ...     total = einsum("i,i->", [1.0, 2.0], [3.0, 4.0])
    >>> [call.front_end for call in seen.calls]
    ['einsum']
    """
    begun = Trace()
    invalidation.watchers.append(None)
    _entered.set((*(other for other in _entered.get() if not other.has_ended), begun))
    try:
        yield begun
    finally:
        begun.has_ended = True
        invalidation.watchers.pop()
        _entered.set(tuple([other for other in _entered.get() if not other.has_ended]))


class _Recorder:
    """Notes the stages of one call, in one thread."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.is_launching = False  # what was kept for the call
        self.choices: list[Choice] = []  # which are described when nobody waits
        self._begun: list[tuple[str, float, float]] = []  # stage, when, seconds of those inside

    def begin(self, stage: str) -> None:
        self._begun.append((stage, time.perf_counter(), 0.0))

    def end(self) -> None:
        stage, begin, inside = self._begun.pop()
        end = time.perf_counter()
        if self._begun:
            outer, since, others = self._begun[-1]
            self._begun[-1] = outer, since, others + end - begin
        thread = threading.get_ident()
        self.call.spans.append(Span(stage, begin, end, end - begin - inside, thread))

    def ran(self, kernel: object) -> None:
        if isinstance(kernel, Choice):
            self.choices.append(kernel)

    def beside(self) -> _Recorder:
        return _Recorder(self.call)

    def close(self) -> None:
        """Ends all stages."""
        while self._begun:
            self.end()


VARIABLE = "MDTENSOR_TRACE"


def trace_everywhere(said: str) -> Trace | None:
    """Traces the process until it ends, as `MDTENSOR_TRACE` says: 1, or the name of a JSON file."""
    if said in ("", "0"):
        return None
    if said != "1" and not said.endswith(".json"):
        raise ArgumentError(
            f"{VARIABLE} is {shown(said)}", hint="1 for a table at exit, or a name such as t.json"
        )
    seen = Trace()
    _everywhere.append(seen)
    invalidation.watchers.append(None)
    atexit.register(lambda: print(seen, file=sys.stderr) if said == "1" else seen.save(said))
    return seen


def begins() -> bool:
    """Whether a call that begins now is to be noted: it is no part of another one."""
    return _open.get() is None and bool(traces())


def traced(
    front_end: str, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Makes a call, which the traces of this context note."""
    call = Call(front_end, time.perf_counter(), threading.get_ident())
    found, noted = _Recorder(call), traces()
    opened, recording = _open.set(found), stage_timer.recorder.set(found)
    try:
        return function(*args, **options)
    except BaseException as error:
        call.error = type(error).__name__
        raise
    finally:
        found.close()
        call.end = time.perf_counter()
        call.kernels += map(_kernel_of, dict.fromkeys(found.choices))
        stage_timer.recorder.reset(recording)
        _open.reset(opened)
        for each in noted:
            each.add(call)


@contextmanager
def not_noted() -> Generator[None]:
    """A context whose calls no trace notes, since they are planned instead of made."""
    token = _open.set(_Recorder(Call("", 0.0, 0)))
    try:
        yield
    finally:
        _open.reset(token)


def hit(launch: Callable[..., Any]) -> None:
    """Tells the call that is being made which launch was kept for it."""
    if (found := _open.get()) is None or found.call.cache:
        return
    found.call.cache = "hit"
    served(launch)
    found.begin("run")
    found.is_launching = True


def looked_up(ready: object | None) -> None:
    """The same of what a call without a key of its own, or one that is made in full, has kept."""
    if (found := _open.get()) is None:
        return
    if not found.call.cache:
        found.call.cache = "miss: first call" if ready is None else "hit"
    if ready is not None:
        served(ready)


def served(launch: object) -> None:
    """Tells the call that is being made of the kernels of what was kept."""
    arrays, md_homs = getattr(launch, "served_by", ("", ()))
    for md_hom in md_homs:
        registry.choice_for(md_hom, arrays)


def missed(key: tuple[object, ...] | None, known: Mapping[Any, object]) -> None:
    """Tells the call that is being made why no launch was kept for it."""
    if (found := _open.get()) is None:
        return
    if found.is_launching:  # what refused these arrays
        found.end()
        found.is_launching = False
    if not found.call.cache.startswith("miss"):
        found.call.cache = f"miss: {_reason(key, known)}"


def _reason(key: tuple[object, ...] | None, known: Mapping[Any, object]) -> str:
    if key is None:
        return "no key"
    for each in traces():
        if (id(known), key) in each.kept:
            generation = each.kept[id(known), key]
            if generation is None:
                return "not kept"
            return "evicted" if generation == invalidation.generation() else "new kernels"
    alike = [other for other in list(known) if len(other) == len(key)]
    if not alike:
        return "first call"
    nearest = min(([n for n, p in enumerate(key) if p != o[n]] for o in alike), key=len)
    return f"new {' '.join(dict.fromkeys(_part(key, n) for n in nearest))}"


def _part(key: tuple[object, ...], place: int) -> str:
    """What a part of a key is: an array's shape, strides and type stand behind each other."""
    import numpy as np

    names = ("type", "strides", "shape")
    for ahead, name in enumerate(names):
        parts = key[place : place + ahead + 1]
        if isinstance(parts[-1], np.dtype) and all(type(part) is tuple for part in parts[:-1]):
            return name
    return "argument"


def kept(key: tuple[object, ...], known: Mapping[Any, object]) -> None:
    """Tells the traces of this context whether a call that was made in full is kept."""
    for each in traces():
        each.kept[id(known), key] = invalidation.generation() if key in known else None


def _kernel_of(choice: Choice) -> Kernel:
    schedule = choice.schedule.describe(choice.problem)
    return Kernel(_tier(choice), problem_key(choice.problem), schedule)


def _tier(choice: Choice) -> str:
    if choice.origin == "tuned":
        return "tuned"
    if choice.origin == "cost model":
        return "own"
    return "fallback" if isinstance(choice.program, StandIn) else "generic"


def _table(seen: Trace) -> str:
    """Two lines for each kind of call: what served it, milliseconds in all stages; its kernels."""
    texts = "".join(f"{n:<{w}}" for n, w in zip(("call", "cache", "tier"), _WIDTHS, strict=True))
    numbers = "".join(f"{n:>{w}}" for n, w in _NUMBERS.items())
    rows: dict[tuple[str, ...], list[Call]] = {}
    for call in seen.calls:
        tiers = "+".join(dict.fromkeys(k.tier for k in call.kernels))
        kernels = "; ".join(f"{k.problem} by {' '.join(k.schedule.split())}" for k in call.kernels)
        name = f"{call.front_end} !" if call.error else call.front_end
        rows.setdefault((name, call.cache, tiers or "-", kernels), []).append(call)
    lines = [texts + numbers]
    for (*cells, kernels), calls in rows.items():
        found = [1e3 * sum(call.seconds for call in calls)]
        found += [1e3 * sum(call.seconds_in(s) for call in calls) for s in STAGES]
        head = "".join(f"{_cut(t, w - 1):<{w}}" for t, w in zip(cells, _WIDTHS, strict=True))
        values = [str(len(calls)), *(f"{ms:.{2 if ms < 100 else 0}f}" for ms in found)]
        lines.append(
            head + "".join(f"{v:>{w}}" for v, w in zip(values, _NUMBERS.values(), strict=True))
        )
        lines += [f"  {_cut(kernels, _COLUMNS - 2)}"] if kernels else []
    for call in seen.calls:
        for span in [*call.spans]:
            if span.thread != call.thread:
                lines.append(
                    f"  beside {call.front_end}, thread {span.thread}: {span.stage}"
                    f" {1e3 * span.alone:.2f} ms"
                )
    if seen.left_out:
        lines.append(f"{seen.left_out} more calls are not shown")
    return "\n".join(lines)


def _check_path(given: object) -> None:
    if not isinstance(given, str | os.PathLike):
        raise ArgumentError(f"path is {shown(given)}", hint='a path, such as "trace.json"')


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _events(seen: Trace) -> list[dict[str, Any]]:
    """Complete events (ph X) with microseconds, one for each call and each stage."""
    events: list[dict[str, Any]] = []
    for call in seen.calls:
        about = {
            "cache": call.cache,
            "error": call.error,
            "kernels": [f"{k.tier}: {k.problem}\n{k.schedule}" for k in call.kernels],
        }
        spans = [(s.stage, s.begin, s.end, s.thread) for s in [*call.spans]]
        events.append(_event(call.front_end, call.begin, call.end, call.thread, about))
        events += [_event(*span, {}) for span in spans]
    return events


def _event(
    name: str, begin: float, end: float, thread: int, about: Mapping[str, Any]
) -> dict[str, Any]:
    micros = {"ts": begin * 1e6, "dur": (end - begin) * 1e6}
    place = {"pid": os.getpid(), "tid": thread}
    return {"name": name, "cat": "mdtensor", "ph": "X", **micros, **place, "args": {**about}}


trace_everywhere(os.environ.get(VARIABLE, ""))
