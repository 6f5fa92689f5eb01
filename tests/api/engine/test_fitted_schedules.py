"""Schedules of other shapes, fitted, compute what the reference of a problem says."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.tuning.harness import TrialBuffers
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.rules.valid import is_valid
from mdtensor.lower.search.adapted_schedule import adapted
from tests.lower.random_schedules import random_schedule

Shape = Callable[[random.Random], mdt.Plan]


def product(rng: random.Random) -> mdt.Plan:
    m, k, n = (rng.randint(2, 40) for _ in range(3))
    return mdt.compile("ij,jk->ik", mdt.spec((m, k)), mdt.spec((k, n)))


def convolution(rng: random.Random) -> mdt.Plan:
    h, c, k = rng.randint(3, 20), rng.randint(2, 12), rng.randint(2, 20)
    image, taps = mdt.spec((1, h + 2, h + 2, c)), mdt.spec((k, 3, 3, c))
    return mdt.compile("n h+r w+s c, k r s c -> n h w k", image, taps)


def stencil(rng: random.Random) -> mdt.Plan:
    @mdt.stencil
    def mean(u: Any) -> Any:
        return 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])

    return mdt.compile(mean, mdt.spec((rng.randint(4, 40), rng.randint(4, 90))))


def scan(rng: random.Random) -> mdt.Plan:
    spec = mdt.spec((rng.randint(2, 9), rng.randint(2, 300)))
    return mdt.compile(mdt.scan, "ij->ij", spec, combine={"j": "add"})


def transposed(rng: random.Random) -> mdt.Plan:
    return mdt.compile("ij->ji", mdt.spec((rng.randint(2, 40), rng.randint(2, 90))))


@pytest.mark.parametrize("shape", [product, convolution, stencil, scan, transposed])
def test_fitted_schedules_compute_right(shape: Shape) -> None:
    engine, rng, checked = registry.engine_for(), random.Random(0), 0

    def drawn() -> Problem:
        return engine.problem_of(shape(rng).md_homs[0])

    for _ in range(60):
        before, problem = drawn(), drawn()
        schedule = random_schedule(rng, before, "cpu")
        if generalised(before)[0] != generalised(problem)[0] or not is_valid(before, schedule):
            continue
        extents = [before.extent(d) for d in before.dims]
        if (fitted := adapted(problem, schedule, extents, engine.target)) is None:
            continue
        arena = TrialBuffers(problem)
        arena.poison()
        arena.run_of(engine.specialised(problem, fitted, "fitted", 0.0).program)()
        assert not arena.wrong(), fitted
        checked += 1
        if checked == 5:
            return
    assert checked > 0
