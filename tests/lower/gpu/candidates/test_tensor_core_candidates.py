"""Candidates with products of matrices: valid, within the limits of the device, and only where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.space.gpu_ranking import misfit
from mdtensor.lower.gpu.tensor_cores.tensor_core_candidates import matrix_candidates, matrix_dims
from mdtensor.lower.gpu.tensor_cores.tensor_core_cost import matrix_bytes
from mdtensor.lower.search.candidates import ranked
from tests.lower.gpu.candidates.test_gpu_candidates import problem_of
from tests.targets import H200

HOPPER = replace(H200, matrices=True)


def test_candidates_can_be_rendered_and_fit():
    problem = problem_of("ik,kj->ij", "f2")
    found = list(matrix_candidates(problem, HOPPER))
    assert len(found) == len(set(found)) > 50
    for schedule in found[::25]:
        source = program_of(problem, schedule, CUDA)
        assert "multiply_add(" in source.text
        assert source.entries[0].pool <= matrix_bytes(problem, schedule) + 4096 <= 228 << 10


def test_a_search_rejects_none_of_them():
    problem, device = problem_of("ik,kj->ij", "f2"), replace(HOPPER, local_bytes=227 << 10)
    for schedule in matrix_candidates(problem, device):
        assert misfit(problem, schedule, device) == ""


def test_an_untuned_product_of_half_floats_gets_one():
    assert ranked(problem_of("ik,kj->ij", "f2"), HOPPER)[0][1].tensor == (0, 2, 1)


@pytest.mark.parametrize("dtype", ["f4", "i1"])
def test_other_types_get_none(dtype):
    assert not list(matrix_candidates(problem_of("ik,kj->ij", dtype), HOPPER))


def test_devices_without_matrices_get_none():
    assert not list(matrix_candidates(problem_of("ik,kj->ij", "f2"), H200))


@pytest.mark.parametrize("text", ["gdab,efgc->abcdef", "ki,jk->ij", "ij,j->i", "i,i->"])
def test_there_are_none_without_rows_and_columns_that_lie_right(text):
    """Results along no dim of one factor, rows of 500 half floats, or no rows at all."""
    assert matrix_dims(problem_of(text, "f2")) is None
