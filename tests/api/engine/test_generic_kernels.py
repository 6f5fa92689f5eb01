"""Structures: what is decided of a shape by what was said of others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mdtensor.api.engine.generic_kernels import Decision, Structure
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.schedule.default_schedule import plain
from tests.problems import einsum_problem

LEAST, MOST = 10e-6, 1e-3


@pytest.fixture
def structure() -> Structure[str]:
    problem = einsum_problem("ij,jk->ik", (20, 30), (30, 40))
    return Structure(generalised(problem)[0])


def sizes(m: int, k: int, n: int) -> tuple[int, ...]:
    return m, k, n, k, n, n


def decision(structure: Structure[str], groups: int, seconds: float) -> Decision:
    return Decision(plain(structure.general), groups, seconds)


def test_nothing_is_decided_without_the_cost_model(structure: Structure[str]) -> None:
    assert structure.decided(sizes(20, 30, 40), LEAST, MOST) is None


def test_the_seconds_of_a_near_shape_go_with_its_points(structure: Structure[str]) -> None:
    said = decision(structure, 1, 4e-6)
    structure.decide(sizes(20, 30, 40), said)
    assert structure.decided(sizes(20, 30, 40), LEAST, MOST) == said
    found = structure.decided(sizes(40, 30, 40), LEAST, MOST)
    assert found is not None
    assert found.groups == 1
    assert found.scaled
    assert found.seconds == pytest.approx(8e-6)
    assert structure.decided(sizes(20, 30, 260), LEAST, MOST) is None, "not near"


def test_shapes_that_nobody_decided_leave_nothing(structure: Structure[str]) -> None:
    structure.decide(sizes(20, 30, 40), decision(structure, 1, 4e-6))
    for m in (40, 80, 160, 320):
        structure.decided(sizes(m, 30, 40), LEAST, MOST)
    assert len(structure.shapes) == 1, "they would take the places of neighbours"


@pytest.mark.parametrize(
    ("groups", "seconds", "m"), [(1, 18e-6, 30), (4, 6e-6, 12), (8, 0.8e-3, 30)]
)
def test_where_it_matters_the_cost_model_is_asked(
    structure: Structure[str], groups: int, seconds: float, m: int
) -> None:
    structure.decide(sizes(20, 30, 40), decision(structure, groups, seconds))
    assert structure.decided(sizes(20, 30, 41), LEAST, MOST) is not None
    assert structure.decided(sizes(m, 30, 40), LEAST, MOST) is None


def test_a_new_kernel_ends_what_was_decided_without_it(structure: Structure[str]) -> None:
    said = decision(structure, 1, 4e-6)
    structure.decide(sizes(20, 30, 40), said)
    structure.add(replace(said.variant, width=8), "a kernel")
    assert structure.decided(sizes(20, 30, 40), LEAST, MOST) is None
