"""Fixed values of schedules: which there are, and the spaces that they leave."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from mdtensor.autotune.space.space import Space
from mdtensor.errors import TuningError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.search.fixed_values import Fixed
from mdtensor.lower.search.schedule_space import parameters_of, schedule_from
from mdtensor.specs import Target
from tests.problems import einsum_problem
from tests.targets import CPU, H200


def product() -> Problem:
    return einsum_problem("ij,jk->ik", (60, 100), (100, 200), dtype=np.float32)


FIXED: list[tuple[Target, dict[str, Any]]] = [
    (CPU, {"tiles": {"i": 16, "k": 0}}),
    (CPU, {"registers": {"k": 64}}),
    (CPU, {"lanes": "k", "registers": {"i": 4, "k": 32}, "streaming": False}),
    (CPU, {"parts": (4, 1, 1), "staged": {1: "scratch"}}),
    (CPU, {"group_order": "k i j", "loop_order": ["i", "k"], "inline": False}),
    (CPU, {"ahead": 8, "tail": "split", "width": 16}),
    (H200, {"threads": {"i": 8}, "registers": {"k": 4}}),
    (H200, {"staged": ("local", "local"), "stages": 3, "swath": 1}),
    (H200, {"resident": True, "padding": {0: 4}}),
]


@pytest.mark.parametrize(("target", "given"), FIXED, ids=lambda each: str(each)[:40])
def test_what_is_left_has_the_fixed_values(target: Target, given: dict[str, Any]) -> None:
    problem = product()
    fixed = Fixed.of(problem, given)
    parameters = parameters_of(problem, target)
    whole, narrowed = Space(parameters), Space(fixed.narrowed(parameters))
    assert 0 < narrowed.size < whole.size
    rng = Random(0)
    held = 0
    for _ in range(30):
        configuration = narrowed.sample(rng)
        assert configuration in whole
        held += fixed.hold(schedule_from(problem, target, configuration))
    # On GPUs some of a schedule follows from several parameters, and is asked for again.
    assert held == 30 if target is CPU else held > 0
    for _ in range(200):  # nothing that has them is lost
        configuration = whole.sample(rng)
        if fixed.hold(schedule_from(problem, target, configuration)):
            assert configuration in narrowed


def test_a_schedule_has_its_own_values_and_no_others() -> None:
    problem = product()
    schedule = plain(problem)
    assert Fixed.of(problem, {}).hold(schedule)
    assert Fixed.of(problem, {"tiles": schedule.tiles, "tail": schedule.tail}).hold(schedule)
    assert not Fixed.of(problem, {"tiles": {"i": 16}}).hold(schedule)
    assert Fixed.of(problem, {"chunks": {"i": 0}, "stages": 1}).hold(schedule)
    assert str(Fixed.of(problem, {"tiles": {"i": 16}, "lanes": "none"})) == "tiles i:16, lane none"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"tile": 1}, "schedules have no 'tile' that could be fixed"),
        ({"asm": "cpu"}, "schedules have no 'asm' that could be fixed"),
        ({3: 1}, "schedules have no 3 that could be fixed"),
        ({"tiles": {"z": 1}}, "tiles: there is no 'z' among the dims\n  hint: dims: i, j, k"),
        ({"tiles": (1, 2)}, r"tiles has a value for each of the dims \(i, j, k\), not \(1, 2\)"),
        ({"tiles": {"i": True}}, "tiles: True is no int"),
        ({"tiles": {"i": 2.0}}, "tiles: 2.0 is no int"),
        (
            {"staged": {5: "scratch"}},
            "staged: there is no 5 among the inputs\n  hint: inputs",
        ),
        ({"lanes": "q"}, "lane: there is no dim 'q'\n  hint: dims: i, j, k"),
        ({"loop_order": 3}, "loop_order is an order of dims, not 3"),
        ({"streaming": 1}, "streaming: 1 is no bool"),
        ({"ahead": 65}, "schedule.ahead is between 0 and 64, not 65"),
        ({"tail": "cut"}, r"schedule.tail is none of \('split', 'pad', 'overlap'\), not 'cut'"),
    ],
)
def test_what_schedules_do_not_have_is_named(given: dict[Any, Any], text: str) -> None:
    with pytest.raises(TuningError, match=text):
        Fixed.of(product(), given)
