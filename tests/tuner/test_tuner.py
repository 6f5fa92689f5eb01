"""The public tuner: spaces of parameters, searches, what ends them, asking and telling."""

import math
import pickle
import random
import sys

import pytest

from mdtensor.autotune.search.abort_conditions import Progress
from mdtensor.autotune.trial import Trial
from mdtensor.errors import SpaceError, TuningError
from mdtensor.tuner import (
    TECHNIQUES,
    Parameter,
    Space,
    Tuner,
    cost_reached,
    divides,
    duration,
    evaluations,
    fraction,
    invalid,
    search,
    speedup,
)
from tests.counted import no_collections


def saxpy(count):
    return [
        Parameter("WPT", range(1, count + 1), divides(count)),
        Parameter("LS", range(1, count + 1), divides(lambda WPT: count // WPT)),
    ]


def small():
    return Space(
        [
            Parameter("tile", range(1, 61), divides(60)),
            Parameter("step", range(1, 61), divides("tile")),
            Parameter("share", (0.25, 0.5, 1.0)),
        ]
    )


def small_cost(c):
    if c["tile"] * c["step"] > 200:
        return invalid("too many registers", "compile_error")
    return 1 + abs(c["tile"] - 20) + abs(c["step"] - 4) + abs(c["share"] - 0.5)


BEST = {"tile": 20, "step": 4, "share": 0.5}


def lines_of(work):
    """How many lines of Python run, those of loops each time."""
    count = 0

    def counted(frame, event, argument):
        nonlocal count
        count += event == "line"
        return counted

    before = sys.gettrace()
    sys.settrace(counted)
    try:
        with no_collections():
            work()
    finally:
        sys.settrace(before)
    return count


def test_making_the_space_of_saxpy_takes_as_long_as_it_has_configurations():
    assert lines_of(lambda: Space(saxpy(1 << 20))) < 4 * lines_of(lambda: Space(saxpy(1 << 10)))
    space = Space(saxpy(1 << 20))
    assert space.size == 21 * 22 // 2
    assert space.groups == (("WPT", "LS"),)


@pytest.mark.parametrize("count", [1, 12, 97, 144])
def test_the_space_of_saxpy_is_the_one_that_functions_describe(count):
    functions = [
        Parameter("WPT", range(1, count + 1), lambda WPT: count % WPT == 0),
        Parameter("LS", range(1, count + 1), lambda WPT, LS: (count / WPT) % LS == 0),
    ]
    one, other = Space(saxpy(count)), Space(functions)
    assert one.size == other.size
    assert {(*one.configuration(n).values(),) for n in range(one.size)} == {
        (*other.configuration(n).values(),) for n in range(other.size)
    }


def test_a_function_without_a_name_is_named_after_its_parameter():
    space = Space([Parameter("tile", range(1, 9), lambda tile: tile % 2 == 0)])
    assert space.explain_rejection({"tile": 3}) == (
        "constraint of 'tile' rejects constraint_of_tile(tile=3)"
    )


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_every_technique_finds_the_best_of_a_small_space(technique):
    space, evaluated = small(), []

    def cost(configuration):
        evaluated.append(space.index(configuration))
        return small_cost(configuration)

    found = search(space, cost, technique)
    assert sorted(evaluated) == list(range(space.size))
    assert found.stopped == "exhausted"
    assert found.best.configuration == BEST
    assert found.best.trial.cost == 1
    ranked = [each.trial.cost for each in found.ranked()]
    assert ranked == sorted(each.trial.cost for each in found.trials if each.trial.status == "ok")


@pytest.mark.parametrize("technique", sorted(set(TECHNIQUES) - {"exhaustive", "random"}))
def test_every_technique_finds_the_best_of_a_larger_space_by_a_part_of_it(technique):
    space = Space(saxpy(1 << 40))

    def cost(c):
        return 1 + abs(math.log2(c["WPT"]) - 3) + abs(math.log2(c["LS"]) - 8)

    assert space.size == 41 * 42 // 2
    found = [
        search(space, cost, technique, cost_reached(1) | evaluations(400), seed=seed)
        for seed in range(3)
    ]
    assert sorted(each.best.trial.cost for each in found)[1] == 1


def test_invalid_is_a_value_and_an_exception_passes():
    space = Space([Parameter("n", range(6))])
    costs = [math.inf, math.nan, None, invalid("no"), Trial("crashed", detail="SIGSEGV"), 3]
    found = search(space, lambda c: costs[c["n"]], "exhaustive")
    assert [each.trial.status for each in found.trials] == ["rejected"] * 4 + ["crashed", "ok"]
    assert found.best.configuration == {"n": 5}
    assert search(space, lambda _: None).best is None
    with pytest.raises(ZeroDivisionError):
        search(space, lambda c: 1 / c["n"], "exhaustive")


def test_what_is_no_cost_is_named():
    space = Space([Parameter("n", range(6))])
    with pytest.raises(TuningError, match=r"a cost is 0 or more, not -1\.0"):
        search(space, lambda _: -1)
    with pytest.raises(TuningError, match="'fast' is no cost"):
        search(space, lambda _: "fast")
    with pytest.raises(TuningError, match="unknown search technique 'best'") as caught:
        search(space, lambda _: 1, "best")
    assert "hill_climbing" in caught.value.hint
    with pytest.raises(TuningError, match="the space has no configuration"):
        search(Space([Parameter("n", range(6), lambda n: n > 6)]), lambda _: 1)


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def evaluated(abort, costs, seconds=1.0):
    """How many of these costs a search asks for."""
    clock = Clock()

    def cost(configuration):
        clock.now += seconds
        return costs[configuration["n"]]

    space = Space([Parameter("n", range(len(costs)))])
    found = search(space, cost, "exhaustive", abort, clock=clock)
    return len(found.trials)


COSTS = [math.inf, 100, 50, 40, 39, 39, 39, 20, 19, 19, 19, 19]


@pytest.mark.parametrize(
    ("abort", "count"),
    [
        (evaluations(5), 5),
        (duration(3.5), 4),
        (duration(minutes=0.1), 6),
        (fraction(0.5), 6),
        (cost_reached(40), 4),
        (speedup(1.1, evaluations=2), 6),
        (speedup(1.1, evaluations=3), 7),
        (speedup(1.1, seconds=2), 6),
        (speedup(1.1, evaluations=4), 12),
        (evaluations(5) & cost_reached(20), 8),
        (evaluations(5) | cost_reached(20), 5),
        (evaluations(100) | duration(2) & cost_reached(50), 3),
    ],
    ids=str,
)
def test_a_search_ends_when_its_condition_holds(abort, count):
    assert evaluated(abort, COSTS) == count
    assert evaluated(pickle.loads(pickle.dumps(abort)), COSTS) == count  # in another process


def test_nothing_is_lost_before_something_is_found():
    assert evaluated(speedup(2, evaluations=1), [math.inf] * 5 + [1, 1, 1]) == 7


def test_nothing_is_better_than_no_cost_at_all():
    assert evaluated(speedup(2, evaluations=2), [1] + [0] * 6) == 3


def test_conditions_that_make_no_sense_are_named():
    for wrong, message in [
        (lambda: duration(0), "a duration is greater than 0"),
        (lambda: evaluations(0), "a number of evaluations is greater than 0"),
        (lambda: fraction(1.5), r"lies in \(0, 1\]"),
        (lambda: speedup(2), "over seconds or over evaluations"),
        (lambda: speedup(2, seconds=1, evaluations=1), "over seconds or over evaluations"),
        (lambda: speedup(1, seconds=1), "a factor above 1"),
    ]:
        with pytest.raises(TuningError, match=message):
            wrong()


def test_progress_knows_the_best_after_each_evaluation():
    progress = Progress(10)
    assert progress.cost == math.inf
    for at, cost in enumerate([math.inf, 5.0, 7.0, 3.0]):
        progress.add(cost, float(at))
    assert progress.best == [math.inf, 5.0, 5.0, 3.0]
    assert (progress.evaluations, progress.cost, progress.elapsed) == (4, 3.0, 3.0)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_several_are_asked_for_before_any_is_told(technique):
    space, rng = small(), random.Random(0)
    tuner, pending, seen = Tuner(space, technique), [], set()
    while True:
        while len(pending) < 7 and (configuration := tuner.ask()) is not None:
            assert space.index(configuration) not in seen
            seen.add(space.index(configuration))
            pending.append(configuration)
        if not pending:
            break
        told = pending.pop(rng.randrange(len(pending)))
        tuner.tell(told, small_cost(told))
    assert tuner.done
    assert len(seen) == space.size
    assert tuner.best.configuration == BEST
    assert tuner.outcome().stopped == "exhausted"


def test_what_was_not_asked_for_may_be_told_and_is_not_asked_for():
    space = small()
    tuner = Tuner(space, "exhaustive")
    assert tuner.tell(BEST, 1).proposer == "told"
    asked = []
    while (configuration := tuner.ask()) is not None:
        asked.append(configuration)
        tuner.tell(configuration, small_cost(configuration))
    assert BEST not in asked
    assert len(asked) == space.size - 1
    with pytest.raises(SpaceError, match="'tile' is 7"):
        tuner.tell({"tile": 7, "step": 1, "share": 1.0}, 1)


def test_known_costs_count_and_are_part_of_the_outcome():
    space = small()
    known = [(BEST, 1.0), ({"tile": 60, "step": 60, "share": 1.0}, invalid("too large"))]
    found = search(space, small_cost, abort=evaluations(10), known=known)
    assert [each.proposer for each in found.trials[:2]] == ["known", "known"]
    assert len(found.trials) == 10
    assert found.best.configuration == BEST


def test_starts_come_first_and_chance_is_repeatable():
    starts = [{"tile": 12, "step": 6, "share": 0.5}, {"tile": 7, "step": 1, "share": 1.0}]
    runs = [
        search(small(), small_cost, abort=evaluations(20), starts=starts, seed=3) for _ in range(2)
    ]
    first, second = ([each.configuration for each in run.trials] for run in runs)
    assert first == second
    assert first[0] == starts[0]
    assert first[1] in small()


def test_an_interrupted_search_returns_what_was_found():
    left = iter(range(5))

    def cost(configuration):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return small_cost(configuration)

    found = search(small(), cost)
    assert found.interrupted
    assert len(found.trials) == 5
