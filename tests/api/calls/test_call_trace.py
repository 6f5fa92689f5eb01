"""Traces: what served each call, and what its seconds went to."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from mdtensor.api.calls import call_trace
from mdtensor.api.engine import fused_calls, registry
from mdtensor.directive import add, cc, f_mul, fp64, inp_view, md_hom, mdh, out_view, pw
from mdtensor.errors import ArgumentError, SubscriptError
from mdtensor.stage_timer import STAGES, stage
from tests import children

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


def program(rows, columns):
    @mdh()
    def matvec():
        return (
            out_view[fp64](w=[lambda i, k: i]),
            md_hom[rows, columns](f_mul, (cc, pw(add))),
            inp_view[fp64, fp64](M=[lambda i, k: (i, k)], v=[lambda i, k: k]),
        )

    return matvec


matvec = program(6, 7)


def test_a_miss_has_all_stages_and_a_hit_only_runs() -> None:
    invalidation.clear()
    with mdt.trace() as seen:
        for _ in range(3):
            mdt.einsum("ij,jk->ik", A, B)
    assert [call.cache for call in seen.calls] == ["miss: first call", "hit", "hit"]
    first, second, _ = seen.calls
    assert {"run"} == {span.stage for span in second.spans}
    assert {"run"} < {span.stage for span in first.spans} | {"choose"}
    assert first.kernels[0].schedule == second.kernels[0].schedule
    assert first.kernels[0].tier in ("generic", "compiling", "own", "tuned")
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
        ("gaussian_filter", lambda: mdt.ndimage.gaussian_filter(A, 1)),
        ("tensordot", lambda: mdt.tensordot(A, B, 1)),
        ("mdh", lambda: matvec(A, A[0])),
    ],
)
def test_every_front_end_has_its_name(name: str, call) -> None:
    with mdt.trace() as seen:
        call()
    assert [each.front_end for each in seen.calls] == [name]
    assert seen.calls[0].cache
    assert seen.calls[0].kernels
    assert "run" in {span.stage for span in seen.calls[0].spans}


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


def test_a_launch_that_refuses_its_arrays_is_told() -> None:
    square, out = np.ones((5, 5)), np.empty((5, 5))
    mdt.einsum("ij,jk->ki", square, square, out=out)
    with mdt.trace() as seen:
        mdt.einsum("ij,jk->ki", square, np.ones((5, 5)), out=out)
        mdt.einsum("ij,jk->ki", square, out, out=out)
    assert [call.cache for call in seen.calls] == ["hit", "miss: refused"]


def test_a_result_into_an_array_has_its_kernel_and_a_run() -> None:
    out = np.empty((6, 5))
    invalidation.clear()
    with mdt.trace() as seen:
        mdt.einsum("ij,jk->ik", A, B, out=out)
        mdt.einsum("ij,jk->ik", A, B, out=out)
    for call in seen.calls:
        assert "run" in {span.stage for span in call.spans}
        assert len(call.kernels) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda n: mdt.einsum("ij,jk->ik", np.ones((n, 7)), B),
        lambda n: mdt.ndimage.gaussian_filter(np.ones((n, n + 1)), 1),
    ],
    ids=["einsum", "computation"],
)
def test_a_new_shape_of_a_family_has_its_kernel(call) -> None:
    for n in (31, 32, 33):
        call(n)
        registry.engine_for().settle()
    with mdt.trace() as seen:
        call(34)
        call(34)
    first, again = seen.calls
    assert first.cache.startswith("miss: new shape")
    assert again.cache == "hit"
    assert first.kernels[0].tier in ("generic", "compiling")
    assert first.kernels[0].problem == again.kernels[0].problem
    assert {"choose", "run"} <= {span.stage for span in first.spans}
    assert "translate" not in {span.stage for span in first.spans}


def test_a_kernel_for_which_a_better_one_is_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = registry.engine_for()
    monkeypatch.setattr(engine, "structures", {})
    registry.forget()
    with mdt.trace() as seen:
        for _ in range(3):  # the second one asks again where the first one's kernel was replaced
            mdt.einsum("ij,kj->ki", A, A)
            engine.settle()
    first, _, again = [call.kernels[0].tier for call in seen.calls]
    assert first == "compiling"
    assert again in ("generic", "own")


def test_fused_steps_have_a_kernel_each(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = registry.engine_for()
    monkeypatch.setattr(engine.joined, "made", {})
    monkeypatch.setattr(fused_calls, "WORTH_OFTEN", 1e-12)
    chain = [np.ones(shape) for shape in ((7, 30), (30, 8), (8, 40), (40, 9))]
    registry.forget()
    for _ in range(3):
        mdt.einsum("ij,jk,kl,lm->im", *chain)
    engine.settle()
    with mdt.trace() as seen:
        mdt.einsum("ij,jk,kl,lm->im", *chain)
        mdt.einsum("ij,jk,kl,lm->im", *chain)
    for call in seen.calls:
        assert [kernel.tier for kernel in call.kernels] == ["fused"] * 3


def test_calls_without_kernels_tell_who_computes() -> None:
    with mdt.trace() as seen:
        mdt.einsum("ij->ji", A)
        mdt.einsum("ij->j", A.astype(object))
        mdt.einsum("ij,jk->ik", np.ones((2, 0)), np.ones((0, 3)))
    found = [(kernel.tier, kernel.problem) for call in seen.calls for kernel in call.kernels]
    assert found == [("view", ""), ("numpy", "dtype object"), ("filled", "")]


def test_what_a_call_makes_of_others_is_told() -> None:
    weights = np.array([[0.0, 1, 0], [1, 2, 1], [0, 1, 0]])
    with mdt.trace() as seen:
        for _ in range(2):
            mdt.ndimage.correlate(A, weights)
            mdt.tensordot(A, B, 1)
    assert [len(call.kernels) for call in seen.calls] == [1, 1, 1, 1]
    assert {"run"} == {span.stage for span in seen.calls[2].spans}


def clocked(monkeypatch: pytest.MonkeyPatch, now: Callable[[], float]) -> None:
    monkeypatch.setattr(call_trace, "time", SimpleNamespace(perf_counter=now))


def test_a_stage_has_no_time_of_those_inside_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nested() -> None:
        with stage("choose"), stage("lower"):
            pass
        with stage("run"):
            pass

    clocked(monkeypatch, map(float, itertools.count()).__next__)
    with mdt.trace() as seen:
        call_trace.traced("nested", nested, (), {})
    (call,) = seen.calls
    found = [(span.stage, span.begin, span.end, span.alone) for span in call.spans]
    assert found == [("lower", 2, 3, 1), ("choose", 1, 4, 2), ("run", 5, 6, 1)]
    assert (call.seconds, call.other) == (7, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mdt.einsum("ij,jk->ik", np.ones((64, 128)), np.ones((128, 32))),
        lambda: mdt.conv(np.ones((1, 32, 32, 3)), np.ones((4, 3, 3, 3)), padding="same"),
        lambda: mdt.ndimage.gaussian_filter(np.ones((60, 50)), 1),
    ],
    ids=["einsum", "conv", "gaussian_filter"],
)
def test_stages_have_the_work_of_a_first_call(
    call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work is counted in functions that are called."""
    monkeypatch.setattr(registry.engine_for(), "structures", {})
    registry.forget()
    done = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal done
        done += event == "call"

    clocked(monkeypatch, lambda: float(done))
    with mdt.trace() as seen:
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            call()
        finally:
            sys.setprofile(before)
    (found,) = seen.calls
    stages = sum(span.alone for span in found.spans)
    assert stages + found.other == found.seconds
    assert 0.8 * done <= stages <= done


