"""The technique that learns: what it asks for, and that it needs few measurements."""

from __future__ import annotations

import math
from random import Random

from mdtensor.autotune.search.abort_conditions import evaluations
from mdtensor.autotune.search.search import search
from mdtensor.autotune.search.surrogate import SurrogateModel
from mdtensor.autotune.space.space import Configuration, Space
from mdtensor.autotune.trial import Trial
from mdtensor.lower.schedule.parameter import SpaceParameter

POWERS = (1, 2, 4, 8, 16, 32, 64, 128)
BEST = {"m": 16, "n": 64, "k": 8, "stages": 3, "order": "nm"}


def within(m: int, n: int, area: int) -> bool:
    return area <= 4096


def area(m: int, n: int) -> tuple[int]:
    return (m * n,)


def space() -> Space:
    return Space(
        [
            SpaceParameter("m", POWERS),
            SpaceParameter("n", POWERS),
            SpaceParameter("area", area, (within,)),
            SpaceParameter("k", POWERS),
            SpaceParameter("stages", (1, 2, 3, 4, 5)),
            SpaceParameter("order", ("mn", "nm")),
            SpaceParameter("padding", (0, 1, 4)),
            SpaceParameter("swath", (0, 2, 4, 8)),
        ]
    )


def seconds(configuration: Configuration) -> float:
    """Each value that is not the best one costs so many per cent, and some pairs more."""
    worse = {name: configuration[name] != value for name, value in BEST.items()}
    far = abs(math.log2(int(str(configuration["m"])) / 16))
    factors = [1 + 0.2 * far, *(1.15 for wrong in worse.values() if wrong)]
    if worse["n"] and worse["k"]:
        factors.append(1.2)
    return 1e-5 * math.prod(factors)


def measure(configuration: Configuration) -> Trial:
    return Trial("ok", seconds(configuration))


def test_it_needs_few_measurements() -> None:
    outcome = search(
        space(), measure, budget_s=math.inf, abort=evaluations(160), technique=SurrogateModel
    )
    assert outcome.best is not None
    assert outcome.best.trial.cost == 1e-5
    assert {each.proposer for each in outcome.trials} == {"learned"}


def test_what_cannot_be_is_not_asked_for_once_anything_is_known() -> None:
    def expected(configuration: Configuration) -> float:
        return math.inf if configuration["stages"] == 5 else seconds(configuration)

    def make(space: Space, rng: Random) -> SurrogateModel:
        return SurrogateModel(space, rng, expected)

    outcome = search(space(), measure, budget_s=math.inf, abort=evaluations(120), technique=make)
    later = [each.configuration for each in outcome.trials[30:]]
    assert all(configuration["stages"] != 5 for configuration in later)


def test_others_are_weighed_too() -> None:
    """Far from all that was measured, and expected to be the best."""
    places, far = space(), {**BEST, "area": 1024, "padding": 4, "swath": 8}

    def expected(configuration: Configuration) -> float:
        return 1e-6 if configuration == far else 1e-5

    technique = SurrogateModel(places, Random(0), expected, [far])
    rng = Random(1)
    near = {"m": 1, "n": 1, "k": 1, "stages": 1, "order": "mn", "padding": 0, "swath": 0}
    for index in range(20):
        known = places.nearest({**near, "k": rng.choice(POWERS)}, rng) if index else None
        technique.tell(places.index(known) if known else places.sample_index(rng), 2e-5)
    while len(technique._costs) < 16:
        technique.tell(places.sample_index(rng), 2e-5)
    assert places.index(far) in [technique.ask() for _ in range(24)]


def test_nothing_is_asked_for_twice_in_a_batch_or_after_it_was_told() -> None:
    places, rng = space(), Random(3)
    technique = SurrogateModel(places, rng)
    for _ in range(30):
        index = places.sample_index(rng)
        technique.tell(index, seconds(places.configuration(index)))
    asked = [technique.ask() for _ in range(40)]
    assert len(set(asked)) == 40
    assert not set(asked) & set(technique._costs)


def test_failures_teach_nothing_and_are_not_asked_for() -> None:
    places = space()
    technique = SurrogateModel(places, Random(4))
    for index in range(200):
        technique.tell(index, math.inf)
    for index in range(200, 230):
        technique.tell(index, seconds(places.configuration(index)))
    asked = {technique.ask() for _ in range(30)}
    assert not asked & set(range(230))
