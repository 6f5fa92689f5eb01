"""Matrices that bulk copies bring: text that NVRTC compiles, and what is refused.

No CPU runs these kernels; `python -m tests.lower.bulk_cuda` does, on a GPU of capability 9.0.
"""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.tma.tma_candidates import bulk_blocked
from mdtensor.lower.lowering import lowered
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.schedule.schedule import Schedule
from tests.kernels.kernel_cases import einsum, matmul
from tests.kernels.nvrtc_compiler import compiled, compiler_log
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


def _tf32(text: str, **extents: int) -> Einsum:
    return replace(einsum(text, extents, "f4"), precision="tf32")


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
    "eight columns": case(_text("ij,kj->ki", i=328, j=4096, k=8), (0, 2, 1), (128, 8), stages=8),
    "three columns, rows across the reduction": case(
        _text("kj,ji->ki", i=1032, j=1000, k=3), (2, 0, 1), (128, 8), stages=8
    ),
    "64 columns, a long reduction": case(matmul(512, 8192, 64, "f2"), block=(128, 64), stages=8),
    "64 rows and columns, a long reduction": case(
        matmul(512, 8192, 64, "f2"), block=(64, 64), stages=8
    ),
    "bfloat16, twenty columns": case(
        einsum("kj,ij->ki", {"i": 648, "j": 2048, "k": 20}, BFLOAT), (2, 0, 1), (64, 24), stages=6
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
    "tf32, one tile": case(_tf32("ij,kj->ik", i=64, j=64, k=64), block=(64, 64)),
    "tf32, all columns": case(
        _tf32("ij,kj->ik", i=256, j=512, k=512), block=(128, 256), stages=4, **LOCAL
    ),
    "tf32, blocks cut off": case(
        _tf32("ij,kj->ik", i=203, j=192, k=332), block=(128, 256), **LOCAL
    ),
    "tf32, results that boxes cannot take": case(_tf32("ij,kj->ik", i=203, j=192, k=327)),
    "tf32, several blocks a group": case(
        _tf32("ij,kj->ik", i=640, j=192, k=512), parts=(2, 1, 3), **LOCAL
    ),
    "tf32, parts of a reduction of 1000": case(
        _tf32("ij,kj->ik", i=256, j=1000, k=256), parts=(2, 4, 2)
    ),
    "tf32, two reduced dims, a batch": case(
        _tf32("blij,blkj->bik", b=3, l=2, i=72, j=36, k=132), (2, 4, 3), **LOCAL
    ),
    "tf32, rows across the reduction": case(
        _tf32("ji,kj->ik", i=264, j=256, k=328), (1, 2, 0), (128, 256)
    ),
    "tf32, columns across the reduction, one tile": case(
        _tf32("ij,jk->ik", i=64, j=32, k=64), (2, 0, 1), (64, 64)
    ),
    "tf32, columns across the reduction": case(
        _tf32("ij,jk->ik", i=512, j=512, k=256), (2, 0, 1), (128, 256), stages=4
    ),
    "tf32, columns across the reduction, blocks cut off": case(
        _tf32("ij,jk->ik", i=333, j=204, k=428), (2, 0, 1), (128, 192)
    ),
    "tf32, columns across the reduction, several blocks a group": case(
        _tf32("ij,jk->ik", i=640, j=200, k=512), (2, 0, 1), (64, 128), parts=(2, 1, 3)
    ),
    "tf32, columns across the reduction, parts of it": case(
        _tf32("ij,jk->ik", i=256, j=1000, k=256), (2, 0, 1), parts=(2, 4, 2)
    ),
    "tf32, columns across the reduction, a batch": case(
        _tf32("bij,bjk->bik", b=3, i=136, j=128, k=264), (3, 1, 2), (256, 128)
    ),
}
CUT_OFF = [name for name in CASES if "reduction of" in name or "odd reduction" in name]


def text_of(name: str) -> str:
    found = CASES[name]
    return program_of(found.problem(), found.schedule, CUDA, only_aligned=True).text


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_compiles(name):
    ptx = compiled(text_of(name), "sm_90a")
    columns = CASES[name].schedule.registers[CASES[name].schedule.tensor[1]] * 4
    kind = name.partition(",")[0]
    kind, depth = {"tf32": ("tf32", 8), "bfloat16": ("bf16", 16)}.get(kind, ("f16", 16))
    assert f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{kind}.{kind}" in ptx
    assert "cp.async.bulk.tensor" in ptx
    assert ("bulk_group" in ptx) == bool(CASES[name].schedule.results)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", CASES)
