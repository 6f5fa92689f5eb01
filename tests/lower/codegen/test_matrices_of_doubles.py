"""Products of matrices of float64 by warps: as loops on the OpenCL device, and emulated CUDA."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from mdtensor.autotune.space.space import Space
from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.base.gpu_kind import BULK, MATRICES
from mdtensor.lower.gpu.space.gpu_kinds import kinds_of
from mdtensor.lower.gpu.space.gpu_ranking import misfit
from mdtensor.lower.gpu.tensor_cores.tensor_core_candidates import matrix_candidates
from mdtensor.lower.lowering import lowered
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.lower.search.schedule_space import configuration_from, parameters_of, schedule_from
from tests.kernels.emulated_ptx import EmulatedGpu
from tests.kernels.kernel_cases import Case, einsum, gpu, matmul
from tests.kernels.nvrtc_compiler import ARCHITECTURES, compiled, compiler_log
from tests.lower import fuzz
from tests.lower.codegen.register_blocking.test_tensor_core_tile import BATCH, WARP
from tests.targets import H200

HOPPER = replace(H200, matrices=True, bulk_copies=True, local_bytes=227 << 10)
DOUBLE = {"padding": (4, 4), "registers": (4, 8, 6), "chunks": (1, 8, 2), "threads": (16, 1, 8)}


def product(**values: object) -> Schedule:
    return gpu(3, (1,), **(WARP | DOUBLE | values))


def deep(step: int, **values: object) -> Schedule:
    return product(registers=(4, step, 6), chunks=(1, step, 2), **values)


ONE_WARP = {"threads": (8, 1, 4), "registers": (2, 4, 2), "chunks": (1, 4, 2)}
ACROSS = {
    "threads": (1, 16, 8),
    "registers": (8, 4, 6),
    "chunks": (8, 1, 2),
    "warp": (1, 8, 4),
    "tiles": (16, 0, 0),
    "padding": (4, 4),
    "tensor": (1, 2, 0),
}
CASES = {
    "one step": Case(matmul(16, 16, 8, "f8"), product(**ONE_WARP)),
    "four at once": Case(matmul(72, 64, 56, "f8"), deep(4, stages=3)),
    "eight at once": Case(matmul(72, 64, 56, "f8"), deep(8, stages=3)),
    "sixteen at once": Case(matmul(72, 64, 56, "f8"), deep(16, stages=3)),
    "an odd number of columns' groups": Case(
        matmul(16, 32, 48, "f8"),
        product(threads=(8, 1, 4), registers=(2, 8, 6)),
    ),
    "rows that begin anywhere": Case(matmul(37, 48, 45, "f8"), product()),
    "columns that lie along the reduction": Case(
        einsum("ij,kj->ik", {"i": 40, "j": 64, "k": 48}, "f8"), deep(16)
    ),
    "both across the reduction": Case(
        einsum("ji,jk->ik", {"i": 40, "j": 64, "k": 48}, "f8"), gpu(3, (0,), **WARP | ACROSS)
    ),
    "parts of a reduction": Case(matmul(32, 96, 24, "f8"), product(parts=(2, 3, 1))),
    "several blocks a group": Case(matmul(128, 32, 40, "f8"), product(parts=(1, 1, 1))),
    "a batch": Case(
        einsum("bij,bjk->bik", {"b": 3, "i": 40, "j": 32, "k": 24}, "f8"),
        gpu(4, (2,), **WARP | BATCH | {"parts": (3, 1, 1, 1), "padding": (4, 4)}),
    ),
    "rows along two dims": Case(
        einsum("aij,jk->iak", {"a": 6, "i": 24, "j": 32, "k": 16}, "f8"),
        gpu(
            4,
            (2,),
            **WARP
            | BATCH
            | {"registers": (2, 2, 8, 2), "chunks": (1, 1, 8, 2), "threads": (2, 8, 1, 4)}
            | {"padding": (4, 4)},
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_against_the_oracle(name):
    assert fuzz.check(CASES[name])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", CASES)
def test_emulated_against_the_oracle(name, architecture):
    """All of a kernel's text, fragment by fragment; no two of half a warp wait for one bank."""
    device = EmulatedGpu(architecture)
    assert fuzz.check(CASES[name], lambda: device, CUDA)
    loads = [where for size, where in device.loads if size == 8]
    assert len(loads) > 4
    assert max(map(most_of_a_bank, loads)) == 1


