"""Gradients of random md_homs, compared with central differences."""

from __future__ import annotations

import pytest

from tests.gradients.gradcheck import check_random


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_random_md_homs(first: int) -> None:
    for seed in range(first, first + 10):
        check_random(seed, compiled=False)


def test_compiled_md_homs() -> None:
    for seed in range(4):
        check_random(seed, compiled=True)
