"""Candidates for scans on GPUs: valid, right, and in a sensible order."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.scan.scan_candidates import scan_candidates, scan_estimate
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import PrefixSum, named
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.scalar import param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec
from tests.kernels.kernel_cases import compositions, prefix_sums
from tests.lower import fuzz
from tests.lower.md_hom_cases import single_case
from tests.targets import H200


def sums(count: int) -> MDHom:
    add, x = PrefixSum(named("add", ["f4"])), param(0, "f4")
    view = (BufferAccess(0, (AffineIndex.of("i"),)),)
    spec = TensorSpec.of((count,))
    scalar = ScalarFunction((x.dtype,), (x,), "id")
    dims = (Dim("i", count, add),)
    return MDHom(dims, scalar, (BufferSpec("x", spec),), (BufferSpec("y", spec),), view, view)


LARGE = {
    "a vector": sums(1 << 24),
    "rows": prefix_sums(4096, 4096, "j"),
    "short rows": prefix_sums(1 << 18, 50, "j"),
    "columns": prefix_sums(4096, 4096, "i"),
    "pairs": compositions(1 << 20),
}


def problem_of(name: str) -> Problem:
    return problem_from_md_hom(LARGE[name])


@pytest.mark.parametrize("name", LARGE)
def test_candidates_can_be_rendered_and_keep_the_limits(name):
    problem = problem_of(name)
    found = list(scan_candidates(problem, H200))
    assert len(found) == len(set(found)) > 5
    for schedule in found[:: -(-len(found) // 5)]:
        assert 32 <= math.prod(schedule.threads) <= H200.max_threads
        assert 0 < scan_estimate(problem, schedule, H200) < 10
        assert "__global__" in program_of(problem, schedule, CUDA).text


@pytest.mark.parametrize(
    "md_hom", [prefix_sums(3, 301, "j"), prefix_sums(67, 19, "i"), compositions(901)]
)
def test_candidates_are_right(md_hom):
    found = list(scan_candidates(problem_from_md_hom(md_hom), H200))
    ranges = ((-9, 9),) * len(md_hom.inputs)
    for schedule in found[:: max(1, len(found) // 8)]:
        assert fuzz.check(single_case(md_hom, schedule, ranges))


def test_a_vector_is_shared_by_groups_that_tell_each_other():
    problem = problem_of("a vector")
    _, best = ranked(problem, H200)[0]
    assert best.resident
    assert best.parts[0] >= H200.cores
    found = scan_candidates(problem, replace(H200, counts_groups=False))
    assert {schedule.parts for schedule in found} == {(1,)}


def test_rows_are_scanned_by_groups_of_their_own():
    _, best = ranked(problem_of("rows"), H200)[0]
    assert best.parts == (4096, 1)
    assert best.threads[1] >= 32


def test_columns_are_scanned_by_neighbours():
    _, best = ranked(problem_of("columns"), H200)[0]
    assert best.threads[1] == 32
    assert best.group_order[-1] == 1
