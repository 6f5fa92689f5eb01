"""The families of sparse arrays: what is timed of them is right, and their rows are as said."""

from __future__ import annotations

import numpy as np
import pytest

from bench.sparse import FAMILIES, MEAN, array_of, lengths_of, products_of, sample

ROWS = 320


@pytest.mark.parametrize("family", FAMILIES)
def test_products_are_those_of_scipy(family: str) -> None:
    rng = np.random.default_rng(0)
    found = list(products_of(array_of(family, ROWS, rng), rng))
    assert [name for name, _, _ in found] == ["A x", "A' x", "A B"]
    for _, scipys, ours in found:
        np.testing.assert_allclose(ours(), scipys(), rtol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_have_about_as_many_elements(family: str) -> None:
    lengths = lengths_of(family, 10_000, np.random.default_rng(0))
    assert 0.7 * MEAN < lengths.mean() < 1.3 * MEAN
    assert (lengths.min() == 0) == (family in ("power law", "empty rows"))


def test_a_sample_is_of_one_call() -> None:
    calls: list[int] = []
    assert 0 < sample(lambda: calls.append(1)) < 0.01
    assert len(calls) > 1
