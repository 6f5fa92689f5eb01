"""Profiles: the table, the trace, and what is noted where."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor import host
from mdtensor.errors import ArgumentError, LaunchError
from mdtensor.host import profiling
from mdtensor.host.profiling import Span
from tests.host.late_device import LateDevice, World
from tests.host.test_buffers import KERNELS, TEXT


def test_the_table_has_a_line_for_what_is_alike() -> None:
    with host.profile() as seen:
        for n in range(3):
            profiling.note(Span("copy to", "", "cpu", n, n + 0.001, 2_000_000))
        profiling.note(Span("kernel", "f", "cpu", 1.0, 1.5))
    assert str(seen).splitlines() == [
        "where  what      count       ms    MB  GB/s",
        "cpu    copy to       3    3.000  6.00   2.0",
        "cpu    kernel f      1  500.000",
    ]


def test_the_trace_has_rows_without_overlaps(tmp_path: Path) -> None:
    with host.profile() as seen:
        for begin, end in [(0.0, 1.0), (0.5, 2.0), (1.0, 3.0)]:
            profiling.note(Span("kernel", "f", "cpu", begin, end))
        mdt.einsum("i->", np.ones(3))
    seen.save(tmp_path / "x.json")
    events: list[dict[str, Any]]
    events = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["traceEvents"]
    rows = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    assert rows == {0: "cpu: kernels", 1: "cpu: kernels"}
    kernels = [(e["ts"], e["dur"], e["tid"]) for e in events if e["name"] == "f"]
    assert kernels == [(0, 1e6, 0), (5e5, 15e5, 1), (1e6, 2e6, 0)]
    assert "einsum" in {e["name"] for e in events}
    with pytest.raises(ArgumentError, match="path is 3"):
        seen.save(3)  # pyright: ignore[reportArgumentType]


def test_kernels_that_overlap_are_independent() -> None:
    device = host.Device(LateDevice("late", World(0), "a", KERNELS))
    x, y = host.buffer(np.zeros(4, "i4")), host.empty(4, "i4")
    with host.profile() as seen:
        host.kernel(TEXT, "ramp")(4, device=device)(host.write(x), 1)
        host.kernel(TEXT, "copy")(4, device=device)(host.read(x), host.write(y))
        y.numpy()
    spans = {span.name or span.kind: span for span in seen.spans}
    assert spans["ramp"].end < spans["copy"].begin < spans["copy from"].begin


def test_commands_that_fail_are_left_out() -> None:
    class Failing:
        def is_done(self) -> bool:
            return True

        def span(self) -> Span:
            raise LaunchError("a command failed")

    with host.profile() as seen:
        profiling.note(Failing())
        profiling.note(Span("kernel", "f", "cpu", 0.0, 1.0))
    assert [span.name for span in seen.spans] == ["f"]


def test_a_profile_is_of_its_thread_and_ends() -> None:
    inside = Span("kernel", "f", "cpu", 0.0, 1.0)
    with host.profile() as outer:
        with contextlib.suppress(ZeroDivisionError), host.profile() as inner:
            profiling.note(inside)
            other = threading.Thread(target=profiling.note, args=(inside,))
            other.start()
            other.join()
            raise ZeroDivisionError
        profiling.note(inside)
    profiling.note(inside)
    assert (len(inner.spans), len(outer.spans)) == (1, 2)


def test_a_profile_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "MOST_SPANS", 2)
    with host.profile() as seen:
        for _ in range(5):
            profiling.note(Span("kernel", "f", "cpu", 0.0, 1.0))
    assert str(seen).splitlines()[-1] == "3 more are not shown"


def test_commands_that_are_done_let_go_of_their_memory() -> None:
    class Done:
        def is_done(self) -> bool:
            return True

        def span(self) -> Span:
            return Span("kernel", "f", "cpu", 0.0, 1.0)

    with host.profile() as seen:
        for _ in range(600):
            profiling.note(Done())
    assert sum(isinstance(each, Done) for each in seen._noted) == 600 - 512
    assert len(seen.spans) == 600
