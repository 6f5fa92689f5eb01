"""Configurations of the space of a GPU: the schedule of a schedule's configuration is that one."""

from __future__ import annotations

import random

import pytest

from mdtensor.autotune.space.space import Space
from mdtensor.lower.gpu.space.gpu_configurations import configuration_on_gpu, schedule_on_gpu
from mdtensor.lower.gpu.space.gpu_space import gpu_parameters
from mdtensor.lower.search.candidates import ranked
from tests.lower.gpu.candidates.test_gpu_candidates import SHAPES, problem_of
from tests.problems import einsum_problem
from tests.targets import H200


@pytest.mark.parametrize("text", SHAPES)
def test_a_candidate_is_the_schedule_of_its_configuration(text: str) -> None:
    problem = problem_of(text)
    space = Space(gpu_parameters(problem, H200))
    for _, schedule in ranked(problem, H200)[:8]:
        place = space.nearest(configuration_on_gpu(problem, schedule), random.Random(0))
        assert place is not None
        assert schedule_on_gpu(problem, H200, place) == schedule


def test_a_computation_without_dims_has_its_place() -> None:
    problem = einsum_problem("i,i->", (1,), (1,))
    assert not problem.extents
    space = Space(gpu_parameters(problem, H200))
    ((_, schedule),) = ranked(problem, H200)
    place = space.nearest(configuration_on_gpu(problem, schedule), random.Random(0))
    assert place is not None
    assert schedule_on_gpu(problem, H200, place) == schedule
