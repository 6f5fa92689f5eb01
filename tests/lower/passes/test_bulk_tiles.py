"""Matrices that bulk copies bring: text that NVRTC compiles, and what is refused.

No CPU runs these kernels; `python -m tests.lower.bulk_cuda` does, on a GPU of capability 9.0.
"""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from mdtensor.backends.evaluate import evaluated
from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu_bulk import bulk_blocked
from mdtensor.lower.lowering import lowered
from mdtensor.lower.passes.bulk_form import PANEL
from mdtensor.lower.problem import problem_from_md_hom
from mdtensor.lower.schedule import Schedule
from tests.kernels.kernel_cases import einsum, matmul
from tests.kernels.test_nvrtc import compiled
from tests.lower.fuzz import Case
from tests.lower.random_problems import Einsum

CORES = 132


def case(
    what: Einsum,
    dims: tuple[int, int, int] = (0, 2, 1),
    block: tuple[int, int] = (128, 128),
    stages: int = 3,
    **changes: object,
) -> Case:
    """An einsum by rows and columns of a block."""
    problem = problem_from_md_hom(what.md_hom())
    schedule = bulk_blocked(problem, dims, block, stages, CORES)
    return Case(what, replace(schedule, **changes))  # type: ignore[arg-type]


def _text(text: str, **extents: int) -> Einsum:
    return einsum(text, extents, "f2")


LOCAL = {"results": "local"}
BFLOAT = np.dtype(ml_dtypes.bfloat16).name
CASES = {
    "one tile": case(matmul(64, 64, 64, "f2"), block=(64, 64)),
    "one tile, results in boxes": case(matmul(64, 64, 64, "f2"), block=(64, 64), **LOCAL),
    "all columns": case(matmul(256, 512, 512, "f2"), block=(128, 256), stages=4, **LOCAL),
    "three panels": case(matmul(256, 256, 384, "f2"), block=(128, 192), **LOCAL),
    "four groups of four warps": case(matmul(512, 256, 256, "f2"), block=(256, 128), **LOCAL),
    "blocks cut off": case(matmul(200, 192, 328, "f2"), block=(128, 256), **LOCAL),
    "blocks cut off, results one by one": case(matmul(203, 192, 328, "f2"), block=(128, 64)),
    "results that boxes cannot take": case(
        _text("ij,kj->ik", i=200, j=128, k=323), block=(64, 256)
    ),
    "several blocks a group": case(matmul(640, 192, 512, "f2"), parts=(2, 1, 3), **LOCAL),
    "several blocks a group, an odd number of panels": case(
        matmul(640, 192, 512, "f2"), block=(128, 64), parts=(2, 1, 2), **LOCAL
    ),
    "parts of a reduction": case(matmul(256, 512, 256, "f2"), parts=(2, 4, 2)),
    "results of more bits": case(matmul(192, 256, 264, "f2", "f4"), block=(64, 256), **LOCAL),
    "bfloat16": case(matmul(200, 256, 328, BFLOAT), block=(128, 256), **LOCAL),
    "bfloat16, results one by one": case(matmul(203, 192, 328, BFLOAT), block=(128, 64)),
    "bfloat16, results in float32": case(matmul(192, 256, 264, BFLOAT, "f4"), **LOCAL),
    "columns along the reduction": case(_text("ij,kj->ik", i=264, j=256, k=328), **LOCAL),
    "rows across the reduction": case(
        _text("ji,jk->ik", i=264, j=256, k=328), (1, 2, 0), (128, 256), **LOCAL
    ),
    "both the other way round": case(
        _text("ji,kj->ik", i=264, j=256, k=328), (1, 2, 0), (128, 256), **LOCAL
    ),
    "a batch": case(
        _text("bij,bjk->bik", b=3, i=136, j=128, k=264), (1, 3, 2), (128, 256), **LOCAL
    ),
    "a batch, two of which a group has": case(
        _text("bij,bjk->bik", b=4, i=136, j=128, k=264), (1, 3, 2), parts=(2, 1, 1, 1), **LOCAL
    ),
    "rows along two dims": case(
        _text("aij,jk->iak", a=6, i=72, j=128, k=136), (1, 3, 2), (64, 128), **LOCAL
    ),
    "two reduced dims": case(
        _text("lij,ljk->ik", l=3, i=136, j=128, k=264), (1, 3, 2), (128, 256), **LOCAL
    ),
    "a reduction of 1000": case(matmul(200, 1000, 328, "f2"), block=(128, 256), **LOCAL),
    "a reduction of 72": case(matmul(200, 72, 328, "f2"), block=(64, 64), **LOCAL),
    "a reduction of 56, less than a tile": case(matmul(64, 56, 64, "f2"), block=(64, 64)),
    "an odd reduction across both": case(
        _text("ji,jk->ik", i=264, j=333, k=328), (1, 2, 0), (128, 256), **LOCAL
    ),
    "odd rows and columns along the reduction": case(
        _text("ij,kj->ik", i=333, j=200, k=777), block=(128, 192)
    ),
    "several blocks a group, a reduction of 200": case(
        matmul(640, 200, 512, "f2"), parts=(2, 1, 3), **LOCAL
    ),
    "parts of a reduction of 1000": case(matmul(256, 1000, 256, "f2"), parts=(2, 4, 2)),
    "parts of an odd reduction": case(
        _text("ji,jk->ik", i=264, j=333, k=328), (1, 2, 0), parts=(6, 3, 3)
    ),
    "two reduced dims, one cut off": case(
        _text("lij,ljk->ik", l=3, i=136, j=104, k=264), (1, 3, 2), (128, 256), **LOCAL
    ),
    "bfloat16, a batch and a reduction of 72": case(
        einsum("bij,bjk->bik", {"b": 3, "i": 136, "j": 72, "k": 264}, BFLOAT), (1, 3, 2), **LOCAL
    ),
}
CUT_OFF = [name for name in CASES if "reduction of" in name or "odd reduction" in name]


