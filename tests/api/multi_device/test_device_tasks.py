"""Random calls in parts on two devices, cut along every dim that can be cut."""

import numpy as np
import pytest

from tests.api.dask.random_calls import KINDS
from tests.api.multi_device.pools import by_each_dim


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(48))
def test_random_calls_along_each_dim(seed: int) -> None:
    drawn = KINDS[seed % len(KINDS)](np.random.default_rng(3200 + seed))
    for dim, shares, results in by_each_dim(drawn.call, drawn.arrays, {"llvm": 2, "pool": 3}):
        np.testing.assert_allclose(
            results[0], drawn.expected, atol=1e-3, rtol=1e-4, err_msg=f"{drawn.name} {dim} {shares}"
        )
