"""Traces: what served each call, and what its seconds went to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from mdtensor.api.engine import registry
from mdtensor.errors import ArgumentError, SubscriptError
from mdtensor.stage_timer import STAGES

A, B = np.ones((6, 7)), np.ones((7, 5))


@mdt.stencil(border="reflect")
def mean(u):
    return (u[-1, 0] + u[1, 0]) / 2


@mdt.mdh()
def rows(x):
    y = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i] += x[i, j]
    return y


def test_a_miss_has_all_stages_and_a_hit_only_runs() -> None:
    invalidation.clear()
    with mdt.trace() as seen:
        for _ in range(3):
            mdt.einsum("ij,jk->ik", A, B)
    assert [call.cache for call in seen.calls] == ["miss: first call", "hit", "hit"]
    first, second, _ = seen.calls
    assert {"run"} == {span.stage for span in second.spans}
    assert {"run"} < {span.stage for span in first.spans} | {"choose"}
    assert first.kernels == second.kernels
    assert first.kernels[0].tier in ("generic", "own", "tuned")
    assert sum(span.alone for span in second.spans) <= second.seconds


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("einsum", lambda: mdt.einsum("ij->i", A)),
        ("reduce", lambda: mdt.reduce("ij->i", A, combine="max")),
        ("scan", lambda: mdt.scan("ij->ij", A, combine={"j": mdt.ps("add")})),
        ("conv", lambda: mdt.conv(A.reshape(1, 6, 7, 1), np.ones((1, 2, 2, 1)))),
        ("convolve", lambda: mdt.convolve(A[0], A[1])),
        ("stencil", lambda: mean(A)),
        ("lazy", lambda: np.asarray(mdt.lazy(A) * 2 + 1)),
        ("mdh", lambda: rows(A)),
        ("plan", lambda: mdt.compile("ij,jk->ik", A, B)(A, B)),
    ],
)
def test_every_front_end_has_its_name(name: str, call) -> None:
    with mdt.trace() as seen:
        call()
    assert [each.front_end for each in seen.calls] == [name]
    assert all(each.cache for each in seen.calls)


def test_the_reason_of_a_miss() -> None:
    invalidation.clear()
    with mdt.trace() as seen:
        mdt.reduce("ij->i", A, combine="max")
        mdt.reduce("ij->i", B, combine="max")
        mdt.reduce("ij->i", A.astype(np.float32), combine="max")
        invalidation.clear()
        mdt.reduce("ij->i", A, combine="max")
    reasons = [call.cache for call in seen.calls]
    assert reasons[0] == "miss: first call"
    assert reasons[1] == "miss: new shape strides"
    assert reasons[2] == "miss: new strides type"
    assert reasons[3] == "miss: new kernels"


def test_an_error_is_noted_and_the_trace_goes_on() -> None:
    with mdt.trace() as seen:
        with pytest.raises(SubscriptError):
            mdt.einsum("ij,jk->ik", A, A)
        mdt.einsum("ij->i", A)
    assert [call.error for call in seen.calls] == ["SubscriptError", ""]
    assert not invalidation.watchers


def test_nested_traces_see_what_is_inside_and_other_threads_are_others() -> None:
    with mdt.trace() as outer:
        mdt.einsum("ij->i", A)
        with mdt.trace() as inner:
            mdt.einsum("ij->j", A)
        thread = threading.Thread(target=lambda: mdt.einsum("ij->i", A))
        thread.start()
        thread.join()
    assert (len(outer.calls), len(inner.calls)) == (2, 1)


def test_another_process_compiles_nothing(tmp_path: Path) -> None:
    code = (
        "import numpy as np, mdtensor as mdt\n"
        "with mdt.trace() as t: mdt.einsum('ij,jk->ki', np.ones((6, 7)), np.ones((7, 5)))\n"
        "print(*[s.stage for s in t.calls[0].spans])"
    )
    environment = {**os.environ, "MDTENSOR_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert "compile" in runs[0]
    assert "compile" not in runs[1]
    assert {"translate", "choose", "lower", "render", "run"} <= {*runs[0]}


def test_work_in_the_background_is_told_with_its_thread() -> None:
    engine = registry.engine_for()
    with mdt.trace() as seen:
        mdt.einsum("ij,jk->ik", np.ones((517, 600)), np.ones((600, 530)))
        engine.settle()
    (call,) = seen.calls
    assert {span.thread for span in call.spans} > {call.thread}
    assert "beside einsum, thread" in str(seen)


def test_a_file_of_events(tmp_path: Path) -> None:
    with mdt.trace() as seen:
        mdt.einsum("ij,jk->ik", A, B)
    seen.save(tmp_path / "x.json")
    events = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["traceEvents"]
    assert events[0]["name"] == "einsum"
    for event in events:
        assert event["ph"] == "X"
        assert event["pid"] == os.getpid()
        assert event["dur"] >= 0
        assert events[0]["ts"] <= event["ts"]


def test_a_table_fits_its_columns() -> None:
    with mdt.trace() as seen:
        mdt.einsum("ij,jk->ik", A, B)
        mean(A)
    lines = str(seen).splitlines()
    assert lines[0].split() == ["call", "cache", "tier", "calls", "ms", *STAGES]
    assert max(map(len, lines)) <= 100


def test_save_takes_a_path() -> None:
    with mdt.trace() as seen:
        pass
    with pytest.raises(ArgumentError) as caught:
        seen.save(3)  # pyright: ignore[reportArgumentType]
    assert str(caught.value) == 'path is 3\n  hint: a path, such as "trace.json"'


@pytest.mark.parametrize("said", ["1", "x.json", "yes"])
def test_the_variable_traces_a_process(said: str, tmp_path: Path) -> None:
    code = "import mdtensor as mdt; mdt.einsum('i,i->', [1.0], [2.0])"
    environment = {**os.environ, "MDTENSOR_TRACE": said}
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    if said == "yes":
        assert found.returncode == 1
        assert "MDTENSOR_TRACE is 'yes'" in found.stderr
        return
    assert found.returncode == 0, found.stderr
    if said == "1":
        assert "einsum" in found.stderr
    else:
        assert json.loads((tmp_path / said).read_text(encoding="utf-8"))["traceEvents"]
