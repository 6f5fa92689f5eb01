"""What tuning parameters explain, compared with sums of squares done by hand."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest

from mdtensor.api.reports.parameter_importance import LEAST_TRIALS, explained, importance
from mdtensor.autotune.store.rows import TrialRow
from mdtensor.autotune.trial import Status


def row(seconds: float | None, status: Status = "ok", **schedule: object) -> TrialRow:
    return TrialRow("p", "e", json.dumps(schedule), status, seconds, None, "")


def by_hand(groups: list[str], values: list[float]) -> float:
    """Epsilon squared: (between - (k - 1) within / (n - k)) / total, in float64 by NumPy."""
    array, names = np.array(values), sorted(set(groups))
    members = [array[[g == name for g in groups]] for name in names]
    total = ((array - array.mean()) ** 2).sum()
    within = sum(((m - m.mean()) ** 2).sum() for m in members)
    between = sum(len(m) * (m.mean() - array.mean()) ** 2 for m in members)
    noise = within / (len(values) - len(names))
    return max(0.0, float((between - (len(names) - 1) * noise) / total))


@pytest.mark.parametrize("seed", range(5))
def test_shares_are_those_of_an_analysis_of_variance(seed: int) -> None:
    rng = random.Random(seed)
    groups = [rng.choice("abc") for _ in range(40)]
    values = [rng.gauss({"a": 0.0, "b": 1.0, "c": 1.5}[group], 0.7) for group in groups]
    assert explained(groups, values) == pytest.approx(by_hand(groups, values), rel=1e-12, abs=1e-12)


def test_known_numbers() -> None:
    # Means 2 and 5, total 13.5 + 4, within 4: (13.5 - 4 / 4) / 17.5.
    assert explained("aaabbb", [1, 2, 3, 4, 5, 6]) == pytest.approx((13.5 - 1) / 17.5)
    assert explained("aaaa", [1, 2, 3, 4]) is None
    assert explained("abcd", [1, 2, 3, 4]) == 0.0  # each a group of its own
    assert explained("aabb", [2, 2, 2, 2]) == 0.0
    assert explained("abab", [1, 1, 2, 2]) == 0.0


def test_what_decides_the_time_comes_first() -> None:
    rng = random.Random(1)
    trials = [
        row(math.exp(tile + 0.1 * rng.random()), tiles=[tile, rng.randrange(3)], lane=1)
        for tile in (0, 1, 2, 3) * 10
    ]
    shares = importance(trials, ("i", "j"))
    assert next(iter(shares)) == "tiles i"
    assert shares["tiles i"] > 0.98
    assert shares["tiles j"] < 0.2
    assert "lane" not in shares  # which had one value


def test_trials_that_failed_do_not_count() -> None:
    trials = [row(1e-6 * 2 ** (n % 2), tile=n % 2, other=n % 3) for n in range(LEAST_TRIALS)]
    wrong = [row(None, "crashed", tile=0), row(1.0, "wrong", tile=1)] * 9
    assert importance([*trials, *wrong]) == importance(trials) != {}
    assert importance([*trials[1:], *wrong]) == {}


def test_fields_that_few_schedules_have_are_a_value_too() -> None:
    trials = [row(1e-6, parts=[1]) if n % 2 else row(2e-6, parts=[1], peel=True) for n in range(12)]
    assert importance(trials) == {"peel": 1.0}


def test_orders_are_whole_and_streams_are_numbered() -> None:
    trials = [
        row(1e-6 * (1 + n), loop_order=[n % 2, 1 - n % 2], staged=["", "local"[: n % 3]])
        for n in range(12)
    ]
    assert set(importance(trials, ("i", "j"))) == {"loop_order", "staged 1"}
