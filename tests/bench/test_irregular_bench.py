"""What is timed of irregular loops: both ways compute the same, for each family of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from bench.irregular import computations_of
from bench.sparse import FAMILIES, array_of


@pytest.mark.parametrize("family", FAMILIES)
def test_both_ways_compute_the_same(family: str) -> None:
    rng = np.random.default_rng(0)
    found = list(computations_of(array_of(family, 320, rng), rng))
    assert {name for name, *_ in found} >= {"product", "min-plus", "scatter", "by number"}
    for _, _, others, ours in found:
        np.testing.assert_allclose(ours(), others(), rtol=1e-10)
