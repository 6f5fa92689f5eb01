"""Explorers: one owner at a time, and a process whose end costs a search and nothing else."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from queue import Queue
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import compiler_process, registry
from mdtensor.api.tuning.online import explorer_worker, space_explorer
from mdtensor.api.tuning.online.space_explorer import SpaceExplorer
from mdtensor.api.tuning.online.time_account import Done
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import plain

pytestmark = pytest.mark.process

A, B = np.random.default_rng(0).random((2, 48, 48), np.float32)
_LONGEST_S = 120


def problem() -> Problem:
    (md_hom,) = mdt.compile("ij,jk->ik", A, B).md_homs
    return registry.engine_for().problem_of(md_hom)


def explorer() -> SpaceExplorer:
    return SpaceExplorer(registry.engine_for(), None)


def done(ask: Callable[..., None], *given: Any) -> Done:
    told: Queue[Done] = Queue()
    ask(*given, told.put)
    return told.get(timeout=_LONGEST_S)


def begun(found: SpaceExplorer, owner: object) -> Done:
    assert found.may_begin(owner)
    return done(found.begin, owner, problem(), [(plain(problem()), 1.0)])


def open_patient(payload: Any) -> Callable[[Any], Any]:
    """An explorer that has as much time to plan as it takes."""
    explorer_worker._PLANNING = 1e9
    return explorer_worker.open_explorer(payload)


def open_crashing(_: Any) -> Callable[[Any], Any]:
    """An explorer that takes its process with it."""
    return lambda _: os.kill(os.getpid(), signal.SIGSEGV)


def open_hanging(_: Any) -> Callable[[Any], Any]:
    """An explorer that never answers."""
    return lambda _: time.sleep(600)


def test_candidates_compute_what_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_explorer, "EXPLORER", f"{__name__}:open_patient")
    found, owner = explorer(), object()
    one = begun(found, owner)
    other = done(found.next, owner, 1.0)
    for each in (one, other):
        each.result.program(A, B, out := np.empty_like(A))
        np.testing.assert_allclose(out, A.astype("f8") @ B, rtol=1e-5)
        assert each.seconds > 0
    assert one.result.schedule != other.result.schedule
    found.release(owner)


@pytest.mark.parametrize("target", ["open_crashing", "open_hanging"])
def test_the_end_of_its_process_ends_a_search(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_explorer, "EXPLORER", f"{__name__}:{target}")
    monkeypatch.setattr(space_explorer, "_CANDIDATE_S", 1.0)
    assert begun(explorer(), object()).result is None


def test_one_computation_is_explored_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_explorer, "_IDLE_S", math.inf)
    found, one, other = explorer(), object(), object()
    assert found.may_begin(one)
    assert not found.may_begin(other)
    assert found.may_begin(one)
    found.release(other)
    assert not found.may_begin(other)
    found.release(one)
    assert found.may_begin(other)
    monkeypatch.setattr(space_explorer, "_IDLE_S", 0.0)  # its calls have ended, as it seems
    assert found.may_begin(one)
    assert done(found.next, other, 1.0).result is None


def test_where_no_process_can_be_begun_nothing_is_explored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert explorer().is_possible
    monkeypatch.setenv(compiler_process.VARIABLE, "0")
    assert not explorer().is_possible
    monkeypatch.undo()
    found = explorer()
    monkeypatch.setattr(found, "_process", -1)  # it was made before a fork
    assert not found.is_possible
