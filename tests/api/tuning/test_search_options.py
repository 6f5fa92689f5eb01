"""Searches as they are asked for: techniques, conditions, fixed values and objectives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.autotune.search.abort_conditions import evaluations
from mdtensor.autotune.store.store import Store
from mdtensor.errors import DTypeError, TuningError
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from tests.api.stand_in_bench import Bench

BUDGET = "1h"  # which conditions end long before


def plan_of(m: int = 60, k: int = 70, n: int = 96) -> mdt.Plan:
    return mdt.compile("ij,jk->ik", mdt.spec((m, k)), mdt.spec((k, n)))


def schedules_in(store: Store, plan: mdt.Plan) -> list[Schedule]:
    engine = registry.engine_for()
    key = problem_key(engine.problem_of(plan.md_homs[0]))
    return [Schedule.from_json(row.schedule) for row in store.trials(key, engine.environment)]


def check(plan: mdt.Plan) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.random(spec.shape, np.float32) for spec in plan.specs)
    np.testing.assert_allclose(plan(a, b), a.astype("f8") @ b.astype("f8"), rtol=1e-5)


def test_a_condition_ends_a_search_by_any_technique_before_its_budget(
    own_store: Store, bench: Bench
) -> None:
    plan = plan_of()
    abort = evaluations(9)  # two beyond the first seven, which the cost model names
    (report,) = plan.tune(BUDGET, quiet=True, technique="particle_swarm", abort=abort)
    assert 7 < report.trials <= 9
    assert len(bench.measured) == report.trials
    assert len(report.front) == 1
    assert report.front[0].costs["time"] == report.seconds
    check(plan)


def test_what_an_expert_fixed_stays_as_it_is(own_store: Store, bench: Bench) -> None:
    plan = plan_of()
    fixed = {"tiles": {"i": 16}, "streaming": False, "lanes": "k"}
    (report,) = plan.tune(BUDGET, quiet=True, fixed=fixed, abort=evaluations(5))
    _, *searched = schedules_in(own_store, plan)  # the first is what runs untuned
    assert searched
    assert {(each.tiles[0], each.streaming, each.lane) for each in searched} == {(16, False, 2)}
    assert "tiles i:16" in report.front[0].schedule
    assert report.gain is not None
    assert report.gain >= 1
    check(plan)


def test_a_winner_is_not_replaced_by_a_slower_schedule_with_fixed_values(
    own_store: Store, bench: Bench
) -> None:
    bench.outcome = lambda schedule: 2e-6 if schedule.width == 4 else 1e-6
    plan = plan_of(200, 300, 256)
    plan.tune(BUDGET, quiet=True, abort=evaluations(4))
    narrow = {"width": 4, "registers": {"i": 1, "j": 1, "k": 4}}
    (report,) = plan.tune(BUDGET, quiet=True, fixed=narrow, abort=evaluations(4))
    (after,) = plan.choices()
    assert report.seconds == 1e-6
    assert report.front[0].costs["time"] == 2e-6
    assert after.schedule.width != 4
    check(plan)


def test_objectives_have_a_front_and_the_first_one_decides(own_store: Store, bench: Bench) -> None:
    plan = plan_of(200, 300, 256)
    names = ("scratch", "time", "compile_time")
    (report,) = plan.tune(BUDGET, quiet=True, objective=names, abort=evaluations(6))
    costs = [tuple(each.costs[name] for name in names) for each in report.front]
    assert costs == sorted(costs)
    assert all(min(one) >= 0 for one in costs)
    for one in costs:
        assert not any(
            other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in costs
        )
    (choice,) = plan.choices()
    assert choice.schedule.describe(choice.problem) == report.front[0].schedule
    assert str(report).count("compile_time") == (len(costs) if len(costs) > 1 else 0)
    check(plan)


def test_energy_is_measured_where_the_machine_counts_it(
    own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mdtensor.api.tuning import bench_worker, search_options

    monkeypatch.setattr(
        search_options, "EnergyCounter", type("None", (), {"found": staticmethod(lambda: None)})
    )
    with pytest.raises(TuningError, match="the energy that this machine takes cannot be read"):
        plan_of().tune("1h", quiet=True, objective="energy")

    class Counter:
        runs = 0

        @staticmethod
        def found() -> Any:
            return Counter()

        def read(self) -> tuple[int, ...]:
            return (Counter.runs,)

        def joules_since(self, before: tuple[int, ...]) -> float:
            return 2.0 * (Counter.runs - before[0])

    def run() -> None:
        Counter.runs += 1

    monkeypatch.setattr(bench_worker, "EnergyCounter", Counter)
    assert vars(bench_worker)["_energy"](run) == 2.0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"technique": "luck"},
            "unknown search technique 'luck'\n  hint: one of exhaustive",
        ),
        ({"abort": 3}, "3 is no condition to end a search"),
        ({"objective": "beauty"}, "unknown objective 'beauty'\n  hint: one of time, compile_time"),
        ({"objective": 3}, "unknown objective 3"),
        ({"objective": [[1]]}, r"unknown objective \[1\]"),
        ({"objective": ()}, r"objectives are one or several different ones, not \(\)"),
        ({"objective": ("time", "time")}, "objectives are one or several different ones"),
        ({"fixed": 3}, "fixed values are a dict by the names of a schedule, not 3"),
        (
            {"fixed": {"tiles": {"i": 17}}},
            "no schedule has tiles i:17\n  hint: values there are: 0",
        ),
        ({"fixed": {"lanes": "none"}}, "no schedule has lane none\n  hint: values there are: k, j"),
        (
            {"fixed": {"lanes": "j", "streaming": True}},
            "no schedule has all of lane j, streaming True",
        ),
    ],
)
def test_what_searches_do_not_have_is_named_before_anything_is_measured(
    options: dict[str, Any], text: str
) -> None:
    with pytest.raises(TuningError, match=text):
        plan_of().tune("1h", quiet=True, **options)


@pytest.mark.parametrize("options", [{"again": np.ones(2)}, {"quiet": np.ones(2)}])
def test_a_flag_is_true_or_false(options: dict[str, Any]) -> None:
    with pytest.raises(DTypeError, match="is an array"):
        plan_of().tune(0, **options)


def test_an_array_without_axes_is_nothing_that_was_recorded() -> None:
    with pytest.raises(TuningError, match="is nothing that was recorded"):
        mdt.tune(np.array(1.0))  # type: ignore[arg-type]
