"""Calls of several programs: what is kept of tuning them is what makes the whole call fastest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.tuning_mode import RecordedCall
from mdtensor.api.engine.winner_index import WinnerIndex
from mdtensor.api.tuning import call_search, tune
from mdtensor.api.tuning.bench_worker import Benches
from mdtensor.autotune.deadline import Deadline
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.trial import Trial
from mdtensor.autotune.worker.pickling import packed
from mdtensor.autotune.worker.worker import WorkerError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.problem.problem_of_device import problem_of_device
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Step
from tests.api.stand_in_bench import Bench, Clock, some_microseconds
from tests.targets import CPU


def chain() -> tuple[Step, Step]:
    """Two products, the second of what the first one gives."""
    first, second = ((8, 12), (12, 16)), ((8, 16), (16, 20))
    specs = [tuple(map(TensorSpec.of, shapes)) for shapes in (first, second)]
    one, other = (md_hom_from_einsum("ij,jk->ik", pair) for pair in specs)
    return Step(one, (0, 1), (3,)), Step(other, (3, 2), (4,))


_TURNS = 8
ALONE, UNTUNED = 1, 2  # registers of the schedules that win alone, and of those taken untuned


def problem_of(md_hom: MDHom) -> Problem:
    return problem_of_device(md_hom, CPU)


def with_rows(problem: Problem, rows: int) -> Schedule:
    return replace(plain(problem), registers=(rows, 1, 1))


def searched(steps: Sequence[Step], rivals: Sequence[int] = ()) -> Engine:
    """An engine whose store knows winners, and rivals that took a little longer alone."""
    store = Store.in_memory()
    engine = SimpleNamespace(store=store, environment="here", target=CPU, problem_of=problem_of)
    engine.usual = lambda problem: SimpleNamespace(schedule=with_rows(problem, UNTUNED))
    engine.winner = partial(Engine.winner, engine)
    engine._seen_winners = WinnerIndex(lambda: engine.store, "here")
    for step in steps:
        problem = problem_of(step.md_hom)
        key = problem_key(problem)
        for rows, seconds in [(ALONE, 1e-6), (UNTUNED, 1.3e-6), *((r, 1.2e-6) for r in rivals)]:
            schedule = replace(with_rows(problem, rows), parts=(rows, 1, 1)).to_json()
            if rows in (ALONE, UNTUNED):
                schedule = with_rows(problem, rows).to_json()
            store.record_trial(key, "here", schedule, Trial("ok", seconds))
        winner = with_rows(problem, ALONE).to_json()
        store.set_winner(key, "here", winner, seconds=1e-6, trials=9, confirmed=True)
    return engine


def kept(engine: Engine, steps: Sequence[Step]) -> list[int]:
    """The rows of the winners' register tiles."""
    rows = [engine.store.winner(problem_key(problem_of(step.md_hom)), "here") for step in steps]
    return [Schedule.from_json(row.schedule).registers[0] for row in rows]


def measurer(seconds: Callable[[list[int]], float | None]) -> SimpleNamespace:
    """Times calls by the rows of their programs' register tiles; notes what was asked."""
    asked: list[list[int]] = []

    def calls_by_turns(
        steps: Sequence[Step], schedules: Sequence[Sequence[Schedule]]
    ) -> list[list[float] | None]:
        rows = [[schedule.registers[0] for schedule in each] for each in schedules]
        asked.extend(rows)
        times = map(seconds, rows)
        return [None if each is None else [each] * _TURNS for each in times]

    deadline = Deadline(math.inf, Clock())
    return SimpleNamespace(calls_by_turns=calls_by_turns, asked=asked, deadline=deadline)


