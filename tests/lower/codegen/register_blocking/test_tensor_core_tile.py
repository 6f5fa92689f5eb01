"""Products of matrices by warps: as loops on the OpenCL device, and as PTX that NVRTC accepts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.base.gpu_kind import MATRICES
from mdtensor.lower.gpu.register_blocking.gpu_candidates import ranked_on_gpu
from mdtensor.lower.gpu.space.gpu_kinds import kinds_of
from mdtensor.lower.lowering import lowered
from mdtensor.lower.schedule.schedule import Schedule
from tests.kernels.kernel_cases import Case, einsum, gpu, matmul
from tests.kernels.nvrtc_compiler import compiled
from tests.lower import fuzz
from tests.lower.random_problems import Einsum
from tests.targets import H200

WARP = {
    "threads": (8, 1, 4),
    "registers": (2, 16, 2),
    "chunks": (1, 16, 2),
    "warp": (8, 1, 4),
    "tiles": (0, 16, 0),
    "staged": ("local", "local"),
    "as_source": (True, True),
    "padding": (8, 8),
    "stages": 2,
    "resident": True,
    "tensor": (0, 2, 1),
}


def product(**values: object) -> Schedule:
    return gpu(3, (1,), **(WARP | values))


def tf32(text: str, **extents: int) -> Einsum:
    return replace(einsum(text, extents, "f4"), precision="tf32")


WARP_OF_SINGLES = {"threads": (8, 1, 4), "registers": (2, 8, 2)}
WIDE = {"threads": (16, 1, 8), "registers": (4, 16, 6), "tiles": (0, 32, 0), "stages": 3}
BATCH = {
    "threads": (1, 8, 1, 8),
    "registers": (1, 4, 16, 4),
    "chunks": (1, 1, 16, 2),
    "warp": (1, 8, 1, 4),
    "tiles": (0, 0, 16, 0),
    "tensor": (1, 3, 2),
}
CASES = {
    "one step": Case(matmul(16, 16, 8, "f2"), product()),
    "tiles": Case(matmul(32, 96, 24, "f2"), product(stages=3)),
    "several warps": Case(matmul(128, 64, 96, "f2"), product(**WIDE)),
    "an odd number of columns' groups": Case(
        matmul(16, 32, 48, "f2"), product(registers=(2, 16, 6))
    ),
    "blocks cut off": Case(matmul(72, 64, 56, "f2"), product(**WIDE)),
    "rows that are not aligned": Case(matmul(37, 48, 45, "f2"), product()),
    "several blocks a group": Case(matmul(64, 32, 40, "f2"), product(parts=(2, 1, 1))),
    "parts of a reduction": Case(matmul(32, 96, 24, "f2"), product(parts=(2, 3, 1))),
    "results of more bits": Case(matmul(32, 48, 24, "f2", "f4"), product()),
    "columns that lie along the reduction": Case(
        einsum("ij,kj->ik", {"i": 40, "j": 64, "k": 48}, "f2"), product(**WIDE)
    ),
    "rows that lie across the reduction": Case(
        einsum("ji,jk->ik", {"i": 40, "j": 64, "k": 48}, "f2"),
        gpu(
            3,
            (0,),
            **WARP
            | {
                "threads": (1, 16, 8),
                "registers": (16, 4, 6),
                "chunks": (16, 1, 2),
                "warp": (1, 8, 4),
                "tiles": (32, 0, 0),
                "tensor": (1, 2, 0),
            },
        ),
    ),
    "a batch": Case(
        einsum("bij,bjk->bik", {"b": 3, "i": 40, "j": 32, "k": 24}, "f2"),
        gpu(4, (2,), **WARP | BATCH | {"parts": (3, 1, 1, 1)}),
    ),
    "rows along two dims": Case(
        einsum("aij,jk->iak", {"a": 6, "i": 24, "j": 32, "k": 16}, "f2"),
        gpu(4, (2,), **WARP | BATCH | {"registers": (2, 2, 16, 2), "threads": (2, 8, 1, 4)}),
    ),
}
SINGLE = {"registers": (4, 8, 6), "chunks": (1, 8, 2), "threads": (16, 1, 8), "padding": (4, 8)}
TF32 = {
    "one step": Case(tf32("ij,jk->ik", i=16, j=16, k=8), product(**SINGLE | WARP_OF_SINGLES)),
    "tiles": Case(tf32("ij,jk->ik", i=72, j=96, k=56), product(**SINGLE, stages=3)),
    "columns that lie along the reduction": Case(
        tf32("ij,kj->ik", i=40, j=64, k=48), product(**SINGLE | {"padding": (4, 4)})
    ),
    "an odd number of columns' groups": Case(
        tf32("ij,kj->ik", i=16, j=32, k=48),
        product(**SINGLE | WARP_OF_SINGLES | {"registers": (2, 8, 6), "padding": (4, 4)}),
    ),
    "both across the reduction": Case(
        tf32("ji,jk->ik", i=40, j=64, k=48),
        gpu(
            3,
            (0,),
            **WARP
            | {
                "threads": (1, 16, 8),
                "registers": (8, 4, 6),
                "chunks": (8, 1, 2),
                "warp": (1, 8, 4),
                "tiles": (16, 0, 0),
                "padding": (8, 8),
                "tensor": (1, 2, 0),
            },
        ),
    ),
    "parts of a reduction": Case(
        tf32("ij,kj->ik", i=32, j=96, k=24),
        product(**SINGLE | {"padding": (4, 4), "parts": (2, 3, 1)}),
    ),
}


@pytest.mark.parametrize("name", TF32)
def test_tf32_against_the_oracle(name):
    """Where a language has no tensor cores, floats are multiplied as they are."""
    assert fuzz.check(TF32[name])


@pytest.mark.sampled(7)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("name", TF32)
def test_tf32_compiles(name, architecture):
    source = program_of(TF32[name].problem(), TF32[name].schedule, CUDA)
    for text in filter(None, (source, source.unaligned)):
        ptx = compiled(text.text, architecture)
        assert "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" in ptx
        assert ptx.count("cvt.rna.tf32.f32") >= 6


def test_floats_along_the_reduction_are_loaded_as_matrices():
    text = program_of(TF32["tiles"].problem(), TF32["tiles"].schedule, CUDA).text
    assert text.count("load_matrices<false>(rows") == 2
    assert "load_matrices<false>(columns" not in text
    assert text.count("= __float_as_uint(columns") == 2 * 3
    assert "copy_async<16>(S0" in text
    assert "copy_async<16>(S1" in text


@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "bij,bkj->bik"])
def test_devices_without_bulk_copies_multiply_tf32_by_warps(text):
    """The model's first choice, and the space, of a product that is asked for as tf32."""
    target = replace(H200, matrices=True, bulk_copies=False)
    problem = Case(tf32(text, b=4, i=512, j=1024, k=512), product()).problem()
    _, schedule = ranked_on_gpu(problem, target)[0]
    assert schedule.tensor
    assert not schedule.bulk
    kind = kinds_of(problem, target)[MATRICES]
    assert set(schedule.padding) <= set(kind.padding)
    source = program_of(problem, schedule, CUDA)
    assert "m16n8k8" in compiled(source.text, "sm_86")
    assert MATRICES not in kinds_of(
        Case(einsum(text, {"b": 4, "i": 512, "j": 1024, "k": 512}), product()).problem(), target
    )


