"""The workshop in the background of an engine: what it proposes, compiles, and foretells."""

from __future__ import annotations

from collections.abc import Callable
from queue import Queue
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.tuning.online import background_workshop
from mdtensor.api.tuning.online.background_workshop import BackgroundWorkshop, Costs
from mdtensor.api.tuning.online.call_trial import Candidate
from mdtensor.api.tuning.online.space_explorer import SpaceExplorer
from mdtensor.api.tuning.online.time_account import Done
from mdtensor.errors import CompileError
from mdtensor.lower.schedule.default_schedule import plain

A, B = np.random.default_rng(0).random((2, 50, 50), np.float32)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost model has as much time as it takes."""
    monkeypatch.setitem(background_workshop._USUAL, "propose", 1e9)


def workshop(costs: Costs | None = None) -> BackgroundWorkshop:
    engine = registry.engine_for()
    (md_hom,) = mdt.compile("ij,jk->ik", A, B).md_homs
    explorer = SpaceExplorer(engine, None)
    return BackgroundWorkshop(engine, engine.problem_of(md_hom), costs or Costs(), explorer)


def done(ask: Callable[..., None], *given: Any) -> Done:
    told: Queue[Done] = Queue()
    ask(*given, told.put)
    registry.engine_for().settle()
    return told.get_nowait()


def test_the_best_are_proposed_without_the_trusted_schedule() -> None:
    shop = workshop()
    problem = shop._problem
    proposals = done(shop.propose, plain(problem)).result
    assert 1 < len(proposals) <= background_workshop._MOST
    assert all(1.0 <= expected <= 3.0 for expected, _ in proposals)
    schedules = [schedule for _, schedule in proposals]
    assert len(set(schedules)) == len(schedules)
    others = done(shop.propose, schedules[0]).result
    assert schedules[0] not in [schedule for _, schedule in others]


def test_a_ranking_that_takes_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(background_workshop._USUAL, "propose", -1.0)
    costs = Costs()
    assert done(workshop(costs).propose, plain(workshop()._problem)).result is None
    assert costs.usual("propose") > 0


@pytest.mark.process
def test_seconds_are_those_of_both_processes() -> None:
    shop = workshop()
    (expected, schedule), *_ = done(shop.propose, plain(shop._problem)).result
    registry.engine_for().tiers.apart.rest()
    made = done(shop.compile, expected, schedule)
    assert isinstance(made.result, Candidate)
    assert made.seconds > 0
    assert made.result.schedule == schedule
    made.result.program(A, B, out := np.empty_like(A))
    np.testing.assert_allclose(out, A.astype("f8") @ B, rtol=1e-5)


def test_what_cannot_be_compiled_is_no_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise CompileError("no")

    shop = workshop()
    monkeypatch.setattr(registry.engine_for().tiers.apart, "compile", refused)
    assert done(shop.compile, 1.0, plain(shop._problem)).result is None


def test_what_took_long_is_foretold_for_a_while() -> None:
    costs = Costs()
    usual = costs.usual("compile")
    costs.took("compile", 4.0)
    assert costs.usual("compile") == 5.0
    costs.took("compile", 0.1)
    assert costs.usual("compile") == 4.0
    for _ in range(50):
        costs.took("compile", 0.001)
    assert costs.usual("compile") == usual
    assert costs.usual("propose") == Costs().usual("propose")
