"""Mode "online": calls of all kinds get the results of trusted kernels, and winners are kept."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor import tuning
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import KernelChoice
from mdtensor.api.tuning.online import (
    background_workshop,
    call_trial,
    explorer_worker,
    online_mode,
    online_search,
    space_explorer,
)
from mdtensor.api.tuning.online.background_workshop import BackgroundWorkshop
from mdtensor.api.tuning.online.call_trial import Candidate
from mdtensor.api.tuning.online.online_search import OnlineSearch
from mdtensor.api.tuning.online.time_account import Account
from mdtensor.autotune.store.store import Store
from mdtensor.errors import TuningError
from mdtensor.lower.problem.problem_key import problem_key
from tests import children
from tests.api.told_background import ToldBackground

RNG = np.random.default_rng(0)
A, B, C = (RNG.random(shape, np.float32) for shape in ((37, 61), (61, 43), (43, 29)))
_MOST_CALLS = 2000  # far more than any search takes here


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is known from other tests: no winner, and no search."""
    engine, memory = registry.engine_for(), Store.in_memory()
    monkeypatch.setattr(engine, "_open_store", lambda: memory)
    monkeypatch.setattr(online_mode, "_shared", WeakKeyDictionary())
    monkeypatch.setattr(online_mode, "_OFTEN", 1)  # also of shapes of a kind that was seen before
    online_mode._searches.clear()
    registry.forget()
    yield
    online_mode._searches.clear()
    registry.forget()


@pytest.fixture
def favoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is paid for, so that searches take few calls."""
    monkeypatch.setattr(Account, "left", property(lambda _: 1e9))
    monkeypatch.setattr(background_workshop, "_MOST", 2)
    monkeypatch.setitem(background_workshop._USUAL, "propose", 1e6)
    monkeypatch.setattr(online_search, "_CALLS", -1)


@pytest.fixture
def generous(favoured: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, and searches end with the favourites."""
    monkeypatch.setattr(BackgroundWorkshop, "can_explore", False)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[OnlineSearch]:
    """The searches whose calls were watched, one for each call."""
    found: list[OnlineSearch] = []
    call = OnlineSearch.call

    def noted(search: OnlineSearch, *given: Any) -> None:
        found.append(search)
        call(search, *given)

    monkeypatch.setattr(OnlineSearch, "call", noted)
    return found


def calls() -> dict[str, tuple[Callable[[], Any], np.ndarray]]:
    """Calls of all kinds, and what they give in float64."""
    a, b, c = (x.astype("f8") for x in (A, B, C))
    plan = mdt.compile("ij,jk->ik", A, B)
    of_function = mdt.compile(mdt.reduce, "ij,jk->ik", A, B, combine="max")
    out, single = np.empty((37, 43), "f4"), np.empty((37, 43), "f4")
    smooth = mdt.stencil(lambda u: u[0, -1] + u[0, 1] + u[1, 0], border="reflect")
    u = np.pad(a, 1, mode="symmetric")
    product, maxima = a @ b, (a[:, :, None] * b[None]).max(1)
    return {
        "einsum": (lambda: mdt.einsum("ij,jk->ik", A, B), product),
        "einsum out": (lambda: mdt.einsum("ij,jk->ik", A, B, out=single), product),
        "einsum of three": (lambda: mdt.einsum("ij,jk,kl->il", A, B, C), product @ c),
        "reduce": (lambda: mdt.reduce("ij,jk->ik", A, B, combine="max"), maxima),
        "plan": (lambda: plan(A, B), product),
        "plan out": (lambda: plan(A, B, out=out), product),
        "plan of reduce": (lambda: of_function(A, B), maxima),
        "stencil": (lambda: smooth(A), u[1:-1, :-2] + u[1:-1, 2:] + u[2:, 1:-1]),
        "softmax": (lambda: mdt.softmax(A, axis=1), np.exp(a) / np.exp(a).sum(1)[:, None]),
    }


def until_over(call: Callable[[], Any], wanted: np.ndarray) -> list[OnlineSearch]:
    """Calls until all searches are over, each with its result compared."""
    for _ in range(_MOST_CALLS):
        np.testing.assert_allclose(call(), wanted, rtol=1e-4, atol=1e-5)
        searches = list(online_mode._searches.values())
        if searches and all(search.is_over for search in searches):
            return searches
        registry.engine_for().settle()
    raise AssertionError("the search did not end")


