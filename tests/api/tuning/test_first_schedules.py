"""Where searches start: at the winners of near shapes, before what the cost model favours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.tuning.first_schedules import first_schedules, near_winners
from mdtensor.autotune.store.store import Store
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.tuner import evaluations
from tests.api.stand_in_bench import Bench


def problem_of(m: int, k: int, n: int) -> Problem:
    plan = mdt.compile("ij,jk->ik", mdt.spec((m, k)), mdt.spec((k, n)))
    return registry.engine_for().problem_of(plan.md_homs[0])


def odd_schedule(m: int, k: int, n: int, rows: int) -> Schedule:
    """A schedule in vectors that the cost model does not propose for its number of rows."""
    width = registry.engine_for().target.lanes(np.dtype(np.float32))
    lanes = {"lane": 2, "width": width, "registers": (rows, 1, width)}
    return replace(plain(problem_of(m, k, n)), inline=True, **lanes)


def keep(store: Store, m: int, k: int, n: int, rows: int) -> None:
    engine = registry.engine_for()
    text = odd_schedule(m, k, n, rows).to_json()
    store.set_winner(problem_key(problem_of(m, k, n)), engine.environment, text, seconds=1e-6)


def test_a_search_begins_with_winners_of_the_three_nearest_shapes(own_store: Store) -> None:
    for rows, shape in enumerate([(64, 48, 9), (34, 19, 51), (40, 20, 50), (33, 18, 50)], 3):
        keep(own_store, *shape, rows)
    engine, problem = registry.engine_for(), problem_of(33, 17, 50)
    found = near_winners(engine, problem)
    assert [schedule.registers[0] for schedule in found] == [6, 4, 5]
    first = first_schedules(engine, problem, [(1.0, plain(problem))])
    assert first == [*found, plain(problem)]


def test_schedules_that_fit_alike_are_one(own_store: Store) -> None:
    keep(own_store, 20, 17, 50, 7)
    keep(own_store, 21, 17, 50, 7)
    assert len(near_winners(registry.engine_for(), problem_of(22, 17, 50))) == 1


def test_a_tuned_plan_has_measured_its_neighbours_winner(own_store: Store, bench: Bench) -> None:
    keep(own_store, 40, 24, 56, 9)
    plan = mdt.compile("ij,jk->ik", mdt.spec((44, 24)), mdt.spec((24, 56)))
    neighbours = odd_schedule(44, 24, 56, 9)
    bench.outcome = lambda schedule: 1e-6 if schedule == neighbours else 2e-6
    plan.tune("1h", quiet=True, abort=evaluations(3))
    assert neighbours in bench.measured
    assert plan.choices()[0].schedule == neighbours
    rng = np.random.default_rng(0)
    a, b = rng.random((44, 24), np.float32), rng.random((24, 56), np.float32)
    np.testing.assert_allclose(plan(a, b), a.astype(float) @ b, rtol=1e-5)