def run(code: str, folder: Path, **variables: str | Path) -> str:
    """What a new process prints, to standard output or standard error."""
    words = "-W", "ignore::DeprecationWarning", "-c", code  # forks beside threads
    end = children.run(*words, env=variables, cwd=folder)
    return end.out + end.err


FORKING = """
import os, sys
import numpy as np, mdtensor as mdt
mdt.reduce("ij->i", np.ones((3, 4)))
if os.fork() == 0:
    {child}
    sys.exit()
os.wait()
"""


@pytest.mark.process
def test_a_fork_tells_its_own_calls(tmp_path: Path) -> None:
    code = FORKING.format(child="mdt.einsum('ij->i', np.ones((3, 4)))")
    lines = run(code, tmp_path, MDTENSOR_TRACE="1").splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [
        *("call", "einsum"),
        *("call", "reduce"),
    ]


@pytest.mark.process
def test_a_fork_saves_its_own_file_if_it_calls(tmp_path: Path) -> None:
    run(FORKING.format(child="pass"), tmp_path, MDTENSOR_TRACE="x.json")
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    run(
        FORKING.format(child="mdt.einsum('ij->i', np.ones((3, 4)))"),
        tmp_path,
        MDTENSOR_TRACE="x.json",
    )
    first, other = sorted(path.name for path in tmp_path.iterdir())
    assert re.fullmatch(r"x\.\d+\.json", first)
    for name, front_end in ((first, "einsum"), (other, "reduce")):
        events = json.loads((tmp_path / name).read_text(encoding="utf-8"))["traceEvents"]
        assert events[0]["name"] == front_end


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


