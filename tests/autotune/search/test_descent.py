"""Where a search begins: downhill by what a model expects."""

import math
from random import Random

from mdtensor.autotune.search.descent import descended
from mdtensor.autotune.space.space import Space
from mdtensor.lower.schedule.parameter import SpaceParameter

SPACE = Space([SpaceParameter("rows", range(1, 50)), SpaceParameter("columns", range(1, 50))])


def expected(configuration):
    return abs(configuration["rows"] - 30) + abs(configuration["columns"] - 12)


def columns(configuration):
    return configuration["columns"]


def test_goes_downhill_and_gives_one_of_each_kind_the_best_first():
    found = descended(
        SPACE, expected, [{"rows": 2, "columns": 40}], Random(0), evaluations=2000, kind=columns
    )
    costs = [expected(configuration) for configuration in found]
    assert costs[0] == 0
    assert costs == sorted(costs)
    assert len({columns(configuration) for configuration in found}) == len(found) > 1


def test_what_cannot_be_is_neither_passed_through_nor_found():
    def walled(configuration):
        return math.inf if configuration["rows"] > 20 else expected(configuration)

    found = descended(
        SPACE, walled, [{"rows": 2, "columns": 40}], Random(0), evaluations=2000, kind=columns
    )
    assert found[0] == {"rows": 20, "columns": 12}
    assert all(configuration["rows"] <= 20 for configuration in found)


def test_evaluates_no_more_than_it_may():
    seen = []

    def counted(configuration):
        seen.append(configuration)
        return expected(configuration)

    starts = [{"rows": 2, "columns": 40}, {"rows": 40, "columns": 2}]
    descended(SPACE, counted, starts, Random(0), evaluations=30, kind=columns)
    assert 2 < len(seen) <= 30 + len(starts)
    assert descended(SPACE, counted, starts, Random(0), evaluations=0, kind=columns) == []