@pytest.mark.parametrize("name", CASES)
def test_against_the_oracle(name):
    assert fuzz.check(CASES[name])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("name", CASES)
def test_compiles(name, architecture):
    case = CASES[name]
    source = program_of(case.problem(), case.schedule, CUDA)
    for text in filter(None, (source, source.unaligned)):
        ptx = compiled(text.text, architecture)
        assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in ptx


def test_tiles_are_copied_and_loaded_in_pieces_of_16_bytes():
    case = CASES["several warps"]
    text = program_of(case.problem(), case.schedule, CUDA).text
    assert text.count("load_matrices<false>(rows") == 2
    assert text.count("load_matrices<true>(columns") == 2
    assert text.count("multiply_add(a") == 2 * 3
    assert "copy_async<16>(S0" in text
    assert "copy_async<16>(S1" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tensor": (0, 2)}, "schedule.tensor needs the dims of rows, columns and a reduction"),
        ({"tensor": (0, 0, 1)}, "matrices have rows and columns along kept dims"),
        ({"tensor": (1, 2, 1)}, "matrices have rows and columns along kept dims"),
        ({"stages": 0}, "matrices are staged in 2 or more stages, and not prefetched"),
        ({"as_source": (True, False)}, "matrices lie in local memory as their sources do"),
        ({"warp": (4, 1, 4)}, "a warp has 8 rows of 4 work-items"),
        ({"chunks": (2, 16, 2)}, "a work-item holds pairs of columns of rows apart"),
        ({"registers": (2, 8, 2), "chunks": (1, 8, 2)}, "register tiles are pairs of rows"),
        ({"tiles": (0, 64, 0)}, "tiles of matrices are whole"),
        ({"padding": (4, 4)}, "rows of a matrix begin at multiples of 16 bytes: pad them by 8"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    case = CASES["tiles"]
    with pytest.raises(LoweringError, match=message):
        lowered(case.problem(), replace(case.schedule, **changes))


def columns_along_two_dims(registers: int) -> Case:
    """Columns of so many points of a work-item, at two points of a dim of theirs alone."""
    values = BATCH | {
        "threads": (8, 1, 1, 4),
        "registers": (2, 16, 2, registers),
        "chunks": (1, 16, 1, 2),
        "warp": (8, 1, 1, 4),
        "tiles": (0, 16, 0, 0),
        "tensor": (0, 3, 1),
    }
    extents = {"i": 16, "j": 32, "b": 2, "k": 24}
    return Case(einsum("ij,bjk->ibk", extents, "f2"), gpu(4, (1,), **(WARP | values)))


@pytest.mark.parametrize("registers", [2, 4, 8])
def test_columns_along_two_dims(registers):
    case = columns_along_two_dims(registers)
    assert fuzz.check(case)
    text = program_of(case.problem(), case.schedule, CUDA).text
    assert "multiply_add(a" in text


def test_pairs_of_groups_that_lie_apart_are_refused():
    """One address tells where a warp's work-items find both groups of any pair."""
    case = columns_along_two_dims(6)
    with pytest.raises(LoweringError, match="read in pairs, which all lie as far apart"):
        lowered(case.problem(), case.schedule)


@pytest.mark.parametrize("dtype", ["f4", "i1"])
def test_other_types_have_no_matrices(dtype):
    case = Case(matmul(32, 96, 24, dtype), CASES["tiles"].schedule)
    with pytest.raises(LoweringError, match="no product of half floats along these dims"):
        lowered(case.problem(), case.schedule)


def test_the_error_of_long_sums_is_that_of_float32():
    """Half floats added up in their own type would be wrong by a hundred times as much."""
    case = Case(matmul(16, 2048, 8, "f2", "f4"), product(tiles=(0, 64, 0)))
    program = fuzz.device().compile(program_of(case.problem(), case.schedule, fuzz.OPENCL))
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.random(o.shape).astype("f2") for o in case.einsum.operands)
    out = np.empty(case.einsum.out.shape, "f4")
    program(lhs, rhs, out)
    np.testing.assert_allclose(out, lhs.astype("f8") @ rhs.astype("f8"), rtol=2e-6)
