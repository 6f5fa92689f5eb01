"""The account of an online search: nothing begins that was not earned."""

from __future__ import annotations

import random

import pytest

from mdtensor.api.tuning.online.time_account import Account


def test_what_is_reserved_may_not_be_spent_twice() -> None:
    account = Account()
    assert not account.reserve(1.0)
    account.earn(3.0)
    assert account.reserve(2.0)
    assert not account.reserve(2.0)
    assert account.left == 1.0
    account.settle(2.0, 0.5)
    assert account.left == 2.5


def test_what_took_longer_is_earned_back_first() -> None:
    account = Account()
    account.earn(1.0)
    assert account.reserve(1.0)
    account.settle(1.0, 4.0)
    assert account.left == -3.0
    account.earn(2.5)
    assert not account.reserve(0.1)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_exceeds_what_was_earned(seed: int) -> None:
    rng, account, under_way = random.Random(seed), Account(), list[float]()
    for _ in range(1000):
        account.earn(rng.random())
        if account.reserve(seconds := 10 * rng.random()):
            under_way.append(seconds)
        if under_way and rng.random() < 0.3:
            reserved = under_way.pop()
            account.settle(reserved, reserved * rng.random())
        assert account.spent + account.reserved <= account.earned + 1e-9
