"""Candidates that worker processes compile by LLVM, check and time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from mdtensor.api.engine.engine import Engine
from mdtensor.api.tuning import measurer as measurers
from mdtensor.api.tuning.measurer import Measurer
from mdtensor.autotune.store.store import Store
from mdtensor.backends.llvm.llvm_device import open_device
from mdtensor.backends.select import open_compiler
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.search.candidates import ranked
from tests.problems import einsum_problem


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(open_device(), Store.in_memory)


@pytest.fixture
def problem() -> Problem:
    return einsum_problem("ij,jk->ik", (64, 64), (64, 64))


@pytest.fixture
def measurer(
    engine: Engine, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Measurer]:
    monkeypatch.setattr(measurers, "core_count", lambda: 2)
    with Measurer(engine, "llvm") as made:
        made.begin(problem)
        yield made


@pytest.mark.process
def test_candidates_are_compiled_apart_and_timed(measurer: Measurer, problem: Problem) -> None:
    best = [schedule for _, schedule in ranked(problem, open_device().target)[:4]]
    assert measurer.ahead  # since processes compile
    for schedule in best:
        measurer.prepare(schedule)
    trials = [measurer.trial(schedule, None) for schedule in best]
    assert [trial.status for trial in trials] == ["ok"] * 4, trials
    assert all(times is not None and min(times) > 0 for times in measurer.by_turns(best))


def test_what_another_process_compiles_is_loaded_and_right(
    engine: Engine, problem: Problem
) -> None:
    source = engine.source(problem, plain(problem))
    device = open_device()
    assert device.compiler is not None
    program = device.load(open_compiler(device.compiler).compiled(source))
    a, b = np.random.default_rng(0).random((2, 64, 64), np.float32)
    program(a, b, out := np.empty((64, 64), np.float32))
    np.testing.assert_allclose(out, a.astype("f8") @ b, rtol=1e-5)