def most_of_a_bank(addresses: np.ndarray) -> int:
    """The most words that half a warp reads of one bank, where each work-item reads 8 bytes."""
    most = 0
    for half in addresses.reshape(-1, 16):
        words = {int(place) // 4 + n for place in half for n in range(2)}
        most = max(most, *Counter(word % 32 for word in words).values())
    return most


def test_rows_that_are_not_longer_wait_for_banks():
    """What the count of words in a bank is there to see."""
    device = EmulatedGpu("sm_90a")
    assert fuzz.check(
        replace(CASES["eight at once"], schedule=deep(8, padding=())), lambda: device, CUDA
    )
    assert max(most_of_a_bank(where) for size, where in device.loads if size == 8) == 4


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture):
    case = CASES["sixteen at once"]
    source = program_of(case.problem(), case.schedule, CUDA)
    for text in filter(None, (source, source.unaligned)):
        ptx = compiled(text.text, architecture)
        shape = "m8n8k4" if architecture < "sm_90" and architecture != "sm_100a" else "m16n8k16"
        assert set(re.findall(r"mma\.sync\.aligned\.(m\w+)\.row\.col\.f64", ptx)) == {shape}
        assert " 0 bytes spill stores" in compiler_log(text.text, architecture)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"registers": (3, 8, 6)}, "register tiles are pairs of rows and columns"),
        ({"bulk": True}, "bulk copies bring half floats and tf32, which four warps multiply"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    case = CASES["eight at once"]
    with pytest.raises(LoweringError, match=message):
        lowered(case.problem(), replace(case.schedule, **changes))


@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "bij,bkj->bik"])
def test_untuned_calls_take_them(text):
    problem = problem_of_doubles(text, b=4, i=512, j=1024, k=512)
    candidates = set(matrix_candidates(problem, HOPPER))
    every = ranked(problem, HOPPER)
    assert candidates <= {schedule for _, schedule in every}
    assert every[0][1] in candidates
    assert ranked(problem, HOPPER, most=2)[:2] == every[:2]
    others = ranked(problem, replace(HOPPER, matrices=False, bulk_copies=False))
    assert others[0][0] > 1.2 * every[0][0]


def test_candidates_are_in_the_space_and_fit():
    problem = problem_of_doubles("ij,jk->ik", i=512, j=1024, k=512)
    space = Space(parameters_of(problem, HOPPER), node_limit=100_000)
    assert BULK not in kinds_of(problem, HOPPER)
    for schedule in list(matrix_candidates(problem, HOPPER))[::9]:
        assert misfit(problem, schedule, HOPPER) == ""
        place = space.nearest(configuration_from(problem, schedule), random.Random(0))
        assert place is not None
        assert schedule_from(problem, HOPPER, place) == schedule


def problem_of_doubles(text: str, **extents: int) -> Problem:
    return Case(einsum(text, extents, "f8"), product()).problem()


@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,kj->ik", "ji,jk->ki", "bij,jk->bik"])
def test_random_schedules_of_the_space_emulated(text):
    """Of ragged rows and columns, by whatever a search may try."""
    case = Case(einsum(text, {"b": 2, "i": 21, "j": 32, "k": 26}, "f8"), product())
    problem, rng = case.problem(), random.Random(text)
    space = Space(parameters_of(problem, HOPPER), node_limit=100_000)
    schedules = list[Schedule]()
    while len(schedules) < 3:
        place = space.nearest({**space.sample(rng), "kind": MATRICES}, rng, pinned=["kind"])
        assert place is not None
        schedule = schedule_from(problem, HOPPER, place)
        if not misfit(problem, schedule, HOPPER) and not schedule.last_group:
            schedules.append(schedule)
    for schedule in schedules:
        assert fuzz.check(replace(case, schedule=schedule), lambda: EmulatedGpu("sm_90a"), CUDA)
