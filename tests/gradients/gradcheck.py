"""Gradients compared with central differences, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mdtensor as mdt

_STEP = 1e-6


def gradcheck(
    function: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    tolerance: float = 1e-6,
    seed: int = 0,
) -> None:
    """Asserts that a function's pullback gives its directional derivatives along each element.

    `function` takes arrays of NumPy and gives one or several; `arrays` are float64.
    """
    random = np.random.default_rng(seed)
    results, pullback = mdt.vjp(function, *arrays)
    results = results if isinstance(results, tuple) else (results,)
    cotangents = [random.standard_normal(np.shape(result)) for result in results]
    found = pullback(*cotangents)
    assert [np.shape(each) for each in found] == [array.shape for array in arrays]

    def total(given: Sequence[np.ndarray]) -> float:
        values = function(*given)
        values = values if isinstance(values, tuple) else (values,)
        return float(
            sum(np.vdot(c, np.asarray(v)) for c, v in zip(cotangents, values, strict=True))
        )

    for n, array in enumerate(arrays):
        expected = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            sides: list[float] = []
            for step in (_STEP, -_STEP):
                moved = [each.copy() for each in arrays]
                moved[n][place] += step
                sides.append(total(moved))
            expected[place] = (sides[0] - sides[1]) / (2 * _STEP)
        np.testing.assert_allclose(found[n], expected, rtol=tolerance, atol=tolerance * 10)
