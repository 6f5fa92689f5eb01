from __future__ import annotations

import math

import numpy as np
import pytest

from mdtensor.translate.stencils.rounded_weights import rounded_weights

SINGLE, PAIR = np.dtype(np.float32), np.dtype(np.complex64)


def gaussian(sigma: float) -> np.ndarray:
    reach = int(4 * sigma + 0.5)
    weights = np.exp(-0.5 / sigma**2 * np.arange(-reach, reach + 1) ** 2)
    return weights / weights.sum()


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.5, 7.0])
def test_the_sum_stays(sigma: float) -> None:
    """Rounded each for itself, the weights of a Gaussian add up to 1 ± 2e-8 and more."""
    weights = gaussian(sigma)
    for window in (weights, np.outer(weights, weights), -weights):
        rounded = rounded_weights(window, SINGLE)
        assert rounded.dtype == SINGLE
        assert rounded.shape == window.shape
        assert abs(math.fsum(rounded.flat) - math.fsum(window.flat)) <= np.abs(window).min()
        np.testing.assert_allclose(rounded, window, rtol=0, atol=2.0**-23 * np.abs(window).max())


def test_each_for_itself_the_sum_does_not_stay() -> None:
    assert abs(math.fsum(gaussian(1.0).astype(SINGLE)) - 1) > 1e-8


def test_parts_of_complex_weights() -> None:
    weights = gaussian(1.0) * (1 + 2j)
    rounded = rounded_weights(weights, PAIR)
    assert rounded.dtype == PAIR
    assert abs(rounded.sum(dtype=complex) - (1 + 2j)) < 1e-8
    np.testing.assert_array_equal(rounded_weights(gaussian(1.0), PAIR).imag, 0)


def test_what_fits_and_zeros_are_kept() -> None:
    weights = np.array([[0.5, 0, -2], [0, 0.1, 0], [3, -0.0, 0.2]])
    rounded = rounded_weights(weights, SINGLE)
    exact = weights == weights.astype(SINGLE)
    np.testing.assert_array_equal(rounded[exact], weights[exact])
    assert rounded_weights(weights, np.dtype(float)).tolist() == weights.tolist()
    assert rounded_weights(np.array([2**24 + 1, 1]), SINGLE).tolist() == [2.0**24, 2.0]


def test_what_is_not_finite() -> None:
    weights = np.array([0.1, np.inf, np.nan])
    np.testing.assert_array_equal(rounded_weights(weights, SINGLE), weights.astype(SINGLE))
