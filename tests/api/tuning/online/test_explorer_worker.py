"""The process that explores a space: what it hands to calls, and what it keeps from them."""

from __future__ import annotations

import itertools
import math
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.tuning.harness import TrialBuffers
from mdtensor.api.tuning.online import explorer_worker
from mdtensor.api.tuning.online.explorer_worker import explore, open_explorer
from mdtensor.autotune.worker.pickling import packed, unpacked
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule

A, B = np.random.default_rng(0).random((2, 48, 48), np.float32)


@pytest.fixture(autouse=True)
def shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches end soon, and this process does not."""
    monkeypatch.setattr(explorer_worker, "_end", lambda: None)
    monkeypatch.setattr(explorer_worker, "_WITHOUT_GAIN", 6)
    monkeypatch.setattr(explorer_worker, "make_room_for_others", lambda: None)
    stands = SimpleNamespace(process_time=lambda: 0.0, perf_counter=itertools.count().__next__)
    monkeypatch.setattr(explorer_worker, "time", stands)


def problem() -> Problem:
    (md_hom,) = mdt.compile("ij,jk->ik", A, B).md_homs
    return registry.engine_for().problem_of(md_hom)


def explored(known: dict[Schedule, float | None], seconds: float | None) -> list[Schedule]:
    """The schedules that calls were handed, where each takes so many seconds."""
    handed: list[Schedule] = []

    def tried(candidate: dict[str, Any]) -> float | None:
        handed.append(Schedule.from_json(candidate["schedule"]))
        assert candidate["expected"] >= 1.0
        return seconds

    explore(registry.engine_for(), problem(), known, tried)
    return handed


def test_each_candidate_is_another_one_and_was_not_tried_before() -> None:
    handed = explored({plain(problem()): 1.0}, 1.0)
    assert len(handed) >= 5
    assert len(set(handed)) == len(handed)
    assert plain(problem()) not in handed
    again = explored(dict.fromkeys(handed[:3], 1.0), 1.0)
    assert not set(again) & set(handed[:3])


def test_the_search_ends_where_nothing_is_better_for_a_while() -> None:
    assert 5 <= len(explored({plain(problem()): 1.0}, 1.0)) <= 7
    assert len(explored({plain(problem()): 1.0}, None)) <= 7


def test_what_is_wrong_or_far_too_slow_is_kept_from_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explorer_worker, "_FIRST_RUN", -1.0)
    assert not explored({plain(problem()): 1e-9}, 1.0)
    monkeypatch.setattr(explorer_worker, "_FIRST_RUN", math.inf)
    monkeypatch.setattr(TrialBuffers, "wrong", lambda _: "wrong")
    assert not explored({plain(problem()): 1.0}, 1.0)


def test_requests_are_answered_one_by_one() -> None:
    handle = open_explorer({"device": None})
    text = plain(problem()).to_json()
    reply = handle({"problem": packed(problem()), "known": [[text, 1.0]]})
    engine, seen = registry.engine_for(), 0
    while "schedule" in reply:
        seen += 1
        engine.device.load(unpacked(reply["compiled"]))(A, B, out := np.empty_like(A))
        np.testing.assert_allclose(out, A.astype("f8") @ B, rtol=1e-5)
        reply = handle({"seconds": 1.0})
    assert seen >= 5
    assert reply["over"]


def test_what_another_process_began_is_over() -> None:
    assert open_explorer({"device": None})({"seconds": 1.0})["over"]


def test_a_process_that_nobody_asks_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(explorer_worker, "_end", ended.set)
    monkeypatch.setattr(explorer_worker, "_IDLE_S", 0.01)
    open_explorer({"device": None})({"seconds": 1.0})
    assert ended.wait(60)


def test_an_error_ends_a_search(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError("of the explorer")

    monkeypatch.setattr(explorer_worker, "searched_space", fails)
    handle = open_explorer({"device": None})
    assert handle({"problem": packed(problem()), "known": []})["over"]
    assert "of the explorer" in capsys.readouterr().err
