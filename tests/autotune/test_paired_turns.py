"""Comparison by paired turns: what is slower never wins on luck, what is faster wins in time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random

import pytest

from mdtensor.autotune.paired_turns import Turns, fastest_by_turns, is_faster

Noise = Callable[[Random], float]
INCUMBENT = "incumbent"
_BATCH = 4


def never() -> bool:
    return False


def wide(noise: float) -> Noise:
    return lambda rng: math.exp(rng.gauss(0, noise))


TWO_PER_CENT = wide(0.02)


def with_slow_moments(rng: Random) -> float:
    """Two per cent, and in one run of eight up to three times as long."""
    return math.exp(rng.gauss(0, 0.02)) * (1 + (rng.random() < 1 / 8) * 2 * rng.random())


def ticking(rng: Random) -> float:
    """A clock of half a microsecond, read of 3.6."""
    return max(1.0, round(3.6 * math.exp(rng.gauss(0, 0.03)) * 2)) / 7.2


class Device:
    """Runs that take seconds by their names, times noise; `moments` slow whole rounds down."""

    def __init__(
        self,
        seconds: Mapping[str, float],
        seed: int,
        noise: Noise = TWO_PER_CENT,
        moments: Noise = lambda rng: 1.0,
    ) -> None:
        self.seconds, self.rng = {INCUMBENT: 1.0, **seconds}, Random(seed)
        self.noise, self.moments = noise, moments
        self.turns = 0

    def by_turns(self, names: Sequence[str]) -> Turns:
        times: list[list[float]] = [[] for _ in names]
        for _ in range(_BATCH):
            moment = self.moments(self.rng)
            for name, taken in zip(names, times, strict=True):
                taken.append(self.seconds[name] * self.noise(self.rng) * moment)
        self.turns += _BATCH
        return times

    def best(self) -> str:
        rivals = [name for name in self.seconds if name != INCUMBENT]
        return fastest_by_turns([INCUMBENT], rivals, self.by_turns, is_over=never)[0]


@pytest.mark.parametrize(
    "noise", [wide(0.005), wide(0.02), wide(0.05), wide(0.1), with_slow_moments, ticking]
)
def test_what_is_slower_never_wins(noise: Noise) -> None:
    slower = {f"{n} % slower": 1 + n / 100 for n in (1, 1.5, 2, 3, 5, 8)}
    assert {Device(slower, seed, noise).best() for seed in range(60)} == {INCUMBENT}


@pytest.mark.parametrize("noise", [wide(0.005), wide(0.01), wide(0.02)])
def test_what_is_three_per_cent_faster_wins(noise: Noise) -> None:
    seconds = {"slower": 1.02, "as fast": 1.0, "faster": 0.97, "far slower": 1.5}
    assert {Device(seconds, seed, noise).best() for seed in range(60)} == {"faster"}


def test_what_is_faster_often_wins_in_spite_of_slow_moments() -> None:
    seconds = {"slower": 1.02, "faster": 0.92}
    found = [Device(seconds, seed, with_slow_moments).best() for seed in range(40)]
    assert set(found) <= {"faster", INCUMBENT}
    assert found.count("faster") > 12, "2 where no turn is clipped"


def test_of_several_that_are_faster_the_fastest_wins() -> None:
    seconds = {f"{n}": n / 100 for n in (95, 70, 85, 90)}
    assert {Device(seconds, seed).best() for seed in range(40)} == {"70"}


def test_turns_are_compared_with_those_beside_them() -> None:
    moments = wide(0.7)  # of the machine, which is twice as slow for a while
    assert {Device({"faster": 0.97}, seed, moments=moments).best() for seed in range(40)} == {
        "faster"
    }
    assert {Device({"slower": 1.02}, seed, moments=moments).best() for seed in range(40)} == {
        INCUMBENT
    }


def test_few_turns_suffice_for_what_is_far_faster() -> None:
    device = Device({"far faster": 0.5}, 0)
    assert device.best() == "far faster"
    assert device.turns == _BATCH


def test_one_turn_decides_nothing() -> None:
    turns = count(1)
    best, times = fastest_by_turns(
        [INCUMBENT], ["lucky"], lambda _: [[1.0], [0.2]], is_over=lambda: next(turns) == 1
    )
    assert best == INCUMBENT
    assert times == {INCUMBENT: [1.0], "lucky": [0.2]}
    lucky = [[1.0, 1.0, 1.0, 9.0], [1.0, 1.01, 1.0, 1.0]]
    assert not is_faster(lucky[1], lucky[0])


def test_it_ends_where_both_are_as_fast() -> None:
    asked: list[Sequence[str]] = []

    def by_turns(names: Sequence[str]) -> Turns:
        asked.append(names)
        return [[1.0] * _BATCH for _ in names]

    assert fastest_by_turns([INCUMBENT], "abcd", by_turns, is_over=never)[0] == INCUMBENT
    assert len(asked) == 16
    assert [len(names) for names in asked[:4]] == [5, 3, 2, 2], "the worse half leaves"


def test_what_does_not_run_is_left_out() -> None:
    def by_turns(names: Sequence[str]) -> Turns:
        return [None if "not" in name else [len(name)] * _BATCH for name in names]

    def best(incumbent: str, *rivals: str) -> str:
        return fastest_by_turns([incumbent], rivals, by_turns, is_over=never)[0]

    assert best("runs slowly", "not", "runs") == "runs"
    assert best("runs", "not") == "runs"
    assert best("not", "runs slowly", "runs") == "runs"
    assert best("not", "not either") == "not"
    assert best("runs") == "runs"


def test_of_several_incumbents_the_faster_one_has_to_be_beaten() -> None:
    seconds = {"other": 0.9, "between": 0.95, "slower": 1.1}
    incumbents = [INCUMBENT, "other"]
    for seed in range(40):
        device = Device(seconds, seed)
        best, _ = fastest_by_turns(
            incumbents, ["between", "slower"], device.by_turns, is_over=never
        )
        assert best == "other"
        assert fastest_by_turns(incumbents, [], device.by_turns, is_over=never)[0] == "other"
