"""Traces: the kernels that served each call of a context, and the seconds of its stages.

While a trace is on, `invalidation.watchers` has an element for it, so calls leave their shortest
way and are noted; without one, they are as short as ever.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from mdtensor import stage_timer
from mdtensor.api.arrays import invalidation
from mdtensor.api.calls.launchers import told_of
from mdtensor.api.calls.statistics import Tally
from mdtensor.api.calls.trace_report import (
    CallRecord,
    KernelRecord,
    StageSpan,
    events,
    save_events,
    table,
)
from mdtensor.api.engine.evaluated import Evaluated
from mdtensor.bounded import Bounded
from mdtensor.errors import ArgumentError, shown
from mdtensor.scoped import ContextSettings, Setting, scoped

if TYPE_CHECKING:
    from mdtensor.api.engine.kernel_choice import KernelChoice
    from mdtensor.lower.problem.problem import Problem
    from mdtensor.lower.schedule.schedule import Schedule

MOST_CALLS = 10_000  # that a trace holds; more are counted only


class Trace:
    """The calls made while it was open; `print` shows a table, `save` writes a file of events."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drops all recorded calls."""
        self.calls: list[CallRecord] = []
        self.left_out = 0
        # Of keys of calls that this trace saw: the generation in which they were kept, if at all.
        self.kept = Bounded[object, int | None](MOST_CALLS)

    def add(self, call: CallRecord) -> None:
        """Records a call; beyond the limit, calls are only counted."""
        if len(self.calls) < MOST_CALLS:
            self.calls.append(call)
        else:
            self.left_out += 1

    def __str__(self) -> str:
        return table(self.calls, self.left_out)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes Chrome's trace events as JSON, which ui.perfetto.dev opens.

        Raises ArgumentError for what is no path, OSError where it cannot be written.
        """
        save_events(path, events(self.calls))


_entered = ContextSettings[Trace]("traces")
# The trace of the whole process, where there is one, and what has calls look for it.
_everywhere: list[Trace] = []
_watches: list[invalidation.ContextWatch] = []
_open: ContextVar[_Recorder | None] = ContextVar("open", default=None)


def traces() -> list[Trace]:
    """The traces open in this context."""
    return [*_everywhere, *_entered.values]


@contextmanager
def trace() -> Generator[Trace]:
    """Traces the calls in a `with` block: the kernels that served them, and their stages' seconds.

    A trace belongs to its context, as modes of `tuning` do: to the thread or the task that enters
    it. Where traces are nested, each notes the calls inside of it. A call that another call of
    mdtensor makes is a part of that one.

    >>> from mdtensor import einsum
    >>> with trace() as seen:
    ...     total = einsum("i,i->", [1.0, 2.0], [3.0, 4.0])
    >>> [call.front_end for call in seen.calls]
    ['einsum']
    """
    block = _entered.enter(Trace(), invalidation.watch())
    try:
        yield block.value
    finally:
        del block


class _Recorder:
    """The recorder of one call's stages, in one thread."""

    def __init__(self, call: CallRecord) -> None:
        self.call = call
        self.served_by: list[object] = []  # which is described when nobody waits
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
        self.call.spans.append(StageSpan(stage, begin, end, end - begin - inside, thread))

    def ran(self, kernel: object) -> None:
        self.served_by.append(kernel)

    def beside(self) -> _Recorder:
        return _Recorder(self.call)

    def close(self) -> None:
        """Ends all open stages."""
        while self._begun:
            self.end()


VARIABLE = "MDTENSOR_TRACE"


def trace_everywhere(said: str) -> Trace | None:
    """Traces the whole process; `MDTENSOR_TRACE` is 1, or the name of a JSON file.

    A process that was forked begins a trace of its own. One that makes no calls tells nothing.
    """
    if said in ("", "0"):
        return None
    if said != "1" and not said.endswith(".json"):
        raise ArgumentError(
            f"{VARIABLE} is {shown(said)}", hint="1 for a table at exit, or a name such as t.json"
        )
    seen = Trace()
    _everywhere.append(seen)
    _watches.append(invalidation.watch())
    atexit.register(_tell, seen, said, os.getpid())
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=seen.clear)
    return seen


def _tell(seen: Trace, said: str, process: int) -> None:
    """Prints or saves the trace of a process; a forked one saves a file of its own."""
    if not seen.calls:
        return
    if said == "1":
        print(seen, file=sys.stderr)
    elif os.getpid() == process:
        seen.save(said)
    else:
        seen.save(f"{said.removesuffix('.json')}.{os.getpid()}.json")


