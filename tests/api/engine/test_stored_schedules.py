"""Winners of near shapes: which they are, in which order, and what becomes of their schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mdtensor.api.engine.stored_schedules import (
    CLEARLY_SLOWER,
    MARGIN,
    adapted_winners,
    near_schedule,
    nearest_first,
    of_structure,
    within_reach,
)
from mdtensor.autotune.store.rows import TrialRow, WinnerRow
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import key_form, problem_key
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.rules.valid import is_valid
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import estimated, ranked
from mdtensor.plain_data import data_of
from tests.autotune.hostile_schedules import hostile_texts
from tests.problems import einsum_problem
from tests.targets import CPU


def product(m: int, k: int, n: int, dtype: type = np.float32) -> Problem:
    return einsum_problem("ij,jk->ik", (m, k), (k, n), dtype=dtype)


def winner_of(problem: Problem, key: str | None = None) -> WinnerRow:
    text = plain(problem).to_json()
    return WinnerRow(key or problem_key(problem), "here", text, 1e-3, 5, 1.0, True)


FORM = key_form(generalised(product(2, 3, 4))[0])


def test_winners_of_a_structure_are_told_by_their_keys() -> None:
    near, other = product(64, 32, 16), product(64, 32, 16, np.float64)
    rows = [winner_of(near), winner_of(other), winner_of(near, "mul/add")]
    assert of_structure(FORM, 3, rows) == [(rows[0], (64, 32, 16))]


def test_extents_of_a_hostile_key_are_none() -> None:
    key = problem_key(product(64, 32, 16))
    for extent in ("0", "-3", "9" * 5000):
        assert of_structure(FORM, 3, [winner_of(product(2, 3, 4), key.replace("64", extent))]) == []


def test_the_nearest_shape_by_ratios_of_extents_comes_first() -> None:
    problem = product(100, 100, 100)
    shapes = [(100, 100, 400), (90, 110, 100), (100, 100, 100), (50, 100, 200)]
    rows = [winner_of(product(*shape)) for shape in shapes]
    found = nearest_first(problem, of_structure(FORM, 3, rows))
    assert [each.extents for each in found] == [shapes[n] for n in (2, 1, 3, 0)]
    assert [round(each.farthest, 2) for each in found] == [0.0, 0.15, 1.0, 2.0]
    assert found[2].distance == pytest.approx(2**0.5)


def test_hostile_schedules_are_passed_over() -> None:
    near, problem = product(20, 31, 40), product(21, 30, 44)
    good, fitted = winner_of(near), 0
    for name, text in hostile_texts(data_of(plain(near))):
        row = WinnerRow(problem_key(near), "here", text, 1e-3, 5, 1.0, True)
        neighbours = nearest_first(problem, of_structure(FORM, 3, [row, good]))
        found = [(each.row, made) for each, made in adapted_winners(problem, neighbours, CPU)]
        assert found[-1][0] == good, name
        assert all(is_valid(problem, made) for _, made in found), name
        fitted += len(found) == 2
    assert 0 < fitted < 150


PROBLEM, THERE = product(300, 200, 250), product(320, 224, 288)
SECONDS, FAVOURITE = ranked(PROBLEM, CPU, most=1)[0]
# What the cost model expects somewhat more time of.
OTHER = replace(FAVOURITE, registers=(3, *FAVOURITE.registers[1:]))


def kept(schedule: Schedule, problem: Problem = THERE, *, confirmed: bool = True) -> WinnerRow:
    key = problem_key(problem)
    return WinnerRow(key, "here", schedule.to_json(), 1e-3, 5, 1.0, confirmed)


def measured(schedule: Schedule, seconds: float, status: str = "ok") -> TrialRow:
    return TrialRow(problem_key(THERE), "here", schedule.to_json(), status, seconds, 0.0, "")


def taken(row: WinnerRow, *trials: TrialRow, seconds: float = SECONDS) -> Schedule | None:
    near = within_reach(nearest_first(PROBLEM, of_structure(FORM, 3, [row])))
    return near_schedule(PROBLEM, near, FAVOURITE, seconds, CPU, lambda _: trials)


def test_an_untuned_shape_takes_the_winner_of_one_that_is_near() -> None:
    found = taken(kept(OTHER))
    assert found is not None
    assert found.registers == OTHER.registers
    assert 1 < estimated(PROBLEM, found, CPU) / SECONDS < MARGIN


def test_winners_that_are_far_or_unconfirmed_or_expected_to_be_slow_are_not_taken() -> None:
    assert taken(kept(OTHER, product(601, 200, 250))) is None
    assert taken(kept(OTHER, confirmed=False)) is None
    assert taken(kept(OTHER), seconds=SECONDS / 2) is None


def test_times_of_the_favourite_there_count_more_than_the_model() -> None:
    here, row = replace(FAVOURITE, parts=(1, 1, 1), inline=True), kept(OTHER)
    won = measured(OTHER, 1e-3)
    slow, fast = measured(here, 1.01e-3 * CLEARLY_SLOWER), measured(here, 1.04e-3)
    assert taken(row, won, slow) is not None
    assert taken(row, won, fast) is None
    lucky = measured(OTHER, 0.5e-3)
    assert taken(row, lucky, fast) is None, "its turns took longer than its trial"
    assert taken(row, fast) is not None, "the winner is from another search"
    assert taken(row, won, measured(here, 1.04e-3, "wrong_result")) is not None
    assert taken(row, won, replace(fast, schedule="{}")) is not None