@pytest.mark.process
def test_another_process_compiles_nothing(tmp_path: Path) -> None:
    code = (
        "import numpy as np, mdtensor as mdt\n"
        "with mdt.trace() as t: mdt.einsum('ij,jk->ki', np.ones((6, 7)), np.ones((7, 5)))\n"
        "print(*[s.stage for s in t.calls[0].spans])"
    )
    runs = [run(code, tmp_path, MDTENSOR_CACHE_DIR=tmp_path).split() for _ in range(2)]
    assert "compile" in runs[0]
    assert "compile" not in runs[1]
    assert {"translate", "choose", "lower", "render", "run"} <= {*runs[0]}


def test_work_in_the_background_is_told_with_its_thread() -> None:
    engine = registry.engine_for()
    with mdt.trace() as seen:
        mdt.einsum("ij,jk->ik", np.ones((517, 600)), np.ones((600, 530)))
        other = threading.Thread(target=engine.settle)
        other.start()
        other.join()
    (call,) = seen.calls
    assert {span.thread for span in call.spans} > {call.thread}
    assert "other threads, for einsum: " in str(seen)


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
    assert lines[0].split() == ["call", "cache", "tier", "calls", "ms", *STAGES, "other"]
    assert max(map(len, lines)) <= 115


def test_save_takes_a_path() -> None:
    with mdt.trace() as seen:
        pass
    with pytest.raises(ArgumentError) as caught:
        seen.save(3)  # pyright: ignore[reportArgumentType]
    assert str(caught.value) == 'path is 3\n  hint: a path, such as "trace.json"'


@pytest.mark.process
@pytest.mark.parametrize("said", ["1", "x.json", "yes"])
def test_the_variable_traces_a_process(said: str, tmp_path: Path) -> None:
    code = "import mdtensor as mdt; mdt.einsum('i,i->', [1.0], [2.0])"
    code_at_end = 1 if said == "yes" else 0
    end = children.run("-c", code, env={"MDTENSOR_TRACE": said}, cwd=tmp_path, code=code_at_end)
    if said == "yes":
        assert "MDTENSOR_TRACE is 'yes'" in end.err
    elif said == "1":
        assert "einsum" in end.err
    else:
        assert json.loads((tmp_path / said).read_text(encoding="utf-8"))["traceEvents"]
