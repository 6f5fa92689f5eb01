"""Verdicts on candidates from the times of turns, each beside a call of the trusted kernel."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mdtensor.api.tuning.online.call_trial import TURNS, WINS, CallTrial, Candidate

ANYTHING: Any = None


def trial(*pairs: tuple[float, float], expected: float = 1.0) -> CallTrial:
    found = CallTrial(Candidate(ANYTHING, ANYTHING, ANYTHING, expected), lambda *_: None, checks=1)
    for seconds, trusted in pairs:
        found.seconds.append(seconds)
        found.trusted.append(trusted)
    return found


def test_a_faster_candidate_is_better_once_it_had_all_turns() -> None:
    assert trial(*[(0.8, 1.0)] * (TURNS - 1)).verdict == "open"
    assert trial(*[(0.8, 1.0)] * TURNS).verdict == "better"


def test_what_is_faster_by_little_is_no_gain() -> None:
    assert trial(*[(0.98, 1.0)] * TURNS).verdict == "worse"


def test_calls_of_python_around_the_trusted_kernel_are_no_gain() -> None:
    assert trial(*[(9.5e-6, 10e-6)] * TURNS).verdict == "worse"
    assert trial(*[(8.5e-6, 10e-6)] * TURNS).verdict == "better"


def test_a_few_lost_turns_are_chance_and_more_are_not() -> None:
    lost = TURNS - WINS
    assert trial(*[(1.1, 1.0)] * lost, *[(0.8, 1.0)] * WINS).verdict == "better"
    assert trial(*[(1.1, 1.0)] * (lost + 1)).verdict == "worse"


def test_what_is_far_slower_has_but_two_turns() -> None:
    assert trial((2.0, 1.0)).verdict == "open"
    assert trial((2.0, 1.0), (1.5, 1.0)).verdict == "worse"


@pytest.mark.parametrize("slowdown", [1.0, 3.0])
def test_a_slow_machine_slows_both(slowdown: float) -> None:
    rng = random.Random(0)
    pace = [slowdown if rng.random() < 0.5 else 1.0 for _ in range(TURNS)]
    assert trial(*[(0.8 * p, p) for p in pace]).verdict == "better"


def test_kernels_as_fast_as_each_other_are_seldom_exchanged() -> None:
    rng, better = random.Random(1), 0
    for _ in range(500):
        found = trial()
        while found.verdict == "open":
            found.seconds.append(rng.lognormvariate(0, 0.2))
            found.trusted.append(rng.lognormvariate(0, 0.2))
        better += found.verdict == "better"
    assert better < 25


def test_results_are_checked_first_and_before_a_candidate_is_kept() -> None:
    found = trial()
    found.checks = 0
    assert found.wants_check
    found.checks = 1
    assert not found.wants_check
    found.seconds, found.trusted = [0.5] * TURNS, [1.0] * TURNS
    assert found.wants_check
    found.checks = 2
    assert not found.wants_check


def test_a_candidate_is_expected_to_take_what_the_model_says_until_it_ran() -> None:
    assert trial(expected=2.0).expected(1.0) == 3.0
    assert trial(expected=100.0).expected(1.0) == 4.5
    assert trial((10.0, 1.0), expected=2.0).expected(1.0) == 15.0
