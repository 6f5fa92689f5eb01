"""What is foretold of configurations, from those that were measured."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from mdtensor.autotune.search.cost_prediction import Features, Prediction, product, whitening
from mdtensor.autotune.space.space import Configuration, Space
from mdtensor.lower.schedule.parameter import SpaceParameter

SPACE = Space(
    [
        SpaceParameter("tile", (1, 2, 4, 8, 16, 32)),
        SpaceParameter("unroll", (1, 2, 4, 8)),
        SpaceParameter("order", ((0, 1), (1, 0))),
        SpaceParameter("fixed", (7,)),
    ]
)
FEATURES = Features(SPACE)


def rows(*configurations: Configuration) -> np.ndarray:
    return np.array([FEATURES.of(configuration) for configuration in configurations])


def one(tile: int, unroll: int, order: tuple[int, int] = (0, 1)) -> Configuration:
    return {"tile": tile, "unroll": unroll, "order": order, "fixed": 7}


def cost(configuration: Configuration) -> float:
    """A logarithm: 16 and 4 are best, and the second order is better."""
    tile, unroll = (math.log2(int(str(configuration[name]))) for name in ("tile", "unroll"))
    return (
        -10 + 0.2 * abs(tile - 4) + 0.1 * abs(unroll - 2) - 0.3 * (configuration["order"] != (0, 1))
    )


def learned(count: int, seed: int = 0) -> tuple[Prediction, list[Configuration]]:
    rng = Random(seed)
    known = [SPACE.sample(rng) for _ in range(count)]
    costs = [cost(each) for each in known]
    return Prediction.of(rows(*known), np.zeros(count), costs, len(FEATURES.names)), known


def test_what_never_varies_is_no_feature() -> None:
    assert FEATURES.names == ("tile", "unroll", "order")


def test_features_tell_how_many_values_are_alike() -> None:
    found = rows(one(4, 2), one(4, 2), one(4, 2, (1, 0)), one(8, 2), one(32, 2))
    np.testing.assert_allclose(found[0] @ found.T, [3, 3, 2, 2 + 5 / 9, 2 + 5 / 33], atol=1e-6)


def test_costs_that_values_add_to_are_foretold() -> None:
    prediction, _ = learned(24)
    every = [SPACE.configuration(index) for index in range(SPACE.size)]
    found, deviations = prediction.at(rows(*every), np.zeros(len(every)))
    right = np.array([cost(each) for each in every])
    assert np.sqrt(np.mean((found - right) ** 2)) < 0.1
    assert np.all(np.abs(found - right) < 4 * deviations + 0.05)
    assert cost(every[int(np.argmin(found))]) <= right.min() + 0.1


def test_what_was_measured_is_certain() -> None:
    prediction, known = learned(8)
    costs, deviations = prediction.at(rows(*known[:1]), np.zeros(1))
    assert costs[0] == pytest.approx(cost(known[0]), abs=0.05)
    other = next(
        each
        for index in range(SPACE.size)
        if (each := SPACE.configuration(index)) not in known and each["tile"] == 1
    )
    assert deviations[0] < prediction.at(rows(other), np.zeros(1))[1][0]


def test_a_model_that_is_right_but_for_a_factor_is_believed() -> None:
    rng = Random(1)
    known = [SPACE.sample(rng) for _ in range(6)]
    expected = np.array([cost(each) for each in known])
    prediction = Prediction.of(rows(*known), expected, expected + 2.0, 3)
    new = [one(16, 4, (1, 0)), one(1, 1)]
    estimates = np.array([cost(each) for each in new])
    np.testing.assert_allclose(prediction.at(rows(*new), estimates)[0], estimates + 2, atol=0.02)


def test_one_measurement_is_enough_to_begin() -> None:
    prediction = Prediction.of(rows(one(4, 2)), np.array([-9.0]), [-8.0], 3)
    found, _ = prediction.at(rows(one(4, 2), one(8, 2)), np.array([-9.0, -9.5]))
    np.testing.assert_allclose(found, [-8.0, -8.5], atol=0.05)


@pytest.mark.parametrize("count", [1, 15, 32, 33, 160])
def test_products_and_inverses_are_those_of_whole_matrices(count: int) -> None:
    rng = np.random.default_rng(count)
    one = rng.random((count, 70))
    matrix = one @ one.T + 0.01 * np.eye(count)
    np.testing.assert_allclose(product(one, one.T), one @ one.T, rtol=1e-12)
    white = whitening(matrix)
    np.testing.assert_allclose(white @ matrix @ white.T, np.eye(count), atol=1e-6)
