"""The search, with arithmetic in place of kernels."""

import math
import random
import statistics
import threading
from concurrent.futures import Future

import pytest

from mdtensor.autotune.search.abort_conditions import evaluations
from mdtensor.autotune.search.named_techniques import TECHNIQUES
from mdtensor.autotune.search.search import search
from mdtensor.autotune.search.techniques import Bandit, RandomSearch
from mdtensor.autotune.space.space import Space
from mdtensor.autotune.trial import Trial
from mdtensor.errors import TuningError
from mdtensor.lower.schedule.parameter import SpaceParameter


def divides_tile(tile, step):
    return tile % step == 0


def small():
    return Space(
        [
            SpaceParameter("tile", range(1, 25)),
            SpaceParameter("step", range(1, 25), (divides_tile,)),
        ]
    )


def ok(seconds):
    return Trial("ok", seconds)


def kernel_space():
    """Per dim a tile that divides the block, and some switches: 3e7 configurations."""
    sizes = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
    parameters = []
    for dim in "ij":
        scope = {}
        source = f"def divides(block_{dim}, tile_{dim}): return block_{dim} % tile_{dim} == 0"
        exec(source, scope)
        parameters.append(SpaceParameter(f"block_{dim}", sizes))
        parameters.append(SpaceParameter(f"tile_{dim}", sizes, (scope["divides"],)))
    parameters.append(SpaceParameter("vector", (1, 2, 4, 8, 16)))
    parameters.append(SpaceParameter("unroll", (1, 2, 4, 8)))
    parameters.append(SpaceParameter("order", ("ijk", "ikj", "jik", "jki", "kij", "kji")))
    parameters += [SpaceParameter(name, (False, True)) for name in ("pack_a", "pack_b", "stream")]
    return Space(parameters)


def kernel_seconds(c):
    """A made-up kernel: ridges, interactions, and a failing quarter; best is 1 microsecond."""
    footprint = c["tile_i"] * c["tile_j"]
    if footprint > 512:
        return Trial("compile_error", detail="too many registers")
    cost = 1 + abs(math.log2(footprint / 96)) * 0.4
    cost += abs(math.log2(c["block_i"] / 96)) * 0.1 + abs(math.log2(c["block_j"] / 64)) * 0.1
    cost += abs(math.log2(c["vector"] / 16)) * 0.3 * (1 + (c["order"][-1] != "j"))
    cost += 0.2 * (c["pack_a"] != (c["block_i"] > 32)) + 0.2 * (not c["pack_b"])
    cost += 0.3 * (c["order"][0] != "i") + 0.1 * c["stream"] + 0.05 * abs(c["unroll"] - 4)
    return ok(cost * 1e-6)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_configurations_are_prepared_ahead_each_once_and_in_order(technique):
    space, prepared, measured = small(), [], []

    def prepare(configuration):
        assert len(prepared) - len(measured) < 5
        prepared.append(space.index(configuration))
        return

    def measure(configuration):
        assert len(prepared) - len(measured) == min(5, space.size - len(measured))
        measured.append(space.index(configuration))
        return ok(1e-6 * (1 + abs(configuration["tile"] - 18) + abs(configuration["step"] - 9)))

    outcome = search(space, measure, budget_s=3600, technique=technique, prepare=prepare, ahead=4)
    assert outcome.stopped == "exhausted"
    assert prepared == measured
    assert len(set(measured)) == space.size
    assert outcome.best.configuration == {"tile": 18, "step": 9}


def test_what_is_ready_is_measured_before_what_is_not():
    space, futures, measured = small(), {}, []

    def prepare(configuration):
        future = futures[space.index(configuration)] = Future()
        if len(futures) != 1:
            future.set_result(None)
        return future

    def measure(configuration):
        measured.append(space.index(configuration))
        if len(measured) == 7:
            next(iter(futures.values())).set_result(None)
        return ok(1e-6)

    search(
        space,
        measure,
        budget_s=3600,
        technique="exhaustive",
        prepare=prepare,
        ahead=3,
        abort=evaluations(12),
    )
    first, *others = list(futures)[:12]
    assert measured == [*others[:7], first, *others[7:]]


