"""Techniques that move points through the unit cube."""

import math
import statistics
from random import Random

import pytest

from mdtensor.autotune.search.population import ParticleSwarm, Simplex, inside
from mdtensor.tuner import Parameter, Space, evaluations, search

SPACE = Space([Parameter(name, range(100)) for name in "abcd"])


def bowl(c):
    return sum((c[name] - at) ** 2 for name, at in zip("abcd", (20, 77, 50, 5), strict=True))


@pytest.mark.parametrize("technique", ["particle_swarm", "simplex"])
def test_smooth_costs_lead_to_much_better_than_random(technique):
    def median(name):
        return statistics.median(
            search(SPACE, bowl, name, evaluations(300), seed=seed).best.trial.cost
            for seed in range(5)
        )

    assert median(technique) < median("random") / 5


@pytest.mark.parametrize("make", [ParticleSwarm, Simplex])
def test_what_others_found_attracts(make):
    technique = make(SPACE, Random(0))
    best = {"a": 20, "b": 77, "c": 50, "d": 5}
    for _ in range(40):
        index = technique.ask()
        technique.tell(index, 1e5 + bowl(SPACE.configuration(index)))
    technique.tell(SPACE.index(best), 0.0)
    costs = []
    for _ in range(400):
        index = technique.ask()
        costs.append(bowl(SPACE.configuration(index)))
        technique.tell(index, 1e5 + costs[-1])
    assert min(costs[-200:]) < 1000


@pytest.mark.parametrize("make", [ParticleSwarm, Simplex])
def test_failures_and_costs_that_come_late_do_no_harm(make):
    technique, rng, pending = make(SPACE, Random(0)), Random(1), []
    for _ in range(2000):
        pending.append(technique.ask())
        if len(pending) > 20:
            index = pending.pop(rng.randrange(20))
            cost = bowl(SPACE.configuration(index))
            technique.tell(index, math.inf if cost % 3 == 0 else cost)
    only_failures = make(SPACE, Random(0))
    for _ in range(200):
        only_failures.tell(only_failures.ask(), math.inf)


def test_points_are_reflected_however_far_out_they_are():
    assert inside([0.0, 1.0, -0.5, 2.25, -3.5]) == pytest.approx((0.0, 1.0, 0.5, 0.25, 0.5))


def test_the_surrogate_learns_of_long_ranges():
    space = Space([Parameter("n", range(1, 2001)), Parameter("m", (1, 2, 4))])

    def cost(c):
        return 1 + abs(math.log2(c["n"] / 500)) + abs(c["m"] - 2)

    found = search(space, cost, "surrogate", evaluations(120))
    assert found.best.trial.cost < 1.2
