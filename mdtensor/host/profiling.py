"""Profiles of devices and host, as a table and as a trace for Perfetto."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from mdtensor.api.calls.call_trace import Trace, trace
from mdtensor.api.calls.trace_report import event, events, save_events
from mdtensor.dataclass import dataclass
from mdtensor.errors import LaunchError
from mdtensor.scoped import ContextSettings

MOST_SPANS = 10_000  # that a profile holds; more are counted only
_SETTLED = 256  # so often commands that are done become spans


@dataclass(frozen=True, slots=True)
class Span:
    """A timed activity: seconds on `time.perf_counter`'s clock, and the bytes moved.

    `kind` is "kernel", "copy to", "copy from" or "copy between" on a device, and "compile" or
    "wait" on the host.
    """

    kind: str
    name: str
    where: str
    begin: float
    end: float
    nbytes: int = 0


class Timed(Protocol):
    """A device command, whose span is available once it has completed."""

    def is_done(self) -> bool:
        """Whether the command has completed."""
        ...

    def span(self) -> Span:
        """The command's span, after waiting for it; LaunchError if it failed."""
        ...


class Profile:
    """Commands, waits and compilations within a `with`, and mdtensor's calls there.

    `print` gives a table, `save` a file of events; both wait for commands that are not done.
    """

    def __init__(self, calls: Trace) -> None:
        self.calls = calls
        self.left_out = 0
        self._noted: list[Timed | Span] = []

    def add(self, noted: Timed | Span) -> None:
        """Record a command or a span; beyond MOST_SPANS only their number is counted."""
        if len(self._noted) >= MOST_SPANS:
            self.left_out += 1
            return
        self._noted.append(noted)
        if len(self._noted) % _SETTLED == 0:
            self._settle(len(self._noted) - 2 * _SETTLED, only_done=True)

    def _settle(self, first: int, *, only_done: bool) -> None:
        """Replace commands, which keep memory alive, by their spans."""
        for n, noted in enumerate([*self._noted]):
            if n < first or isinstance(noted, Span) or (only_done and not noted.is_done()):
                continue
            try:
                self._noted[n] = noted.span()
            except LaunchError as error:
                self._noted[n] = Span("failed", error.message, "", 0.0, 0.0)

    @property
    def spans(self) -> list[Span]:
        """The recorded spans in order, without failed commands."""
        self._settle(0, only_done=False)
        return [each for each in self._noted if isinstance(each, Span) and each.kind != "failed"]

    def __str__(self) -> str:
        return _table(self.spans, self.left_out) + (f"\n\n{self.calls}" if self.calls.calls else "")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write Chrome trace events as JSON, for ui.perfetto.dev.

        Each device has rows for kernels and for copies, two or more where some overlap. Raises
        ArgumentError for what is no path, OSError where it cannot be written.
        """
        save_events(path, [*_events(self.spans), *events(self.calls.calls)])


_entered = ContextSettings[Profile]("profiles")


@contextmanager
def profile() -> Generator[Profile]:
    """Profile this thread or task: kernels, copies, waits, compilations, calls.

    Where profiles are nested, each notes what is inside of it.
    """
    with trace() as calls:
        block = _entered.enter(Profile(calls))
        try:
            yield block.value
        finally:
            del block


def note(noted: Timed | Span) -> None:
    """Add a command or a span to all profiles of this context."""
    for each in _entered.values:
        each.add(noted)


@contextmanager
def noted(kind: str, name: str) -> Generator[None]:
    """Context manager that records a span of the calling thread."""
    begin = time.perf_counter()
    try:
        yield
    finally:
        note(Span(kind, name, "host", begin, time.perf_counter()))


def _table(spans: Sequence[Span], left_out: int) -> str:
    """A table of spans by device, kind and name: count, milliseconds, MB and GB/s."""
    rows: dict[tuple[str, str, str], list[Span]] = {}
    for span in spans:
        rows.setdefault((span.where, span.kind, span.name), []).append(span)
    cells = [("where", "what", "count", "ms", "MB", "GB/s")]
    for (where, kind, name), alike in sorted(rows.items()):
        seconds = sum(span.end - span.begin for span in alike)
        nbytes = sum(span.nbytes for span in alike)
        moved, rate = f"{nbytes / 1e6:.2f}", f"{nbytes / max(seconds, 1e-9) / 1e9:.1f}"
        what = f"{kind} {name}".strip()
        count, ms = str(len(alike)), f"{1e3 * seconds:.3f}"
        cells.append((where, what, count, ms, moved if nbytes else "", rate if nbytes else ""))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            text.ljust(width) if n < 2 else text.rjust(width)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([*lines, *([f"{left_out} more are not shown"] if left_out else [])])


def _events(spans: Sequence[Span]) -> list[dict[str, Any]]:
    """Trace events of spans, with overlapping ones in separate rows."""
    found: list[dict[str, Any]] = []
    rows: list[tuple[str, float]] = []  # name of a row, and when its last span ends
    for span in sorted(spans, key=lambda span: span.begin):
        does = "kernels" if span.kind == "kernel" else "copies"
        name = f"{span.where}: {does}"
        if span.where == "host":
            thread = threading.get_ident()
        else:
            free = (n for n, row in enumerate(rows) if row[0] == name and row[1] <= span.begin)
            if (thread := next(free, len(rows))) == len(rows):
                rows.append((name, 0.0))
                found.append(_named(thread, name))
            rows[thread] = name, span.end
        about: Mapping[str, Any] = {"bytes": span.nbytes} if span.nbytes else {}
        title = f"{span.kind} {span.name}" if span.kind != "kernel" else span.name
        found.append(event(title, span.begin, span.end, thread, about))
    return found


def _named(thread: int, name: str) -> dict[str, Any]:
    place = {"pid": os.getpid(), "tid": thread}
    return {"name": "thread_name", "ph": "M", **place, "args": {"name": name}}