def test_winners_that_are_slower_together_than_untuned_are_not_kept() -> None:
    steps = chain()
    engine = searched(steps)
    clock = measurer(
        lambda rows: {(ALONE, ALONE): 3.0, (UNTUNED, UNTUNED): 2.0}.get(tuple(rows), 4)
    )
    assert call_search.keep_what_is_fastest(engine, steps, 10, clock)
    assert kept(engine, steps) == [UNTUNED, UNTUNED]
    row = engine.store.winner(problem_key(problem_of(steps[0].md_hom)), "here")
    assert (row.seconds, row.trials, row.confirmed) == (1.3e-6, 9, True)


@pytest.mark.parametrize("others", [3.0, 3.01, None])
def test_winners_that_are_about_as_fast_stay(others: float | None) -> None:
    steps = chain()
    engine = searched(steps)
    clock = measurer(lambda rows: 3.0 if rows == [ALONE, ALONE] else others)
    assert not call_search.keep_what_is_fastest(engine, steps, 10, clock)
    assert kept(engine, steps) == [ALONE, ALONE]


def test_rivals_of_single_programs_are_kept_together_where_that_is_fastest() -> None:
    steps = chain()
    engine = searched(steps, rivals=[4])
    gains = {(ALONE, ALONE): 3.0, (4, ALONE): 2.8, (ALONE, 4): 2.7, (4, 4): 2.5}
    clock = measurer(lambda rows: gains.get(tuple(rows), 3.5))
    assert call_search.keep_what_is_fastest(engine, steps, 10, clock)
    assert kept(engine, steps) == [4, 4]
    assert clock.asked[0] == [ALONE, ALONE], "the winners take turns with all others"
    gains[4, 4] = 2.75
    engine = searched(steps, rivals=[4])
    assert call_search.keep_what_is_fastest(engine, steps, 10, clock)
    assert kept(engine, steps) == [ALONE, 4], "one rival alone was faster than both"


