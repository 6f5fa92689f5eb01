"""Many threads at once, forks, interrupts: right results, and no hang."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from tests.api import stand_in_bench
from tests.hurried import at_once


@mdt.stencil(border="nearest")
def blurred(u: Any) -> Any:
    return (u[-1] + u[0] + u[1]) / 3


@mdt.mdh
def matvec(w: Any, M: Any, v: Any) -> None:
    for i in range(M.shape[0]):
        w[i] = 0.0
        for k in range(M.shape[1]):
            w[i] += M[i, k] * v[k]


def loops(a: np.ndarray, v: np.ndarray) -> np.ndarray:
    w = np.empty(len(a))
    matvec(w, a, v)
    return w


def check_all(rng: np.random.Generator) -> None:
    """One call of everything, on shapes that nobody else may have had."""
    m, k, n = rng.integers(1, 60, 3)
    a, b = rng.random((m, k)), rng.random((k, n))
    padded = np.pad(a[0], 1, mode="edge")
    for found, expected in (
        (mdt.einsum("ij,jk->ik", a, b), a @ b),
        (mdt.einsum("ij,jk->ik", a, b, semiring="min_plus"), (a[:, :, None] + b).min(1)),
        (mdt.reduce("ij->i", a, combine="max"), a.max(1)),
        (mdt.scan("ij->ij", a, combine={"j": "add"}), np.cumsum(a, 1)),
        (blurred(a[0]), (padded[:-2] + padded[1:-1] + padded[2:]) / 3),
        (loops(a, b[:, 0].copy()), a @ b[:, 0]),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_eight_threads_call_everything_at_once() -> None:
    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(12):
            check_all(rng)

    at_once(*[partial(work, seed) for seed in range(8)])


def test_threads_call_while_others_tune_choose_devices_and_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is chosen meanwhile, and whichever launches are dropped, results are right."""
    stand_in_bench.use(stand_in_bench.Bench(), monkeypatch)
    a, b = np.random.default_rng(0).random((2, 40, 40))
    plan = mdt.compile("ij,jk->ik", a, b)
    is_over = threading.Event()

    def tune() -> None:
        try:
            plan.tune(budget=3, quiet=True, again=True)
        finally:
            is_over.set()

    def change() -> None:
        while not is_over.is_set():
            mdt.device(None)
            with mdt.tuning("record") as seen:
                list(seen)

    def call(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(8):  # an end, since tuning waits for what new shapes ask for
            check_all(rng)
            out = np.empty_like(a)
            for found in (plan(a, b), plan(a, b, out=out), mdt.einsum("ij,jk->ik", a, b)):
                np.testing.assert_allclose(found, a @ b, rtol=1e-12)

    at_once(tune, change, *[partial(call, seed) for seed in range(3)])


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env={**os.environ, "MDTENSOR_CACHE_LIMIT": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert "Exception ignored" not in done.stderr
    return done.stdout


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_computes_what_it_has_seen_and_what_it_has_not() -> None:
    shown = run("""
        import os
        import numpy as np
        import mdtensor as mdt
        a = np.random.default_rng(0).random((600, 700), np.float32)
        mdt.einsum("ij,kj->ik", a, a)
        child = os.fork()
        same = np.allclose(mdt.einsum("ij,kj->ik", a, a), a @ a.T, rtol=1e-4)
        other = np.allclose(mdt.reduce("ij->i", a, combine="max"), a.max(1))
        if child == 0:
            os._exit(0 if same and other else 1)
        _, status = os.waitpid(child, 0)
        print(same, other, status)
    """)
    assert shown == "True True 0\n"


@pytest.mark.campaign
@pytest.mark.process
@pytest.mark.parametrize(
    ("where", "name"),
    [
        pytest.param(
            "mdtensor.api.engine.registry",
            "open_device",
            id="while another thread opens the device",
        ),
        pytest.param(
            "mdtensor.api.engine.tiers",
            "without_parts",
            id="while another thread makes a structure's first kernel",
        ),
    ],
)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_forked_in_the_middle_of_a_first_call_can_make_that_call(
    where: str, name: str
) -> None:
    shown = run(f"""
        import logging, os, signal, threading, time
        import numpy as np
        import mdtensor as mdt
        import {where} as where
        if {where!r}.endswith(".engine"):
            mdt.einsum("ij->i", np.ones((3, 4)))  # on a device that is open
        a = np.random.default_rng(0).random((30, 40))
        is_inside, whole = threading.Event(), where.{name}
        def slowly(*given, **options):
            is_inside.set()
            time.sleep(0.3)
            return whole(*given, **options)
        where.{name} = slowly
        thread = threading.Thread(target=mdt.einsum, args=("ij,kj->ik", a, a))
        thread.start()
        is_inside.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(200)
            os._exit(0 if np.allclose(mdt.einsum("ij,kj->ik", a, a), a @ a.T) else 1)
        _, status = os.waitpid(child, 0)
        thread.join()
        print(status)
    """)
    assert shown == "0\n"


@pytest.mark.process
def test_processes_begin_at_once_where_nothing_is_kept_yet(tmp_path: Path) -> None:
    program = """
        import numpy as np
        import mdtensor as mdt
        a = np.random.default_rng(0).random((50, 60))
        print(np.allclose(mdt.einsum("ij,kj->ik", a, a), a @ a.T))
        print(np.allclose(mdt.reduce("ij->i", a, combine="max"), a.max(1)))
    """
    places = {"XDG_CACHE_HOME": str(tmp_path), "MDTENSOR_CACHE_DIR": str(tmp_path / "mdtensor")}
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error::RuntimeWarning", "-c", textwrap.dedent(program)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **places},
        )
        for _ in range(3)
    ]
    for each in started:
        shown, trouble = each.communicate(timeout=250)
        assert shown == "True\nTrue\n", trouble


@pytest.mark.campaign
@pytest.mark.process
def test_interrupts_leave_everything_usable() -> None:
    """Ctrl-C comes at any moment of a call, also while a kernel runs on memory of the call."""
    shown = run("""
        import signal, sys, time
        import numpy as np
        import mdtensor as mdt
        a = np.random.default_rng(0).random((80, 90))
        mdt.einsum("ij,kj->ik", a, a)
        mdt.scan("i->i", a[0])  # imports that are interrupted raise what Python makes of it
        # One that comes in the callback of a weak reference, as imports have, Python itself loses.
        tell = sys.unraisablehook
        sys.unraisablehook = lambda lost: lost.exc_type is KeyboardInterrupt or tell(lost)
        inside = []
        def interrupt(*_):
            if inside:
                inside.clear()  # one at a time: who catches it is not interrupted
                raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.004, 0.004)
        stop, caught = time.monotonic() + 2, 0
        while time.monotonic() < stop:
            try:
                inside.append(1)
                n = int(time.monotonic() * 1e6) % 70 + 1
                mdt.einsum("ij,kj->ik", a[:n], a)
                mdt.reduce("ij->i", a[:n], combine="max")
                mdt.scan("i->i", a[0, :n])
                inside.clear()
            except KeyboardInterrupt:
                caught += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        right = np.allclose(mdt.einsum("ij,kj->ik", a, a), a @ a.T)
        right &= np.array_equal(mdt.reduce("ij->i", a, combine="max"), a.max(1))
        right &= np.allclose(mdt.scan("i->i", a[0]), np.cumsum(a[0]))
        print(right, caught > 10)
        exec("")  # Python exits as if interrupted where the last text that it executed was
    """)
    assert shown == "True True\n"
