"""Tuning: winners are found, kept and used; bad candidates are recorded and survived."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.tuning import schedule_search
from mdtensor.api.tuning.bench_worker import Benches
from mdtensor.api.tuning.favourites import favourites
from mdtensor.api.tuning.search_options import SearchOptions
from mdtensor.autotune.deadline import Deadline
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.trial import Trial
from mdtensor.autotune.worker.pickling import packed
from mdtensor.errors import TuningError
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.tuner import evaluations
from tests.api.stand_in_bench import Bench, Clock
from tests.api.survival import kills
from tests.problems import einsum_problem
from tests.targets import CPU

pytestmark = pytest.mark.process


def plan_of(m: int, k: int, n: int) -> mdt.Plan:
    return mdt.compile("ij,jk->ik", mdt.spec((m, k)), mdt.spec((k, n)))


def arrays(m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((m, k), np.float32), rng.random((k, n), np.float32)


@pytest.mark.process
def test_a_tuned_plan_is_right_and_says_so(own_store: Store) -> None:
    """The one search whose candidates other processes compile and run."""
    plan, (a, b) = plan_of(37, 29, 41), arrays(37, 29, 41)
    (report,) = plan.tune("1h", quiet=True, abort=evaluations(4))
    assert 0 < report.trials <= 4
    assert report.failed == 0
    assert not report.cached
    (choice,) = plan.choices()
    assert choice.origin == "tuned"
    np.testing.assert_allclose(plan(a, b), a @ b, rtol=1e-5)
    assert "schedule (from the store: tuned)" in plan.explain()


def test_every_trial_has_a_row_and_no_schedule_is_measured_twice(
    own_store: Store, bench: Bench
) -> None:
    plan = plan_of(33, 17, 50)
    (report,) = plan.tune(10, quiet=True)
    engine = registry.engine_for()
    rows = own_store.trials(problem_key(plan.choices()[0].problem), engine.environment)
    assert len(rows) == report.trials == len(bench.measured) > 7
    texts = [row.schedule for row in rows]
    assert all(Schedule.from_json(text).to_json() == text for text in texts)
    assert max(Counter(texts).values()) == 1
    key = problem_key(plan.choices()[0].problem)
    before = own_store.untuned(key, engine.environment)
    assert before is not None
    assert (before.schedule, before.seconds) == (texts[0], report.untuned)
    assert bench.measured[0] in bench.confirmed


def test_favourites_that_the_space_does_not_hold_are_measured_too(
    own_store: Store, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(31, 16, 16)
    engine, problem = registry.engine_for(), plan.choices()[0].problem
    odd = replace(plain(problem), registers=(9, 1, 1), inline=True)

    def first(candidates: object, ranking: object) -> list[Schedule]:
        return [plain(problem), odd]

    monkeypatch.setattr(schedule_search, "first_candidates", first)
    (report,) = plan.tune(4, quiet=True)
    rows = own_store.trials(problem_key(problem), engine.environment)
    assert [row.status for row in rows if row.schedule == odd.to_json()] == ["ok"]
    assert report.trials == sum(row.status != "rejected" for row in rows)


@pytest.mark.parametrize(("extent", "threads"), [(4096, 2), (64, 1)])
def test_where_memory_bounds_the_model_decides_between_times_that_are_near(
    extent: int, threads: int
) -> None:
    spec = TensorSpec.of((extent, 4096))
    problem = problem_from_md_hom(md_hom_from_einsum("ij->i", (spec,)))
    one = replace(plain(problem), lane=1, width=16, registers=(1, 64))
    two = replace(one, parts=(2, 1))
    untuned = replace(one, tiles=(8, 0))
    times = {untuned: 1.3e-3, one: 1.0e-3, two: 1.1e-3}
    schedule, seconds = confirmed(problem, times, untuned)
    assert (schedule.parts[0], seconds) == (threads, 1.1e-3 if threads == 2 else 1.0e-3)


@pytest.mark.parametrize("times", [(1.0e-3, 1.1e-3), (1.0e-3, 0.9e-3), (None, 1.1e-3)])
def test_no_winner_is_slower_than_what_is_taken_untuned(times: tuple[float | None, float]) -> None:
    problem = einsum_problem("ij->i", (4096, 4096))
    untuned = replace(plain(problem), lane=1, width=16, registers=(1, 64))
    expected = replace(untuned, parts=(2, 1))  # of which the cost model thinks more
    schedule, seconds = confirmed(
        problem, dict(zip((untuned, expected), times, strict=True)), untuned
    )
    assert schedule == (untuned if times == (1.0e-3, 1.1e-3) else expected)
    assert seconds in times


def test_a_search_begins_with_schedules_of_several_kinds() -> None:
    problem = einsum_problem("ij->i", (64, 64))
    cached = [replace(plain(problem), lane=1, width=16, registers=(1, 16 * n)) for n in (1, 2, 3)]
    past = replace(cached[0], streaming=True)
    hopeless = replace(cached[0], lane=0, registers=(16, 1))
    ranking = [*zip((1.0, 1.1, 1.2), cached, strict=True), (1.9, past), (2.1, hopeless)]
    assert favourites(ranking, 4) == [cached[0], past, cached[1], cached[2]]
    assert favourites(ranking, 2) == cached[:2]
    assert favourites(ranking, 9) == [
        *(cached[0], past),
        *(cached[1], cached[2], hopeless),
    ]


def test_two_configurations_of_one_schedule_are_measured_once(
    own_store: Store, bench: Bench
) -> None:
    (choice,) = plan_of(24, 16, 40).choices()
    candidates = schedule_search.Candidates(
        registry.engine_for(), choice.problem, bench, SearchOptions()
    )
    schedule = plain(choice.problem)
    assert candidates.measure_schedule(schedule) == candidates.measure_schedule(replace(schedule))
    assert bench.measured == [schedule]


@pytest.mark.parametrize(
    ("kind", "best", "budget", "seconds"),
    [
        ("cpu", 1e-3, 10, 1.2),
        ("cpu", 1e-3, 100, 1.5),
        ("cpu", 0.1, 100, 5.0),
        ("cpu", None, 100, 12.0),
        ("gpu", 1e-3, 100, 12.0),
    ],
)
def test_no_more_of_a_budget_is_kept_for_confirming_than_it_takes(
    kind: str, best: float | None, budget: float, seconds: float
) -> None:
    engine = SimpleNamespace(target=SimpleNamespace(kind=kind))
    of_best = SimpleNamespace(seconds=best)
    candidates: Any = SimpleNamespace(engine=engine, best=of_best, trial_seconds=0.25)
    kept = schedule_search._kept_for_confirming(candidates, budget)
    assert kept == pytest.approx(seconds + 0.25)


def confirmed(
    problem: Problem, times: dict[Schedule, float | None], untuned: Schedule
) -> tuple[Schedule, float]:
    """What a search keeps when its best few take these times by turns."""

    def by_turns(schedules: Sequence[Schedule]) -> list[list[float] | None]:
        seconds = [times[each] for each in schedules]
        return [None if each is None else [each] * 4 for each in seconds]

    measurer = SimpleNamespace(by_turns=by_turns, deadline=Deadline(60, Clock()))
    engine = SimpleNamespace(target=CPU)
    candidates: Any = SimpleNamespace(problem=problem, engine=engine, measurer=measurer)
    schedule, taken = schedule_search._confirmed(candidates, list(times), [untuned])
    return schedule, taken[schedule][0]


def test_what_was_measured_is_confirmed_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = registry.engine_for()
    (choice,) = plan_of(24, 16, 32).choices()
    measured = plain(choice.problem)
    other = replace(measured, registers=(2, 1, 1))
    compiled: list[Schedule] = []
    specialised = engine.specialised

    def counted(problem: Problem, schedule: Schedule, *rest: object) -> object:
        compiled.append(schedule)
        return specialised(problem, schedule, *rest)

    monkeypatch.setattr(engine, "specialised", counted)
    benches, request = Benches(engine), {"problem": packed(choice.problem)}
    assert benches.handle({**request, "schedule": measured.to_json()})["status"] == "ok"
    candidates = [{"schedule": schedule.to_json()} for schedule in (measured, other)]
    reply = benches.handle({**request, "confirm": candidates})
    assert compiled == [measured, other]
    assert all(min(times) > 0 for times in reply["seconds"])


def test_tuning_again_makes_no_trial(own_store: Store, bench: Bench) -> None:
    plan_of(31, 16, 16).tune(4, quiet=True)
    (report,) = plan_of(31, 16, 16).tune(4, quiet=True)
    assert report.cached
    assert report.trials == 0
    assert "0 trials" in str(report)


BAD = [
    Trial("wrong", detail="error 3"),
    Trial("crashed", detail="SIGSEGV"),
    Trial("timeout"),
    Trial("compile_error"),
]


def test_bad_candidates_are_recorded_and_tuning_goes_on(own_store: Store, bench: Bench) -> None:
    plan, (a, b) = plan_of(24, 24, 48), arrays(24, 24, 48)
    turns, outcomes = cycle([*BAD, 1e-6]), dict[Schedule, float | Trial]()
    bench.outcome = lambda schedule: outcomes.setdefault(schedule, next(turns))
    (report,) = plan.tune("1h", quiet=True, abort=evaluations(10))
    engine = registry.engine_for()
    rows = own_store.trials(problem_key(plan.choices()[0].problem), engine.environment)
    found = [(row.status, row.detail) for row in rows]
    bad = [(trial.status, trial.detail) for trial in BAD]
    assert found[:5] == [*bad, ("ok", "")]
    assert report.failed == sum(status != "ok" for status, _ in found)
    winner = own_store.winner(problem_key(plan.choices()[0].problem), engine.environment)
    assert winner is not None
    assert winner.schedule in {row.schedule for row in rows if row.status == "ok"}
    np.testing.assert_allclose(plan(a, b), a @ b, rtol=1e-5)


def test_recorded_shapes_are_tuned_within_one_budget(own_store: Store, bench: Bench) -> None:
    a, b = arrays(20, 30, 40)
    with mdt.tuning("record") as seen:
        mdt.einsum("ij,jk->ik", a, b)
        mdt.einsum("ij,jk->ik", a, b)
        mdt.einsum("ij->j", a)
    assert len(seen) == 2
    assert [seen.calls(item) for item in seen] == [2, 1]
    reports = mdt.tune(seen, budget="40s", quiet=True, abort=evaluations(2))
    (_, first), (_, second) = bench.begun
    assert 20 < first < 40, "it takes longer"
    assert reports[0].elapsed < 5
    assert second == 40, "what the first one left"
    assert [report.calls for report in reports] == [2, 1]
    np.testing.assert_allclose(mdt.einsum("ij,jk->ik", a, b), a @ b, rtol=1e-5)
    assert all(report.cached for report in mdt.tune(seen, budget=4, quiet=True))


def test_a_budget_is_kept_where_it_is_too_short_for_all(own_store: Store, bench: Bench) -> None:
    with mdt.tuning("record") as seen:
        for n in range(20, 32):
            mdt.einsum("ij,jk->ik", np.ones((n, n), "f4"), np.ones((n, n), "f4"))
        heavy = mdt.einsum("ij,jk->ik", np.ones((500, 400), "f4"), np.ones((400, 300), "f4"))
    assert heavy[0, 0] == 400
    reports = mdt.tune(seen, budget=5, quiet=True)
    assert bench.clock.now <= 5 + 2 + bench.trial_s
    assert len(reports) == 13
    problems = [registry.engine_for().problem_of(item.md_hom) for item in seen]
    begun = [problems.index(problem) for problem, _ in bench.begun]
    assert begun == list(range(12, 12 - len(begun), -1)), "what takes longest comes first"
    assert [bool(report.trials) for report in reports] == [n in begun for n in range(13)]
    assert 1 < len(begun) < 13
    assert str(reports[0]).endswith("cc)): not tuned, the budget had no time for it")
    assert f", {13 - len(begun)} not tuned: " in reports.summary()


@pytest.mark.parametrize("budget", [0.5, 4, 20])
@pytest.mark.parametrize("run", [1e-3, 0.6, 3.0])
def test_a_budget_is_kept_however_long_a_single_run_is(
    budget: float, run: float, own_store: Store, bench: Bench
) -> None:
    bench.outcome, bench.trial_s = lambda schedule: run, 0.1 + 3 * run
    (report,) = plan_of(16, 17, 18).tune(budget, quiet=True)
    assert report.trials
    assert report.elapsed == bench.clock.now <= budget + 2 + bench.trial_s


def test_of_long_runs_few_take_turns(own_store: Store, bench: Bench) -> None:
    counts: list[int] = []
    for n, run in enumerate((1e-3, 0.6)):
        bench.outcome = lambda schedule, run=run: run
        bench.confirmed.clear()
        plan_of(16, 17, 18 + n).tune(20, quiet=True)
        counts.append(len(set(bench.confirmed)))
    assert 1 < counts[1] < counts[0]


def test_a_reference_that_takes_longer_than_the_budget(own_store: Store, bench: Bench) -> None:
    bench.opens_s = 60
    (report,) = plan_of(24, 24, 40).tune(1, quiet=True)
    assert bench.clock.now <= 1 + 2
    assert (report.trials, report.seconds, report.interrupted) == (0, None, False)


@pytest.mark.parametrize("trials", [0, 2])
def test_ctrl_c_ends_all_searches_and_keeps_what_was_measured(
    trials: int, own_store: Store, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> float:
        if len(bench.measured) <= trials > 0:
            return 1e-6
        raise KeyboardInterrupt

    bench.outcome = interrupted
    if not trials:
        monkeypatch.setattr(bench, "opened", interrupted)
    with mdt.tuning("record") as seen:
        mdt.einsum("ij,jk->ik", *arrays(19, 21, 23))
        mdt.einsum("ij->j", np.ones((4, 5), "f4"))
    first, second = mdt.tune(seen, "1h", quiet=True)
    assert (first.interrupted, first.trials, first.seconds) == (True, trials, None)
    assert (second.interrupted, second.trials) == (False, 0)
    engine = registry.engine_for()
    key = problem_key(engine.problem_of(next(iter(seen)).md_hom))
    assert len(own_store.trials(key, engine.environment)) == trials


@pytest.mark.parametrize(("share", "is_made"), [(0.0, False), (1.0, True)])
def test_a_space_that_takes_too_long_to_make_is_not_searched(
    share: float, is_made: bool, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (choice,) = plan_of(24, 24, 40).choices()
    bench.deadline = Deadline(600, bench.clock)
    candidates = schedule_search.Candidates(
        registry.engine_for(), choice.problem, bench, SearchOptions()
    )
    monkeypatch.setattr(schedule_search, "_MAKING_SHARE", share)
    candidates.make_space()
    assert (candidates.space is not None) is is_made


def test_no_more_candidates_are_ranked_than_there_is_time_for() -> None:
    problem = einsum_problem("ij->i", (64, 64))
    asked = iter(range(100))
    assert len(ranked(problem, CPU, enough=lambda: next(asked) == 3)) == 3


def test_what_is_untuned_is_told_beside_the_winner(own_store: Store, bench: Bench) -> None:
    (report,) = plan_of(60, 50, 40).tune(5, quiet=True)
    assert report.seconds is not None
    assert report.untuned is not None
    assert report.gain == report.untuned / report.seconds >= 1
    assert f"{report.gain:.2f}x as fast as untuned" in str(report)


def test_a_winner_that_was_compared_with_nothing_is_not_confirmed(
    own_store: Store, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_search, "first_candidates", lambda *_: [])
    monkeypatch.setattr(schedule_search, "_WORTH_SPACE", 1e9)
    plan = plan_of(25, 26, 27)
    assert [report.trials for report in plan.tune(4, quiet=True)] == [1]
    assert [report.cached for report in plan.tune(4, quiet=True)] == [False]


def test_layers_that_differ_in_a_function_or_a_type_do_not_read_alike() -> None:
    a, b = np.ones((4, 5), "f4"), np.ones((5, 6), "f4")
    with mdt.tuning("record") as seen:
        mdt.einsum("ij,jk->ik", a, b)
        mdt.einsum("ij,jk->ik", a, b, epilogue="relu")
        mdt.einsum("ij,jk->ik", a, b, epilogue=lambda x: x * 2)
        mdt.einsum("ij,jk->ik", a, b, epilogue=lambda x: x * 3)
        mdt.einsum("ij->i", a)
        mdt.einsum("ij->i", a.astype("f8"))
    form = "md_hom[i:4, j:5, k:6](mul, (cc, pw(add), cc)"
    types = "float32[4, 5], float32[5, 6], float32[4, 6]"
    assert repr(seen).splitlines() == [
        "6 computations recorded",
        f"       1 x {form})",
        f"       1 x {form}, epilogue relu)",
        f"       1 x {form}, epilogue epilogue) with (p0 * p1); (p0 * 2) on {types}",
        f"       1 x {form}, epilogue epilogue) with (p0 * p1); (p0 * 3) on {types}",
        "       1 x md_hom[i:4, j:5](id, (cc, pw(add))) with p0 on float32[4, 5], float32[4]",
        "       1 x md_hom[i:4, j:5](id, (cc, pw(add))) with p0 on float64[4, 5], float64[4]",
    ]
    assert len({item.label for item in seen}) == 6


def test_mode_tune_tunes_at_the_first_call(own_store: Store, bench: Bench) -> None:
    a, b = arrays(18, 22, 26)
    with mdt.tuning("tune", budget=4):
        np.testing.assert_allclose(mdt.einsum("ij,jk->ik", a, b), a @ b, rtol=1e-5)
    assert plan_of(18, 22, 26).choices()[0].origin == "tuned"
    with mdt.tuning("off"):
        assert plan_of(18, 22, 26).choices()[0].origin != "tuned"


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(TuningError, match="unknown tuning mode 'fast'"), mdt.tuning("fast"):
        pass


@pytest.mark.parametrize("budget", ["soon", "-5", "5 days", -1, -0.5, float("nan"), None, [3]])
def test_budgets_that_are_no_time_are_refused(own_store: Store, budget: object) -> None:
    plan = plan_of(12, 13, 14)
    hint = "seconds, or a text such as '30s', '5min' or '1h'"
    words = re.escape(f"budget {budget!r} is no time\n  hint: {hint}")
    with pytest.raises(TuningError, match=f"^{words}$"):
        plan.tune(budget, quiet=True)
    with pytest.raises(TuningError, match=f"^{words}$"):
        mdt.tune([], budget)
    with pytest.raises(TuningError, match=f"^{words}$"), mdt.tuning("tune", budget=budget):
        pass
    problem = problem_from_md_hom(plan.md_homs[0])
    assert own_store.trials(problem_key(problem), registry.engine_for().environment) == []


def test_what_was_not_recorded_is_refused() -> None:
    plan = plan_of(12, 13, 14)
    hint = (
        "  hint: what `with mdtensor.tuning('record') as seen:` gave; "
        "a plan is tuned by plan.tune()"
    )
    for work in (plan, [plan], (plan.md_homs[0], plan)):
        item = work[0] if isinstance(work, tuple) else plan
        with pytest.raises(TuningError) as refused:
            mdt.tune(work, 1)
        assert str(refused.value) == f"{item!r} is nothing that was recorded\n{hint}"
    with pytest.raises(TuningError, match=r"^'ij,jk->ik' is nothing that was recorded\n"):
        mdt.tune("ij,jk->ik", 1)


@pytest.mark.campaign
def test_killed_runs_lose_no_trial(tmp_path: Path) -> None:
    """They are killed after random pauses."""
    assert list(kills.survived(2, 0, tmp_path)) == ["", ""]
