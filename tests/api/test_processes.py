"""Many threads at once, forks, interrupts: right results, and no hang."""

from __future__ import annotations

import contextlib
import itertools
import os
import textwrap
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from tests import children
from tests.api import stand_in_bench
from tests.counted import Counted
from tests.hurried import at_once
from tests.interrupts import comes_at, interrupt

HERE = f"{Path(mdt.__file__).parent}{os.sep}"


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


def run(program: str, **env: str) -> str:
    words = "-W", "ignore", "-c", textwrap.dedent(program)
    end = children.run(*words, env={"MDTENSOR_CACHE_LIMIT": "0", **env})
    assert "Exception ignored" not in end.err
    return end.out


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


@pytest.mark.process
@pytest.mark.parametrize(
    ("where", "name"),
    [
        pytest.param(
            "mdtensor.backends.select",
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
    where: str, name: str, tmp_path: Path
) -> None:
    """The fork begins while the other thread is inside, which goes on from then."""
    program = f"""
        import os, signal, threading
        import numpy as np
        import mdtensor as mdt
        import {where} as where
        if {where!r}.endswith(".tiers"):
            mdt.einsum("ij->i", np.ones((3, 4)))  # on a device that is open
        a = np.random.default_rng(0).random((30, 40))
        is_inside, begins, whole = threading.Event(), threading.Event(), where.{name}
        os.register_at_fork(before=begins.set)  # which is called before what was registered earlier
        def held(*given, **options):
            is_inside.set()
            begins.wait(200)
            return whole(*given, **options)
        where.{name} = held
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
    """
    shown = run(program, MDTENSOR_CACHE_DIR=str(tmp_path))  # in which no kernel was kept
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
    places = {"XDG_CACHE_HOME": tmp_path, "MDTENSOR_CACHE_DIR": tmp_path / "mdtensor"}
    words = "-W", "error::RuntimeWarning", "-c", textwrap.dedent(program)
    with contextlib.ExitStack() as stack:
        together = [stack.enter_context(children.started(*words, env=places)) for _ in range(3)]
        for end in map(children.finished, together):
            assert end.out == "True\nTrue\n", end.err


A = np.random.default_rng(0).random((900, 12))
NUMBERS = itertools.count()  # of calls that nobody has made


def squared(x: Any) -> Any:
    return x * x


def call_known(_: int) -> None:
    call_new_shapes(len(A))
    # Of which Python has a part: it has the function's key.
    found = mdt.reduce("ij->i", A[:9], f=squared)
    np.testing.assert_allclose(found, (A[:9] ** 2).sum(1), rtol=1e-12)


def call_new_shapes(number: int) -> None:
    a = A[: 10 + number]
    np.testing.assert_allclose(mdt.einsum("ij,kj->ik", a, A[:9]), a @ A[:9].T, rtol=1e-12)
    np.testing.assert_array_equal(mdt.reduce("ij->i", a, combine="max"), a.max(1))
    np.testing.assert_allclose(mdt.scan("i->i", a[:, 0]), np.cumsum(a[:, 0]), rtol=1e-12)


def call_new_functions(number: int) -> None:
    found = mdt.reduce("ij->i", A[:9], f=lambda x: x * (number + 0.5))
    np.testing.assert_allclose(found, A[:9].sum(1) * (number + 0.5), rtol=1e-12)


def steps_of_known() -> int:
    with Counted() as work:
        call_known(0)
    return work.steps


@pytest.mark.parametrize(
    ("call", "of", "step"),
    [
        (call_known, "", 1),
        (call_new_shapes, "api/calls/call_cache", 1),
        (call_new_shapes, "", 47),
        (call_new_functions, "", 2003),
    ],
)
def test_interrupts_leave_everything_usable(
    call: Callable[[int], None], of: str, step: int
) -> None:
    """Ctrl-C comes at each place of calls that are known, and at some of other calls.

    Calls that are known take no longer for that.
    """
    for _ in range(3):
        call(next(NUMBERS))
    steps = max(steps_of_known() for _ in range(9))
    for place in itertools.count(step=step):
        number = next(NUMBERS)
        is_over = not comes_at(place, interrupt, partial(call, number), f"{HERE}{of}")
        assert not invalidation.watchers, place
        call(number)
        call_known(number)
        assert steps_of_known() < 1.2 * steps, place  # now and then memory is taken back
        if is_over:
            break
    assert place > 10 * step