def text_of(name: str) -> str:
    found = CASES[name]
    return program_of(found.problem(), found.schedule, CUDA, only_aligned=True).text


@pytest.mark.parametrize("name", CASES)
def test_compiles(name):
    ptx = compiled(text_of(name), "sm_90a")
    columns = CASES[name].schedule.registers[CASES[name].schedule.tensor[1]] * 4
    short = "bf16" if name.startswith("bfloat16") else "f16"
    assert f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{short}.{short}" in ptx
    assert "cp.async.bulk.tensor" in ptx
    assert ("bulk_group" in ptx) == bool(CASES[name].schedule.results)


@pytest.mark.parametrize("name", CASES)
def test_arrays_that_begin_anywhere_are_copied_by_work_items(name):
    found = CASES[name]
    source = program_of(found.problem(), found.schedule, CUDA)
    assert source.unaligned is not None
    assert not source.unaligned.maps
    whole = found.problem().extent(found.schedule.tensor[2]) % PANEL == 0
    assert ("multiply_add" in source.unaligned.text) == whole
    assert "copy_box" not in source.unaligned.text


@pytest.mark.parametrize("name", CUT_OFF)
def test_what_takes_the_place_of_tiles_cut_off_compiles(name):
    source = program_of(CASES[name].problem(), CASES[name].schedule, CUDA)
    assert source.unaligned is not None
    compiled(source.unaligned.text, "sm_90a")


@pytest.mark.parametrize("name", ["one tile", "several blocks a group, an odd number of panels"])
def test_text(name, golden):
    golden(f"passes/bulk_tiles/{name.replace(' ', '_').replace(',', '')}.cu", text_of(name))


def test_a_map_has_the_extents_of_the_array_and_the_box_of_a_tile():
    found = CASES["a batch"]
    source = program_of(found.problem(), found.schedule, CUDA, only_aligned=True)
    rows, columns, results = source.maps
    assert (rows.extents, rows.strides, rows.box) == ((128, 136, 3), (1, 128, 17408), (64, 128, 1))
    assert (columns.extents, columns.box) == ((264, 128, 3), (64, 64, 1))
    assert (results.buffer, results.extents, results.box) == ("O0", (264, 136, 3), (64, 16, 1))


def test_every_stage_is_filled_with_the_bytes_that_are_expected():
    text = text_of("all columns")
    (expected,) = re.findall(r"expect_bytes\(full \+ stage, (\d+)\)", text)
    assert int(expected) == (128 + 256) * 64 * 2
    assert text.count("copy_box(S0") == 1
    assert text.count("copy_box(S1") == 256 // 64


def _changed(**changes: object) -> tuple[Case, Schedule]:
    found = CASES["several blocks a group"]
    return found, replace(found.schedule, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tensor": ()}, "bulk copies bring matrices, which schedule.tensor tells the dims of"),
        ({"padding": (8, 8)}, "bulk copies need fixed extents, no padding, and no last group"),
        ({"threads": (16, 1, 4)}, "four warps have 64 rows: work-items have 2 of them"),
        ({"threads": (64, 1, 8)}, "four warps have all columns of a group, at most 256"),
        ({"registers": (2, 16, 128)}, "four warps have all columns of a group, at most 256"),
        (
            {"registers": (2, 16, 24), "results": ""},
            "where a factor lies along its own dim, a tile has 64s of it",
        ),
        ({"tiles": (0, 32, 0)}, "tiles are 64 deep along one reduced dim, and 1 along others"),
        ({"results": "global"}, "results leave through no 'global' memory"),
        ({"bulk": False, "padding": (8, 8)}, "one result leaves through local memory, of matrices"),
        ({"parts": (2, 3, 2)}, "partial results do not leave through local memory"),
        ({"parts": (2, 2, 2), "results": ""}, "parts of a reduction begin at multiples of 64"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    found, schedule = _changed(**changes)
    with pytest.raises(LoweringError, match=message):
        lowered(found.problem(), schedule, aligned=True)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (_text("ij,jk->ik", i=128, j=128, k=204), "rows inside rows, at multiples of 16 bytes"),
        (_text("ij,jk->ik", i=128, j=40, k=128), "tiles are 64 deep along one reduced dim"),
        (_text("ij,kj->ik", i=128, j=128, k=204), "rows inside rows, at multiples of 16 bytes"),
    ],
)
def test_arrays_that_no_box_fits_are_refused(what, message):
    found = case(what, **LOCAL)
    with pytest.raises(LoweringError, match=message):
        lowered(found.problem(), found.schedule, aligned=True)


def test_opencl_has_no_bulk_copies():
    found = CASES["one tile"]
    with pytest.raises(LoweringError, match="opencl has no bulk copies"):
        program_of(found.problem(), found.schedule, OPENCL, only_aligned=True)


@pytest.mark.parametrize(("columns", "items"), [(256, 32), (1024, 256)])
def test_many_results_of_parts_are_combined_by_large_groups(columns: int, items: int):
    found = case(matmul(256, 512, columns, "f2"), parts=(2, 4, columns // 128))
    source = program_of(found.problem(), found.schedule, CUDA, only_aligned=True)
    assert [entry.threads for entry in source.entries] == [256 + 32, items]
    assert evaluated(source.entries[1].groups, {}) * items == 256 * columns
    compiled(source.text, "sm_90a")