def begins() -> bool:
    """Whether a call that begins now is recorded: a trace is open, and it is not nested."""
    return _open.get() is None and bool(traces())


def is_quiet() -> bool:
    """Whether no trace is open in this context, and no call is being recorded."""
    return not _everywhere and not _entered.values and _open.get() is None


def traced(
    front_end: str, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Makes a call, recorded by the open traces."""
    call = CallRecord(front_end, time.perf_counter(), threading.get_ident())
    found, noted = _Recorder(call), traces()
    settings = [(_open, found), (stage_timer.recorder, found)]
    try:
        return scoped(settings, function, *args, **options)
    except BaseException as error:
        call.error = type(error).__name__
        raise
    finally:
        found.close()
        call.end = time.perf_counter()
        call.kernels += dict.fromkeys(k for told in found.served_by for k in _kernels_of(told))
        for each in noted:
            each.add(call)


def unnoted() -> Setting:
    """The setting that hides calls from traces, since they are only planned."""
    return _open, _Recorder(CallRecord("", 0.0, 0))


def traced_launch(launch: Callable[..., Any], served_by: Sequence[object]) -> Callable[..., Any]:
    """Wrap a cached launch so that the open trace times it."""
    if (found := _open.get()) is None:
        return launch
    found.call.cache = found.call.cache or "hit"
    found.served_by += served_by

    def in_stage(*arrays: Any) -> Any:
        with stage_timer.stage("run"):
            return launch(*arrays)

    return in_stage


def record_lookup(ready: object | None) -> None:
    """Reports the result of a lookup to the open trace: a hit with its kernels, or a miss."""
    if (found := _open.get()) is None:
        return
    found.call.cache = found.call.cache or ("miss: first call" if ready is None else "hit")
    found.served_by += told_of(ready)


def record_run(launch: object | None) -> None:
    """Reports a lookup to the open trace, and on a hit begins its stage "run"."""
    record_lookup(launch)
    if launch is not None and (found := _open.get()) is not None:
        found.begin("run")


def record_miss(key: tuple[object, ...] | None, known: Mapping[Any, object]) -> None:
    """Reports to the open trace the reason for a cache miss."""
    if (found := _open.get()) is not None and not found.call.cache.startswith("miss"):
        found.call.cache = f"miss: {_reason(key, known)}"


def _reason(key: tuple[object, ...] | None, known: Mapping[Any, object]) -> str:
    if key is None:
        return "no key"
    if key in known:
        return "refused"
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
    """The kind of a key's part: shape, strides and type of an array follow each other."""
    import numpy as np

    names = ("type", "strides", "shape")
    for ahead, name in enumerate(names):
        parts = key[place : place + ahead + 1]
        if isinstance(parts[-1], np.dtype) and all(type(part) is tuple for part in parts[:-1]):
            return name
    return "argument"


def record_cached(key: tuple[object, ...], known: Mapping[Any, object]) -> None:
    """Reports to the open traces whether a call made in full is cached now."""
    for each in traces():
        each.kept[id(known), key] = invalidation.generation() if key in known else None


def _kernels_of(told: object) -> list[KernelRecord]:
    """The kernel records of an argument of `stage_timer.ran`."""
    if isinstance(told, Tally):
        return [KernelRecord(told.engine, told.reason, "")]
    if isinstance(told, Evaluated):
        from mdtensor.lower.problem.problem import problem_from_md_hom
        from mdtensor.lower.problem.problem_key import problem_key

        return [
            KernelRecord("evaluated", problem_key(problem_from_md_hom(told.md_hom)), "by NumPy")
        ]
    from mdtensor.api.engine.fused_calls import FusedKernel
    from mdtensor.api.engine.kernel_choice import DeferredChoice, KernelChoice

    if isinstance(told, DeferredChoice):
        told = told.choice()
    if isinstance(told, KernelChoice):
        return [_kernel(_tier(told), told.problem, told.schedule)]
    if isinstance(told, FusedKernel):
        return [_kernel("fused", problem, schedule) for problem, schedule in told.steps]
    return []


def _kernel(tier: str, problem: Problem, schedule: Schedule) -> KernelRecord:
    from mdtensor.lower.problem.problem_key import problem_key

    return KernelRecord(tier, problem_key(problem), schedule.describe(problem))


def _tier(choice: KernelChoice) -> str:
    from mdtensor.api.engine.launch_counter import StandIn

    if choice.origin == "tuned":
        return "tuned"
    if not choice.is_general:
        return "own"
    if choice.improves():
        return "compiling"
    return "fallback" if isinstance(choice.program, StandIn) else "generic"


trace_everywhere(os.environ.get(VARIABLE, ""))