def test_a_short_budget_has_few_contenders() -> None:
    steps = chain()
    engine = searched(steps, rivals=[4, 5, 6])
    clock = measurer(lambda rows: 1.0)
    call_search.keep_what_is_fastest(engine, steps, 0.1, clock)
    assert sorted(clock.asked[:2]) == [[ALONE, ALONE], [UNTUNED, UNTUNED]]
    assert clock.asked[2:] == clock.asked[:2] * (len(clock.asked) // 2 - 1)
    clock.asked.clear()
    call_search.keep_what_is_fastest(engine, steps, 60, clock)
    assert len({tuple(each) for each in clock.asked}) == 2 + 2 * 4


def test_what_cannot_be_measured_changes_nothing() -> None:
    steps = chain()
    engine = searched(steps)

    def crashes(*_: object) -> list[float | None]:
        raise WorkerError("it crashed")

    clock = SimpleNamespace(calls_by_turns=crashes)
    assert not call_search.keep_what_is_fastest(engine, steps, 10, clock)
    assert kept(engine, steps) == [ALONE, ALONE]
    untouched = measurer(lambda rows: 1.0)
    engine.store = Store.in_memory()
    assert not call_search.keep_what_is_fastest(engine, steps, 10, untouched), "no winners"
    assert untouched.asked == []


def test_a_worker_runs_whole_calls() -> None:
    engine = registry.engine_for()
    steps = mdt.compile(mdt.conv, image(), taps(), padding=1).calls()[0]
    assert len(steps) > 1
    texts = [plain(problem_of(step.md_hom)).to_json() for step in steps]
    wrong = [replace(Schedule.from_json(text), tail="none").to_json() for text in texts]
    reply = Benches(engine).handle({"call": packed(steps), "schedules": [texts, wrong]})
    times, none = reply["seconds"]
    assert times
    assert all(0 < seconds < 1 for seconds in times)
    assert none is None, "a schedule that does not fit"


def image() -> np.ndarray:
    return np.random.default_rng(0).random((1, 20, 20, 3), np.float32)


def taps() -> np.ndarray:
    return np.random.default_rng(1).random((16, 3, 3, 3), np.float32)


def test_a_call_is_recorded_with_all_its_programs(own_store: Store, bench: Bench) -> None:
    with mdt.tuning("record") as seen:
        expected = mdt.conv(image(), taps(), padding=1)
    (steps,) = {steps for item in seen for steps in item.within}
    assert [step.md_hom for step in steps] == [item.md_hom for item in seen]
    plan = mdt.compile(mdt.conv, image(), taps(), padding=1)
    assert [item.within for item in plan.recorded()] == [(steps,)] * len(steps)
    engine = registry.engine_for()
    engine.settle(100)  # what runs untuned is the same from now on, and never the winner
    untuned = {engine.usual(engine.problem_of(step.md_hom)).schedule for step in steps}
    bench.outcome = lambda schedule: 3e-6 if schedule in untuned else some_microseconds(schedule)
    reports = mdt.tune(seen, budget=20, quiet=True)
    assert len(reports) == len(steps)
    assert all(report.trials for report in reports)
    assert set(bench.calls) == {len(steps)}
    assert bench.clock.now <= 20 + 2 + bench.trial_s
    np.testing.assert_allclose(mdt.conv(image(), taps(), padding=1), expected, rtol=1e-4)


def test_paths_of_contraction_are_calls_of_several_programs() -> None:
    operands = [np.ones((4, 300)), np.ones((300, 5)), np.ones((5, 300))]
    with mdt.tuning("record") as seen:
        mdt.einsum("ij,jk,kl->il", *operands, optimize=True)
    first, last = seen
    assert first.within == last.within
    ((one, other),) = first.within
    assert one.results[0] in other.operands
    with mdt.tuning("record") as single:
        mdt.einsum("ij,jk->ik", *operands[:2])
    assert [item.within for item in single] == [()]


def test_every_call_that_was_tuned_is_confirmed(
    own_store: Store, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed: list[tuple[int, float]] = []
    monkeypatch.setattr(
        tune,
        "keep_what_is_fastest",
        lambda engine, steps, budget, by: confirmed.append((len(steps), budget)),
    )
    bench.outcome = lambda schedule: 1e-6
    plan = mdt.compile(mdt.conv, image(), taps(), padding=1)
    plan.tune(20, quiet=True)
    left = 20 - bench.clock.now
    assert confirmed == [(len(plan.md_homs), left)]
    assert max(until for _, until in bench.begun) == pytest.approx(0.88 * 20), "the rest is for it"
    plan.tune(20, quiet=True)
    assert len(confirmed) == 1, "nothing was tuned"


def test_what_takes_longest_gets_most_of_a_budget() -> None:
    plan = mdt.compile(
        mdt.conv, np.ones((1, 64, 64, 8), "f4"), np.ones((16, 3, 3, 8), "f4"), padding=1
    )
    weights = tune._weights([tune._looked_up(item)[1] for item in plan.recorded()])
    assert sum(weights) == pytest.approx(1)
    *borders, inside = weights
    assert inside > 0.6
    assert min(borders) >= 0.25 / 4
    item = RecordedCall(plan.md_homs[0], "alone")
    assert tune._weights([tune._looked_up(item)[1]]) == [pytest.approx(1)]


def test_the_first_call_of_several_programs_is_tuned_as_a_whole(
    own_store: Store, bench: Bench
) -> None:
    operands = [np.random.default_rng(0).random(shape) for shape in ((4, 90), (90, 5), (5, 90))]

    def product() -> np.ndarray:
        return mdt.einsum("ij,jk,kl->il", *operands, optimize=True)

    with mdt.tuning("tune", budget=10):
        np.testing.assert_allclose(product(), operands[0] @ operands[1] @ operands[2])
        asked = len(bench.measured)
        product()
    assert len(bench.measured) == asked > 0
    assert set(bench.calls) == {2}
    with mdt.tuning("record") as seen:
        product()
    assert [registry.choice_for(item.md_hom).origin for item in seen] == ["tuned", "tuned"]
