"""Candidates with bulk copies: valid, within the limits, and first where they are the fastest."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.space.gpu_ranking import misfit
from mdtensor.lower.gpu.tensor_cores.tensor_core_candidates import matrix_dims
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import rows_of
from mdtensor.lower.gpu.tma.tma_candidates import bulk_candidates, shared_blocks, spreads
from mdtensor.lower.gpu.tma.tma_cost import bulk_bytes, bulk_estimate
from mdtensor.lower.gpu.tma.tma_kind import BULK_KIND
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from tests.lower.codegen.tma.tma_convolutions import MIDDLE
from tests.lower.gpu.candidates.test_tensor_core_candidates import HOPPER as WITHOUT

HOPPER = replace(WITHOUT, bulk_copies=True)
MEASURED_TF32 = (
    (1024, "ik,kj->ij", (64, 128), 13.8),
    (1024, "ik,kj->ij", (128, 128), 16.5),
    (4096, "ik,kj->ij", (128, 256), 333.3),
    (4096, "ik,kj->ij", (128, 192), 372.8),
    (1024, "ik,jk->ij", (64, 128), 10.9),
    (4096, "ik,jk->ij", (128, 256), 332.1),
    (8192, "ik,jk->ij", (128, 256), 3069.2),
)


def product(n: int, dtype: str = "f2", text: str = "ik,kj->ij") -> Problem:
    return product_of(n, n, n, dtype, text)


def product_of(
    rows: int,
    columns: int,
    depth: int,
    dtype: str = "f2",
    text: str = "ik,kj->ij",
    precision: str | None = None,
) -> Problem:
    extents = {"i": rows, "j": columns, "k": depth}
    shapes = [tuple(extents[c] for c in each) for each in text.partition("->")[0].split(",")]
    specs = [TensorSpec.of(shape, dtype) for shape in shapes]
    return problem_from_md_hom(md_hom_from_einsum(text, specs, precision=precision))


def tf32(rows: int, columns: int, depth: int, text: str) -> Problem:
    return product_of(rows, columns, depth, "f4", text, "tf32")


def test_candidates_can_be_rendered_and_fit():
    found = list(bulk_candidates(product(2048), HOPPER))
    assert len(found) == len(set(found)) == 9
    for schedule in found:
        source = program_of(product(2048), schedule, CUDA)
        assert 48 << 10 < source.entries[0].pool <= 227 << 10
        assert source.unaligned is not None
        assert source.unaligned.entries[0].pool <= 227 << 10
        assert source.entries[0].threads == math.prod(schedule.threads) + 32
        assert schedule.results == "local"


def test_a_search_rejects_none_of_them():
    device = replace(HOPPER, local_bytes=227 << 10)
    problem = product(4096)
    for schedule in bulk_candidates(problem, device):
        assert misfit(problem, schedule, device) == ""
        pool = program_of(problem, schedule, CUDA, only_aligned=True).entries[0].pool
        assert pool <= bulk_bytes(problem, schedule) == BULK_KIND.local(problem, schedule)
    assert "fits_local_memory" in misfit(problem, schedule, HOPPER)


@pytest.mark.parametrize(
    ("extent", "block", "parts"),
    [(1024, (64, 128), (16, 8)), (4096, (128, 256), (16, 8)), (8192, (128, 256), (16, 8))],
)
def test_the_first_choice_is_the_one_that_was_measured_as_the_fastest(extent, block, parts):
    schedule = ranked(product(extent), HOPPER)[0][1]
    assert schedule.bulk
    tile = [schedule.registers[d] * schedule.threads[d] for d in (0, 2)]
    assert (tuple(tile), (schedule.parts[0], schedule.parts[2])) == (block, parts)


# Microseconds measured on an H200, bench/results/2026-11-22-nvidia-h200-tensor.log.
@pytest.mark.parametrize(
    ("extent", "block", "measured"),
    [
        (1024, (64, 128), 8.1),
        (1024, (128, 128), 10.0),
        (4096, (128, 256), 180.6),
        (4096, (256, 128), 199.8),
        (4096, (64, 64), 318.9),
        (8192, (128, 256), 1446.2),
        (8192, (64, 128), 2095.7),
    ],
)
def test_estimates_are_near_what_was_measured(extent, block, measured):
    problem = product(extent)
    blocks = {
        (s.registers[0] * s.threads[0], s.registers[2] * s.threads[2]): s
        for s in bulk_candidates(problem, HOPPER)
        if s.results
    }
    estimate = bulk_estimate(problem, blocks[block], HOPPER) * 1e6
    assert 0.85 < estimate / measured < 1.2


# Microseconds of bench/results/2026-11-22-nvidia-h200-tensor-ragged.log.
@pytest.mark.parametrize(
    ("problem", "block", "parts", "measured"),
    [
        (product_of(1000, 1000, 1000), (128, 128), 1, 12.7),
        (product_of(1000, 1000, 1000), (64, 128), 1, 13.5),
        (product_of(1024, 1000, 777, text="ki,kj->ij"), (128, 64), 1, 9.5),
        (product_of(333, 777, 1000, text="ik,jk->ij"), (64, 64), 1, 9.2),
        (product_of(2000, 2000, 2000), (128, 256), 1, 27.5),
        (product_of(512, 512, 8192), (64, 64), 1, 22.6),
        (product_of(512, 512, 8192), (64, 64), 2, 19.3),
        (product_of(256, 256, 16384), (64, 64), 8, 16.0),
    ],
)
def test_estimates_of_ragged_products_and_of_few_blocks(
    problem: Problem, block: tuple[int, int], parts: int, measured: float
):
    found = {
        (s.registers[r] * s.threads[r], s.registers[c] * s.threads[c], s.parts[k]): s
        for s in bulk_candidates(problem, HOPPER)
        for r, c, k in [s.tensor]
    }
    estimate = bulk_estimate(problem, found[*block, parts], HOPPER) * 1e6
    assert 0.85 < estimate / measured < 1.2


def test_few_blocks_share_their_reduction():
    schedule = ranked(product_of(512, 512, 8192), HOPPER)[0][1]
    assert schedule.bulk
    assert schedule.parts[schedule.tensor[2]] > 1
    assert math.prod(schedule.parts) <= HOPPER.cores
    large = list(bulk_candidates(product(4096), HOPPER))
    assert all(s.parts[s.tensor[2]] == 1 for s in large)


@pytest.mark.parametrize("text", ["ik,kj->ij", "ik,jk->ij"])
@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (5, 8), (20, 24), (32, 32)])
def test_few_rows_are_columns_of_the_turned_product(text: str, rows: int, columns: int):
    shapes = [(rows, 4096), (4096, 14336) if text == "ik,kj->ij" else (14336, 4096)]
    problem = problem_from_md_hom(
        md_hom_from_einsum(text, [TensorSpec.of(shape, "f2") for shape in shapes])
    )
    schedule = ranked(problem, HOPPER)[0][1]
    assert (schedule.bulk, schedule.tensor) == (True, (2, 0, 1))
    assert schedule.registers[0] * schedule.threads[0] == columns


def test_results_that_no_box_can_take_are_stored_one_by_one():
    specs = [TensorSpec.of((512, 512), "f2"), TensorSpec.of((501, 512), "f2")]
    problem = problem_from_md_hom(md_hom_from_einsum("ik,jk->ij", specs))
    found = list(bulk_candidates(problem, HOPPER))
    assert found
    assert not any(schedule.results for schedule in found)


@pytest.mark.parametrize(
    ("text", "dims", "results"),
    [
        ("ik,jk->ij", (0, 2, 1), "local"),  # both along the reduction
        ("ik,kj->ij", (2, 0, 1), ""),  # columns go through registers, as rows of the turned product
        ("ki,jk->ij", (1, 2, 0), ""),
    ],
)
def test_what_does_not_lie_along_the_reduction_goes_through_registers_as_tf32(
    text: str, dims: tuple[int, int, int], results: str
):
    problem = tf32(2048, 2048, 2048, text)
    schedule = ranked(problem, HOPPER)[0][1]
    assert (schedule.bulk, schedule.tensor, schedule.results) == (True, dims, results)
    row, column, depth = dims
    held = "local" not in results
    assert (schedule.chunks[row], schedule.chunks[column]) == (1 + held, 2)
    assert (schedule.registers[depth], schedule.tiles[depth]) == (8, 32)
    assert misfit(problem, schedule, replace(HOPPER, local_bytes=227 << 10)) == ""


def test_tf32_of_which_nothing_lies_along_the_reduction_is_multiplied_by_single_warps():
    problem = tf32(2048, 2048, 2048, "ki,kj->ij")
    assert not list(bulk_candidates(problem, HOPPER))
    first = ranked(problem, HOPPER)[0][1]
    assert (first.tensor, first.bulk) == ((1, 2, 0), False)


# Microseconds of bench/results/2026-11-22-nvidia-h200-tf32.log.
@pytest.mark.parametrize(
    ("extent", "text", "block", "measured"),
    MEASURED_TF32,
)
def test_estimates_of_tf32_are_near_what_was_measured(
    extent: int, text: str, block: tuple[int, int], measured: float
):
    problem = tf32(extent, extent, extent, text)
    found = [
        s
        for s in bulk_candidates(problem, HOPPER)
        for r, c, k in [s.tensor]
        if (s.registers[r] * s.threads[r], s.registers[c] * s.threads[c], s.parts[k]) == (*block, 1)
    ]
    estimate = bulk_estimate(problem, found[0], HOPPER) * 1e6
    assert 0.8 < estimate / measured < 1.25


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1"])
def test_other_types_get_none(dtype):
    assert not list(bulk_candidates(product(512, dtype), HOPPER))


# Microseconds of bench/results/2026-11-22-nvidia-h200-tensor-convolutions.log.
@pytest.mark.parametrize(
    ("rows", "columns", "measured"),
    [((8, 4, 4), 128, 11.7), ((16, 4, 2), 128, 11.7), ((8, 4, 4), 192, 14.8), ((16, 4), 128, 12.3)],
)
def test_estimates_of_a_convolution(rows: tuple[int, ...], columns: int, measured: float):
    problem = MIDDLE.problem()
    found = {
        (tuple(schedule.registers[d] * schedule.threads[d] for d in dims), of_columns): schedule
        for schedule in bulk_candidates(problem, HOPPER)
        for dims in [rows_of(problem, schedule)]
        for of_columns in [schedule.registers[schedule.tensor[1]] * 4]
        if schedule.results
    }
    estimate = bulk_estimate(problem, found[rows, columns], HOPPER) * 1e6
    assert 0.8 < estimate / measured < 1.2


def test_a_convolutions_rows_lie_along_dims_that_they_fill():
    problem = MIDDLE.problem()
    schedule = ranked(problem, HOPPER)[0][1]
    assert schedule.bulk
    blocks = [schedule.registers[d] * schedule.threads[d] for d in rows_of(problem, schedule)]
    assert math.prod(blocks) == 128
    assert math.prod(schedule.parts) == 98


def test_rows_lie_along_one_dim_where_several_have_no_fewer():
    problem = problem_from_md_hom(
        md_hom_from_einsum(
            "aik,kj->iaj", [TensorSpec.of((6, 128, 64), "f2"), TensorSpec.of((64, 128), "f2")]
        )
    )
    dims = matrix_dims(problem)
    assert dims is not None
    assert spreads(problem, dims, 128) == [{dims[0]: 128}]
    assert len(spreads(problem, dims, 256)) > 1


def test_devices_without_bulk_copies_get_none():
    assert not list(bulk_candidates(product(512), WITHOUT))
    assert ranked(product(512), WITHOUT)[0][1].tensor


@pytest.mark.parametrize(
    ("blocks", "others", "parts"),
    [
        ((8, 4), 1, (8, 4)),
        ((64, 32), 1, (16, 8)),
        ((32, 16), 1, (16, 8)),
        ((4, 2), 32, (2, 2)),
        ((4, 2), 500, (4, 2)),
        ((1, 300), 1, (1, 100)),
    ],
)
def test_blocks_are_shared_out_in_few_rounds(blocks, others, parts):
    assert shared_blocks(blocks, (128, 256), others, 132) == parts