def test_arrays_that_begin_anywhere_are_copied_by_work_items(name):
    found = CASES[name]
    source = program_of(found.problem(), found.schedule, CUDA)
    assert source.unaligned is not None
    assert not source.unaligned.maps
    along = found.schedule.tensor[2]
    whole = found.problem().extent(along) % found.schedule.tiles[along] == 0
    assert ("multiply_add" in source.unaligned.text) == whole
    assert "copy_box" not in source.unaligned.text


@pytest.mark.parametrize("name", CUT_OFF)
def test_what_takes_the_place_of_tiles_cut_off_compiles(name):
    source = program_of(CASES[name].problem(), CASES[name].schedule, CUDA)
    assert source.unaligned is not None
    compiled(source.unaligned.text, "sm_90a")


@pytest.mark.parametrize(
    "name",
    [
        "one tile",
        "several blocks a group, an odd number of panels",
        "tf32, columns across the reduction, one tile",
    ],
)
def test_text(name, golden):
    golden(f"passes/bulk_tiles/{name.replace(' ', '_').replace(',', '')}.cu", text_of(name))


def test_a_map_has_the_extents_of_the_array_and_the_box_of_a_tile():
    found = CASES["a batch"]
    source = program_of(found.problem(), found.schedule, CUDA, only_aligned=True)
    rows, columns, results = source.maps
    assert (rows.extents, rows.strides, rows.box) == ((128, 136, 3), (1, 128, 17408), (64, 128, 1))
    assert (columns.extents, columns.box) == ((264, 128, 3), (64, 64, 1))
    assert (results.buffer, results.extents, results.box) == ("O0", (264, 136, 3), (64, 16, 1))


def test_floats_are_rounded_to_tf32_on_their_way():
    found = CASES["tf32, all columns"]
    rows, columns, results = program_of(
        found.problem(), found.schedule, CUDA, only_aligned=True
    ).maps
    assert (rows.box, columns.box, results.box) == ((32, 128), (32, 256), (32, 16))
    assert (rows.tf32, columns.tf32, results.tf32) == (True, True, False)


HELD = [name for name in CASES if "tf32" in name and "across" in name]


@pytest.mark.parametrize("name", HELD)
def test_rows_that_go_through_registers_are_loaded_while_others_are_multiplied(name):
    columns = CASES[name].schedule.registers[CASES[name].schedule.tensor[1]] * 4
    together = 1 if columns > 192 else 2
    text = text_of(name)
    assert f"unsigned held[{together}][4];" in text
    assert text.count("load_rows(held[n]") == 1
    assert "wgmma.wait_group.sync.aligned 1;" in text
    # A work-item has neighbours of the result; partial results go one by one.
    assert ("*(float2*)" in text) != ("parts" in name)


@pytest.mark.parametrize("name", [name for name in HELD if CASES[name].schedule.threads[-1] < 128])
def test_the_assembler_leaves_products_beside_each_other(name):
    log = compiler_log(text_of(name), "sm_90a")
    assert "Used" in log
    assert "wgmma.mma_async instructions are serialized" not in log


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
        ({"chunks": (2, 16, 2)}, "work-item holds pairs of columns of rows apart: chunks 1 and 2"),
        ({"tiles": (0, 32, 0)}, "tiles are 64 deep along one reduced dim, and 1 along others"),
        ({"results": "global"}, "schedule.results is none of"),
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


def _changed_tf32(name: str, **changes: object) -> tuple[Case, Schedule]:
    found = CASES[name]
    return found, replace(found.schedule, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("all columns", {"tiles": (0, 64, 0)}, "tiles are 32 deep along one reduced dim"),
        ("all columns", {"registers": (2, 16, 64)}, "pairs of rows and columns, and 8 deep"),
        (
            "columns across the reduction",
            {"chunks": (1, 8, 2)},
            "pairs of columns of rows next to each other: chunks 2 and 2",
        ),
        (
            "columns across the reduction",
            LOCAL,
            "where rows go through registers, results leave one by one",
        ),
    ],
)
def test_what_tf32_cannot_be_is_refused(name, changes, message):
    found, schedule = _changed_tf32(f"tf32, {name}", **changes)
    with pytest.raises(LoweringError, match=message):
        lowered(found.problem(), schedule, aligned=True)


def test_columns_of_tf32_lie_along_the_reduction():
    found = case(_tf32("ij,jk->ik", i=128, j=128, k=128))
    with pytest.raises(LoweringError, match="columns of tf32 lie along the reduction"):
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
