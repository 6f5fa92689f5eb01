"""CUDA text of kernels whose accumulators stay, compiled by NVRTC: it says what the text means."""

from __future__ import annotations

import random

import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.base.block_shapes import blocked
from mdtensor.lower.gpu.register_blocking.gpu_candidates import ranked_on_gpu
from tests.kernels.nvrtc_compiler import compiled
from tests.lower import fuzz
from tests.lower.gpu.candidates.test_gpu_candidates import problem_of
from tests.lower.random_resident import random_resident_schedule
from tests.targets import H200


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_a_block_is_read_in_wide_pieces_and_meets_two_barriers_a_tile(architecture):
    problem = problem_of("ik,kj->ij")
    schedule = blocked(problem, (8, 8), (8, 16), 8)
    ptx = compiled(program_of(problem, schedule, CUDA).text, architecture)
    assert ptx.count("ld.shared.v4.f32") >= 8 * (2 + 2)
    # NVRTC was seen to take one of them apart, in one run of many.
    assert ptx.count("ld.shared.f32") <= 4
    assert "ld.global.nc.v4.f32" in ptx
    assert "st.global.v4.f32" in ptx
    assert ptx.count("bar.sync") == 2
    # Every accumulator is moved once before it is stored.
    assert ptx.count("fma.rn.f32") == 8 * 8 * 8 + 8 * 8


@pytest.mark.parametrize("text", ["ij,j->i", "ij,i->j", "gdab,efgc->abcdef"])
def test_first_choices_compile(text):
    problem = problem_of(text)
    _, schedule = ranked_on_gpu(problem, H200)[0]
    assert ".entry kernel_0(" in compiled(program_of(problem, schedule, CUDA).text, "sm_90a")


def test_random_schedules_compile():
    count = 0
    for number in range(16):
        case = fuzz.random_case(f"13/gpu/{number}")
        problem = case.problem()
        if not problem.contracted:
            continue
        schedule = random_resident_schedule(random.Random(number), problem)
        try:
            text = program_of(problem, schedule, CUDA).text
        except LoweringError:
            continue
        assert ".entry kernel_0(" in compiled(text, "sm_80")
        count += 1
    assert count > 5
