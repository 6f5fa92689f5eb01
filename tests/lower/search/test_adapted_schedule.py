"""Schedules of other shapes: what is fitted is valid, keeps what it can, and computes right."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.rules.valid import is_valid
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.adapted_schedule import adapted
from mdtensor.lower.search.candidates import ranked
from tests.lower.random_schedules import random_schedule
from tests.problems import einsum_problem as problem_of
from tests.targets import CPU, H200


def product(m: int, k: int, n: int) -> Problem:
    return problem_of("ij,jk->ik", (m, k), (k, n))


def extents_of(problem: Problem) -> list[int]:
    return [problem.extent(d) for d in problem.dims]


def test_what_suits_one_shape_is_kept_for_one_like_it() -> None:
    before, after = product(512, 512, 512), product(640, 512, 768)
    _, schedule = ranked(before, CPU, most=1)[0]
    found = adapted(after, schedule, extents_of(before), CPU)
    assert found is not None
    assert (found.registers, found.lane, found.staged) == (
        *(schedule.registers, schedule.lane),
        schedule.staged,
    )


def test_tiles_and_parts_are_no_longer_than_the_dims_are() -> None:
    before, after = product(64, 64, 64), product(3, 5, 7)
    wide = replace(
        plain(before), lane=2, width=16, registers=(8, 4, 32), tiles=(16, 32, 0), parts=(4, 1, 2)
    )
    found = adapted(after, wide, extents_of(before), CPU)
    assert found is not None
    assert found.registers == (3, 4, 16)
    assert found.tiles == (0, 0, 0)
    assert found.parts == (1, 1, 1)


def test_windows_that_were_written_out_still_are() -> None:
    before = problem_of("ab,bc->ac", (40, 3), (3, 64))
    after = problem_of("ab,bc->ac", (40, 5), (5, 64))
    whole = replace(plain(before), registers=(1, 3, 1))
    found = adapted(after, whole, extents_of(before), CPU)
    assert found is not None
    assert found.registers[1] == 5


def test_stores_past_the_caches_are_left_out_where_rows_are_no_whole_vectors() -> None:
    before, after = product(512, 8, 512), product(511, 8, 509)
    streamed = replace(plain(before), lane=2, width=16, registers=(1, 1, 16), streaming=True)
    assert is_valid(before, streamed)
    found = adapted(after, streamed, extents_of(before), CPU)
    assert found is not None
    assert (found.streaming, found.registers) == (False, (1, 1, 16))


@pytest.mark.parametrize(
    "odd",
    [
        replace(plain(product(2, 3, 4)), asm="gpu"),
        replace(plain(product(2, 3, 4)), registers=(1, 1)),
        replace(plain(product(2, 3, 4)), registers=(1, 0, 1)),
        replace(plain(product(2, 3, 4)), lane=7, width=4),
        replace(plain(product(2, 3, 4)), staged=("scratch",)),
        replace(plain(product(2, 3, 4)), group_order=(0, 0, 1)),
    ],
)
def test_what_is_no_schedule_of_the_structure_is_none(odd: Schedule) -> None:
    assert adapted(product(3, 4, 5), odd, (2, 3, 4), CPU) is None


def test_gpus_have_none() -> None:
    made = replace(plain(product(2, 3, 4)), asm="gpu")
    assert adapted(product(3, 4, 5), made, (2, 3, 4), H200) is None
    assert adapted(product(3, 4, 5), plain(product(2, 3, 4)), (2, 3), CPU) is None


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("ij,jk->ik", ((64, 48), (48, 80)), ((31, 33), (33, 37))),
        ("ij,jk->ik", ((7, 48), (48, 5)), ((64, 100), (100, 64))),
        ("ij->i", ((64, 200),), ((3, 1000),)),
        ("ij->ji", ((64, 200),), ((65, 3),)),
        ("bij,bjk->bik", ((3, 16, 16), (3, 16, 16)), ((5, 17, 9), (5, 9, 19))),
    ],
)
def test_valid_schedules_of_one_shape_become_valid_ones_of_another(
    text: str, before: tuple[tuple[int, ...], ...], after: tuple[tuple[int, ...], ...]
) -> None:
    one, other = problem_of(text, *before), problem_of(text, *after)
    rng, fitted = random.Random(0), 0
    for _ in range(300):
        schedule = random_schedule(rng, one, "cpu")
        if not is_valid(one, schedule):
            continue
        found = adapted(other, schedule, extents_of(one), CPU)
        if found is None:
            continue
        fitted += 1
        assert is_valid(other, found)
        for d in other.dims:
            bound = found.width if d == found.lane else 1
            assert found.registers[d] < other.extent(d) + bound
            assert found.tiles[d] < other.extent(d)
    assert fitted > 50