@pytest.mark.usefixtures("generous")
@pytest.mark.parametrize("name", calls())
def test_calls_have_right_results_while_candidates_are_tried(name: str) -> None:
    call, wanted = calls()[name]
    with tuning("online", share=0.5):
        searches = until_over(call, wanted)
    assert any(search.trials for search in searches)
    np.testing.assert_allclose(call(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", calls())
def test_only_calls_in_the_mode_are_watched(name: str, seen: list[OnlineSearch]) -> None:
    call, wanted = calls()[name]
    for _ in range(3):
        call()
    assert not seen
    with tuning("online"):
        for _ in range(3):
            np.testing.assert_allclose(call(), wanted, rtol=1e-4, atol=1e-5)
    assert seen
    seen.clear()
    for _ in range(3):
        call()
    with tuning("off"):
        call()
    assert not seen


@pytest.mark.parametrize("name", ["einsum", "plan", "plan out", "plan of reduce"])
def test_each_share_is_that_of_its_calls(name: str) -> None:
    call, _ = calls()[name]
    for share in (0.1, 0.5, 0.1):
        with tuning("online", share=share):
            call()
            call()
            (search,) = online_mode._searches.values()
            search._clock = itertools.count().__next__  # a second from look to look
            before = search.account.earned
            call()
        assert search.account.earned == pytest.approx(before + share)


def choice_of(expression: str, *arrays: Any) -> tuple[Engine, KernelChoice]:
    (md_hom,) = mdt.compile(expression, *arrays).md_homs
    engine = registry.engine_for()
    return engine, engine.choose(md_hom)


@pytest.mark.usefixtures("generous")
def test_what_is_better_is_kept_and_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_trial, "_WORTH", 1e9)
    monkeypatch.setattr(call_trial, "_AROUND_S", -1e9)
    monkeypatch.setattr(call_trial, "_HOPELESS", 1e9)
    a, b = A[:31].copy(), B[:, :17].copy()
    wanted = a.astype("f8") @ b
    with tuning("online"):
        (search,) = until_over(lambda: mdt.einsum("ij,jk->ik", a, b), wanted)
        engine, choice = choice_of("ij,jk->ik", a, b)
        assert choice.origin == "tuned"
        assert online_mode._searches[engine, choice.problem] is search
    row = engine.store.winner(problem_key(choice.problem), engine.environment)
    assert row is not None
    assert row.schedule == choice.schedule.to_json()
    assert (row.trials, row.confirmed) == (search.trials, False)
    np.testing.assert_allclose(mdt.einsum("ij,jk->ik", a, b), wanted, rtol=1e-5)


class Wrong:
    """A program that is as fast as can be, and computes nothing, or something else."""

    def __init__(self, value: float | None) -> None:
        self.value, self.runs = value, 0

    def launcher(self) -> Callable[..., None]:
        return self

    def __call__(self, *arrays: np.ndarray) -> None:
        self.runs += 1
        if self.value is not None:
            arrays[-1][:100] = self.value


@pytest.mark.usefixtures("generous")
@pytest.mark.parametrize("value", [None, 0.0, np.nan, 1.0])
def test_a_wrong_candidate_reaches_nobody(
    value: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: Any = Wrong(value)
    kept: list[Any] = []

    def made(*given: Any) -> Candidate:
        return replace(Candidate(*given), program=wrong)

    monkeypatch.setattr(background_workshop, "Candidate", made)
    monkeypatch.setattr(
        Engine, "keep_winner", lambda _, __, ___, ____, program: kept.append(program)
    )
    a, b = A[:29].copy(), B[:, :19].copy()
    with tuning("online"):
        until_over(lambda: mdt.einsum("ij,jk->ik", a, b), a.astype("f8") @ b)
    assert wrong.runs
    assert wrong not in kept


@pytest.mark.usefixtures("generous")
def test_operands_may_be_written_by_the_call() -> None:
    square = RNG.random((40, 40), np.float32)
    a = square.copy()

    def call() -> np.ndarray:
        a[:] = square
        return mdt.einsum("ij,jk->ik", a, a, out=a)

    with tuning("online"):
        (search,) = until_over(call, square.astype("f8") @ square)
    assert search.trials


def test_computations_with_winners_are_left_alone(seen: list[OnlineSearch]) -> None:
    a, b = A[:23].copy(), B[:, :13].copy()
    engine, choice = choice_of("ij,jk->ik", a, b)
    key, schedule = problem_key(choice.problem), choice.schedule.to_json()
    engine.store.set_winner(key, engine.environment, schedule, seconds=1e-6, trials=9)
    registry.forget()
    with tuning("online"):
        for _ in range(3):
            mdt.einsum("ij,jk->ik", a, b)
    assert not seen


def test_results_that_take_much_memory_are_left_alone(
    seen: list[OnlineSearch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(online_mode, "_MOST_BYTES", 37 * 43 * 4 - 1)
    with tuning("online"):
        for _ in range(3):
            mdt.einsum("ij,jk->ik", A, B)
    assert not seen


@pytest.mark.parametrize("share", [0, -0.1, 0.51, 1, float("nan"), True, "0.1", None, 1j])
def test_a_share_is_a_part_of_the_time(share: Any) -> None:
    with (
        pytest.raises(TuningError, match="is no part of calls' time that may be spent") as raised,
        tuning("online", share=share),
    ):
        pass
    assert raised.value.hint == "a number above 0 and up to 0.5, such as 0.1"


def test_numbers_of_numpy_are_shares() -> None:
    with tuning("online", share=np.float32(0.25)), tuning("online", share=np.float64(0.5)):
        np.testing.assert_allclose(mdt.einsum("ij,jk->ik", A, B), A @ B, rtol=1e-5)


@pytest.mark.usefixtures("generous")
def test_threads_share_a_search() -> None:
    wrong: list[float] = []
    wanted = A.astype("f8") @ B

    def calls_in_thread() -> None:
        with tuning("online"):
            for _ in range(300):
                found = mdt.einsum("ij,jk->ik", A, B)
                wrong.extend([1.0] if not np.allclose(found, wanted, rtol=1e-4) else [])

    threads = [threading.Thread(target=calls_in_thread) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        registry.engine_for().settle()
        threads[0].join(1e-3)
    assert not wrong
    assert len(online_mode._searches) == 1


def open_patient(payload: Any) -> Callable[[Any], Any]:
    """An explorer that has as much time to plan as it takes."""
    explorer_worker._PLANNING = 1e9
    return explorer_worker.open_explorer(payload)


@pytest.mark.process
@pytest.mark.usefixtures("favoured")
def test_the_space_is_searched_behind_the_favourites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_explorer, "Background", ToldBackground)
    monkeypatch.setattr(space_explorer, "EXPLORER", f"{__name__}:open_patient")
    wanted = A.astype("f8") @ B
    with tuning("online"):
        for _ in range(_MOST_CALLS):
            np.testing.assert_allclose(mdt.einsum("ij,jk->ik", A, B), wanted, rtol=1e-5)
            registry.engine_for().settle()
            ((_, explorer),) = online_mode._shared.values()
            explorer._background.settle(timeout=600)
            if any(search.trials >= 4 for search in online_mode._searches.values()):
                break
    (search,) = online_mode._searches.values()
    assert search.trials >= 4
    assert not search.is_over
    explorer._stop()


PROGRAM = """
import os
import numpy as np
import mdtensor as mdt
from mdtensor.api.tuning.online.time_account import Account
from mdtensor.api.tuning.online import background_workshop, online_mode
Account.left = property(lambda _: 1e9)
background_workshop._MOST = 1
a, b = np.ones((150, 130), "f4"), np.ones((130, 110), "f4")

def calls(count):
    for _ in range(count):
        assert (mdt.einsum("ij,jk->ik", a, b) == 130).all()

with mdt.tuning("online"):
    while not any(search.trials > 2 for search in online_mode._searches.values()):
        calls(100)  # until the space is searched
    children = []
    for _ in range(3):
        if not (child := os.fork()):
            calls(100)
            os._exit(7)
        children.append(child)
        calls(100)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert statuses == [7] * 3, statuses
    raise SystemExit(3)
"""


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_forks_and_ends_of_processes_wait_for_nothing(tmp_path: Any) -> None:
    folder = {"MDTENSOR_CACHE_DIR": str(tmp_path)}
    assert children.run("-W", "ignore", "-c", PROGRAM, env=folder, code=3).err == ""