def test_what_is_prepared_apart_is_measured_while_nothing_is_prepared():
    space, events = small(), []

    def prepare(configuration):
        future = Future()
        threading.Timer(0.001, lambda: (events.append("ready"), future.set_result(None))).start()
        events.append("asked")
        return future

    def measure(configuration):
        assert events.count("asked") == events.count("ready")
        events.append("measured")
        return ok(1e-6 * configuration["tile"])

    outcome = search(
        space, measure, budget_s=3600, technique="exhaustive", prepare=prepare, ahead=5, apart=True
    )
    assert outcome.stopped == "exhausted"
    assert len(outcome.trials) == space.size
    batches = "".join(event[0] for event in events if event != "ready").split("ma")
    assert len(batches) == -(-space.size // 5)
    assert batches[0].lstrip("a") == "mmmm"  # and one more, before the second five are asked for


def test_near_the_end_no_more_is_prepared_than_can_be_measured():
    space, now, prepared = small(), [0.0], []

    def measure(configuration):
        now[0] += 1.0
        return ok(1e-6)

    outcome = search(
        space,
        measure,
        budget_s=7.5,
        technique="exhaustive",
        prepare=lambda configuration: prepared.append(now[0]),
        ahead=3,
        apart=True,
        clock=lambda: now[0],
    )
    assert outcome.stopped == "budget"
    assert prepared == [0.0] * 3 + [3.0] * 3 + [6.0, 7.0]
    assert len(outcome.trials) == 8


def test_credit_goes_to_who_proposed_even_when_others_were_asked_since():
    bandit = Bandit(small(), random.Random(0), {"first": RandomSearch, "second": RandomSearch})
    asked = {}
    for _ in range(6):
        index = bandit.ask()
        asked[index] = bandit.name
    for cost, index in enumerate(asked, 1):
        bandit.tell(index, 1 / cost)
    assert [use.technique for use in bandit._uses] == list(asked.values())
    assert all(use.improved for use in bandit._uses)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_failures_never_win(technique):
    space = small()

    def measure(configuration):
        if configuration["step"] > 1:
            return Trial("wrong", 1e-9, detail="1 of 9 elements")
        return ok(configuration["tile"] * 1e-6)

    outcome = search(space, measure, budget_s=3600, technique=technique)
    assert outcome.best.configuration == {"tile": 1, "step": 1}
    assert {each.trial.status for each in outcome.trials} == {"ok", "wrong"}
    assert len(outcome.ranked()) == 24


@pytest.mark.parametrize("technique", ["hill_climbing", "annealing", "bandit"])
def test_beats_random_search(technique):
    space = kernel_space()

    def median_best(name):
        found = [
            search(
                space,
                kernel_seconds,
                budget_s=3600,
                abort=evaluations(200),
                technique=name,
                rng_seed=seed,
            ).best.trial.seconds
            for seed in range(5)
        ]
        return statistics.median(found) * 1e6

    assert median_best(technique) < min(1.45, 0.85 * median_best("random"))


def test_differential_evolution_beats_random_search_in_the_long_run():
    space = kernel_space()
    best = {
        name: search(
            space, kernel_seconds, budget_s=3600, abort=evaluations(800), technique=name
        ).best.trial.seconds
        for name in ("random", "differential_evolution")
    }
    assert best["differential_evolution"] < 0.95 * best["random"]


def test_seeds_come_first_in_order_and_once():
    space = small()
    seeds = [{"tile": 12, "step": 6}, {"tile": 5, "step": 5}, {"tile": 12, "step": 6}]
    outcome = search(space, lambda _: ok(1e-6), seeds=seeds, budget_s=3600, abort=evaluations(4))
    assert [each.configuration for each in outcome.trials[:2]] == seeds[:2]
    assert [each.proposer for each in outcome.trials[:2]] == ["seed", "seed"]
    assert outcome.trials[2].proposer in TECHNIQUES
    assert outcome.stopped == "abort"
    assert len(outcome.trials) == 4


def test_a_seed_of_another_space_stands_for_the_nearest():
    seeds = [{"tile": 12, "step": 5, "warp": 3}]
    outcome = search(small(), lambda _: ok(1e-6), seeds=seeds, budget_s=3600, abort=evaluations(1))
    (first,) = outcome.trials
    assert first.configuration in small()
    assert first.configuration in ({"tile": 12, "step": 6}, {"tile": 10, "step": 5})


def test_techniques_start_from_the_seeds():
    space = kernel_space()
    best = min(
        (space.sample(random.Random(seed)) for seed in range(400)),
        key=lambda c: kernel_seconds(c).cost,
    )
    outcome = search(
        space,
        kernel_seconds,
        seeds=[best],
        budget_s=3600,
        abort=evaluations(40),
        technique="hill_climbing",
    )
    proposals = [each.configuration for each in outcome.trials[10:]]
    changes = [sum(each[name] != best[name] for name in best) for each in proposals]
    assert min(changes) == 1
    assert outcome.best.trial.seconds < kernel_seconds(best).seconds


def test_known_trials_are_not_repeated_but_learned_from():
    space = small()
    first = search(space, lambda c: ok(c["tile"] * 1e-6), budget_s=3600, abort=evaluations(60))
    known = [(each.configuration, each.trial) for each in first.trials]
    known.append(({"tile": 99, "step": 1}, ok(1e-9)))
    second = search(space, lambda c: ok(c["tile"] * 1e-6), known=known, budget_s=3600)
    measured = [tuple(each.configuration.items()) for each in first.trials + second.trials]
    assert len(set(measured)) == len(measured) == space.size


def test_of_several_proposals_the_one_is_measured_of_which_least_is_expected():
    space = Space([SpaceParameter("tile", range(1000))])
    costs = {draws: [] for draws in (1, 8)}
    for draws, found in costs.items():
        outcome = search(
            space,
            lambda c: ok(1e-6 * (1 + c["tile"])),
            budget_s=3600,
            abort=evaluations(60),
            technique="random",
            expected=lambda c: c["tile"],
            draws=draws,
        )
        found += [each.trial.seconds for each in outcome.trials]
    assert statistics.median(costs[8]) < statistics.median(costs[1]) / 3


def test_all_of_a_space_is_measured_whatever_is_expected():
    space = small()
    outcome = search(space, lambda _: ok(1e-6), budget_s=3600, expected=lambda _: math.inf, draws=5)
    assert outcome.stopped == "exhausted"
    assert len(outcome.trials) == space.size


def test_stops_at_the_budget_and_finishes_what_is_under_way():
    now = [100.0]

    def measure(configuration):
        now[0] += 3
        return ok(1e-6)

    outcome = search(small(), measure, budget_s=10, clock=lambda: now[0])
    assert outcome.stopped == "budget"
    assert [each.elapsed for each in outcome.trials] == [3, 6, 9, 12]
    assert outcome.seconds == 12


def test_no_budget_measures_nothing():
    outcome = search(small(), lambda _: ok(1e-6), seeds=[{"tile": 1, "step": 1}], budget_s=0)
    assert (outcome.trials, outcome.stopped, outcome.best) == ((), "budget", None)


def test_an_interrupt_returns_what_was_measured():
    seen = []

    def measure(configuration):
        if len(seen) == 7:
            raise KeyboardInterrupt
        return ok(1e-6)

    outcome = search(small(), measure, budget_s=3600, on_trial=seen.append)
    assert outcome.interrupted
    assert list(outcome.trials) == seen
    assert len(seen) == 7


def test_an_empty_space_is_exhausted_at_once():
    def never(tile):
        return False

    outcome = search(
        Space([SpaceParameter("tile", (1,), (never,))]), lambda _: ok(1), budget_s=3600
    )
    assert (outcome.trials, outcome.stopped) == ((), "exhausted")


@pytest.mark.parametrize("seconds", [None, math.nan, math.inf, -1.0])
def test_an_ok_trial_needs_its_time(seconds):
    with pytest.raises(TuningError, match="needs its time"):
        Trial("ok", seconds)
    assert Trial("timeout", seconds).cost == math.inf


def test_an_unknown_status_is_refused():
    with pytest.raises(TuningError, match="unknown status 'fine'"):
        Trial("fine", 1.0)


class Scripted:
    """Proposes given indices."""

    def __init__(self, name, indices):
        self.name = name
        self._indices = iter(indices)

    def ask(self):
        return next(self._indices, None)

    def tell(self, index, cost):
        pass


def test_the_bandit_credits_who_improves():
    space = Space([SpaceParameter("tile", range(1000))])
    makers = {
        "improves": lambda space, rng: Scripted("improves", range(500, 1000)),
        "idles": lambda space, rng: Scripted("idles", range(500)),
    }
    bandit = Bandit(space, random.Random(0), makers)
    asked = []
    for _ in range(100):
        index = bandit.ask()
        asked.append(bandit.name)
        bandit.tell(index, 1000.0 - index)
    assert asked.count("improves") > 80
    assert asked.count("idles") >= 1
    # Once it finds no more, the other is tried more often again.
    for _ in range(300):
        index = bandit.ask()
        asked.append(bandit.name)
        bandit.tell(index, 1e6)
    assert asked[-100:].count("idles") > 20
    assert bandit.credit("improves") < 0.5


def test_the_bandit_goes_on_with_the_others_when_one_is_exhausted():
    space = Space([SpaceParameter("tile", range(10))])
    makers = {"short": lambda space, rng: Scripted("short", [1]), "random": RandomSearch}
    bandit = Bandit(space, random.Random(0), makers)
    names = set()
    for _ in range(20):
        index = bandit.ask()
        names.add(bandit.name)
        bandit.tell(index, 1.0)
    assert names == {"short", "random"}
    only = Bandit(space, random.Random(0), {"short": makers["short"]})
    assert [only.ask(), only.ask()] == [1, None]
