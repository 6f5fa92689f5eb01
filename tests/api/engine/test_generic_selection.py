"""General kernels: the sizes of a launch are those of the lowering for the same extents."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mdtensor.api.engine.generic_selection import block_by_block, launch_sizes, without_parts
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.tiling import tilings_of
from tests.problems import einsum_problem


def product(m: int, k: int, n: int) -> Problem:
    return einsum_problem("ij,jk->ik", (m, k), (k, n))


@pytest.mark.parametrize("seed", range(20))
def test_launches_have_the_parts_of_the_lowering(seed: int) -> None:
    rng = random.Random(seed)
    extents = rng.choices(range(2, 200), k=3)
    problem = product(*extents)
    registers, parts = (tuple(rng.choices((1, 2, 4, 7), k=3)) for _ in range(2))
    schedule = replace(plain(problem), registers=registers, parts=parts)
    found = launch_sizes([problem.extent(d) for d in problem.dims], schedule, parts)
    tilings = tilings_of(problem, schedule)
    lengths = [each.part.constant // each.block for each in tilings if each.part.constant]
    assert found == [*lengths, *[each.parts.constant for each in tilings]]


def test_a_general_schedule_splits_reductions_only_where_one_did() -> None:
    problem = product(64, 65, 66)
    reduced = problem.contracted[0]
    whole = plain(problem)
    split = replace(whole, parts=tuple(4 if d == reduced else 1 for d in problem.dims))
    assert [without_parts(problem, s).parts[reduced] for s in (whole, split)] == [1, 0]
    kept = [without_parts(problem, whole).parts[d] for d in problem.kept]
    assert kept == [0, 0]


def test_blocks_of_kept_dims_are_groups_on_a_gpu() -> None:
    problem = product(64, 65, 66)
    reduced = problem.contracted[0]
    schedule = replace(plain(problem), registers=(4, 4, 4), threads=(2, 2, 2))
    expected = tuple(1 if d == reduced else -(-problem.extent(d) // 8) for d in problem.dims)
    assert block_by_block(problem, schedule).parts == expected
