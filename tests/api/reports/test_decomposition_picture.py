"""The (de/re)-composition: its parts cover each dim, its picture says what the schedule does."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from mdtensor.api.reports.decomposition_picture import decomposition, decomposition_picture
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import Target, TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import MDHom
from tests.lower.random_schedules import random_schedule
from tests.targets import CPU, H200


def md_hom(text: str, *shapes: tuple[int, ...]) -> MDHom:
    return md_hom_from_einsum(text, [TensorSpec.of(s, np.dtype("f4")) for s in shapes])


PRODUCT = md_hom("ij,jk->ik", (300, 200), (200, 500))
SCHEDULE = Schedule(
    "cpu",
    parts=(1, 2, 8),
    tiles=(0, 50, 0),
    threads=(1, 1, 1),
    registers=(6, 1, 16),
    lane=2,
    width=8,
    group_order=(2, 1, 0),
    loop_order=(0, 2),
    reduce_order=(1,),
    staged=("", "scratch"),
)


def test_parts_and_order_of_a_schedule() -> None:
    rows = decomposition(problem_from_md_hom(PRODUCT), SCHEDULE)
    found = [[(part.parts, part.size, part.order) for part in row] for row in rows]
    assert found == [
        [(1, 300, None), (2, 100, 1), (8, 64, 0)],  # cores, k before j
        [(1, 300, None), (2, 50, 2), (1, 64, None)],  # cache tiles
        [(50, 6, 3), (50, 1, 5), (4, 16, 4)],  # register tiles: i, k, then the sum
        [(1, 6, None), (1, 1, None), (8, 2, 6)],  # lanes
    ]


@pytest.mark.parametrize("seed", range(30))
def test_parts_cover_every_dim(seed: int) -> None:
    rng = random.Random(seed)
    problem = problem_from_md_hom(PRODUCT)
    check(problem, random_schedule(rng, problem, "cpu"))


@pytest.mark.parametrize("target", [CPU, H200], ids=["cpu", "gpu"])
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ij,jk->ik", ((300, 200), (200, 500))),
        ("ij->i", ((7, 100_000),)),
        ("abc,cd->abd", ((3, 5, 7), (7, 11))),
        ("i,i->", ((1000,), (1000,))),
        (",->", ((), ())),
    ],
)
def test_candidates_are_drawn(target: Target, text: str, shapes: tuple[tuple[int, ...]]) -> None:
    made = md_hom(text, *shapes)
    problem = problem_from_md_hom(made)
    for _, schedule in ranked(problem, target)[:8]:
        check(problem, schedule)
        picture = decomposition_picture(made, problem, schedule)
        root = ElementTree.fromstring(picture.svg())
        names = {e.text for e in root.iter("{http://www.w3.org/2000/svg}text")}
        layers = ("core", "cache") if target is CPU else ("grid", "thread")
        assert {*layers, *problem.labels} <= names


def check(problem: object, schedule: Schedule) -> None:
    """Every layer divides what the one above leaves, and steps are numbered without gaps."""
    from mdtensor.lower.problem.problem import Problem

    assert isinstance(problem, Problem)
    rows = decomposition(problem, schedule)
    for d in problem.dims:
        column = [row[d] for row in rows]
        assert math.prod(p.parts for p in column) * column[-1].size >= problem.extent(d)
        size = problem.extent(d)
        for part in column:
            assert (part.parts - 1) * part.size < size <= part.parts * part.size
            size = part.size
    orders = [part.order for row in rows for part in row]
    numbered = [order for order in orders if order is not None]
    assert sorted(numbered) == list(range(len(numbered)))
    assert len(numbered) == sum(part.parts > 1 for row in rows for part in row)


def test_memories_and_operators_are_named() -> None:
    problem = problem_from_md_hom(PRODUCT)
    texts = list(
        ElementTree.fromstring(decomposition_picture(PRODUCT, problem, SCHEDULE).svg()).itertext()
    )
    for text in ("B: scratch", "scratch", "add", "++", "A (i, j)", "out (i, k)", "mul", "8 ×"):
        assert text in texts


def test_parts_that_launches_decide_are_said_to_be() -> None:
    problem = problem_from_md_hom(PRODUCT)
    general = replace(SCHEDULE, parts=(0, 1, 1))
    assert "at launch" in decomposition_picture(PRODUCT, problem, general).svg()
