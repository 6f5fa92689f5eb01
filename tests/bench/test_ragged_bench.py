"""The families of ragged batches: what is timed of them is right, and their lengths are as said."""

from __future__ import annotations

import numpy as np
import pytest

from bench.ragged import FAMILIES, calls_of, check, lengths_of


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_are_those_of_numpy(family: str) -> None:
    for name, padded, loop, ours in calls_of(family, 40, 32, 8):
        found = ours()
        check(loop(), found)
        if name in ("attention", "by mdtensor"):
            check([whole[: len(one)] for whole, one in zip(padded(), found, strict=True)], found)
        elif "->bt" not in name:
            np.testing.assert_allclose(found, padded(), rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_lengths(family: str) -> None:
    lengths = lengths_of(family, 10_000, 32, np.random.default_rng(0))
    mean = 4 if family == "half empty" else 32
    assert 0.7 * mean < lengths.mean() < 1.3 * mean
    assert (lengths.min() == 0) == (family != "equal")
