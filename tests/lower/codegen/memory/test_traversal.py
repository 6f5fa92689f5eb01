"""The order of products: every one once, operands used again at every turn."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

from mdtensor.lower.codegen.base.frame import Frame, tile_of
from mdtensor.lower.codegen.base.staged_layouts import layouts_of
from mdtensor.lower.codegen.memory.traversal import Point, Steps, traversed
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.schedule.rules.valid import is_valid
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from tests.kernels.kernel_cases import Case, einsum, gpu
from tests.lower.codegen.base.test_source_layout import convolution
from tests.lower.random_resident import random_resident_schedule

SIZES = {"i": 16, "j": 8, "k": 16, "l": 4}
MATMUL, COLUMNS = einsum("ik,kj->ij", SIZES), einsum("ik,kjl->ilj", SIZES)


def order(einsum_or_problem: object, schedule: Schedule) -> list[tuple[Steps, Point]]:
    problem = einsum_or_problem
    if not hasattr(problem, "extents"):
        problem = Case(einsum_or_problem, schedule).problem()
    tilings = tilings_of(problem, schedule)
    frame = Frame(problem, schedule, tilings, layouts_of(problem, schedule, tilings), aligned=True)
    tile = tile_of(frame, {d: tilings[d].register for d in problem.kept})
    counts = {d: tilings[d].register for d in problem.contracted}
    steps = list(
        itertools.product(*(tilings[d].positions(counts[d]) for d in schedule.reduce_order))
    )
    return list(traversed(frame, tile.points, counts, steps))


def matmul(**values: object) -> Schedule:
    plain = {
        "threads": (4, 1, 2),
        "registers": (4, 4, 2),
        "chunks": (1, 4, 2),
        "tiles": (0, 8, 0),
        "staged": ("local", "local"),
        "resident": True,
    }
    dims = Case(MATMUL, gpu(3, (1,))).problem().labels
    assert dims == ("i", "k", "j")
    return gpu(3, (1,), **(plain | values))


def places(found: list[tuple[Steps, Point]]) -> list[tuple[int, tuple[int, ...]]]:
    return [(step[0], point) for step, (_, point) in found]


def test_rows_are_walked_there_and_back():
    found = places(order(MATMUL, matmul()))
    assert found[:4] == [(0, (0, 0)), (0, (0, 1)), (0, (4, 1)), (0, (4, 0))]
    assert found[8:10] == [(1, (0, 0)), (1, (0, 1))]


def test_two_rows_take_the_steps_of_a_wide_access_together():
    found = places(order(MATMUL, matmul(as_source=(True, False))))
    pair = [(0, 0), (0, 1), (4, 1), (4, 0)]
    assert found[:16] == [(step, point) for step in range(4) for point in pair]
    assert [point for _, point in found[16:18]] == [(8, 0), (8, 1)]


def test_a_row_has_all_points_that_share_an_element():
    schedule = gpu(
        4,
        (1,),
        threads=(4, 1, 2, 1),
        registers=(2, 1, 2, 2),
        chunks=(1, 1, 1, 2),
        tiles=(0, 8, 0, 0),
        staged=("local", "local"),
        resident=True,
    )
    assert Case(COLUMNS, schedule).problem().labels == ("i", "k", "j", "l")
    points = [point for _, point in places(order(COLUMNS, schedule))]
    first = [point[1:] for point in points[:4]]
    assert points[:8] == [(0, *p) for p in first] + [(4, *p) for p in reversed(first)]


def test_every_point_meets_every_step_once_and_in_order():
    problem = problem_from_md_hom(convolution())
    checked = 0
    for number in range(60):
        drawn = random_resident_schedule(random.Random(number), problem)
        schedule = replace(drawn, staged=("local", "local"), as_source=(True, False))
        if not is_valid(problem, schedule):
            continue
        checked += 1
        by_point: dict[Point, list[Steps]] = {}
        for steps, point in order(problem, schedule):
            by_point.setdefault(point, []).append(steps)
        (met,) = {tuple(steps) for steps in by_point.values()}
        assert len(set(met)) == len(met)
        assert list(met) == sorted(met)
    assert checked > 20
