"""General kernels on GPUs: their schedules, and what they compute for other shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mdtensor.api.engine.generic_selection import launch_sizes, without_parts
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.space.generic_candidates import general_candidates, in_parts
from mdtensor.lower.gpu.space.gpu_ranking import gpu_schedule
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.search.candidates import estimated
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from mdtensor.translate.reference import run
from tests.kernels.nvrtc_compiler import compiled
from tests.lower.running import device
from tests.targets import H200

# What is computed, operands for which schedules are chosen, and those of another shape.
CASES = {
    "product": ("ik,kj->ij", "", ((700, 500), (500, 900)), ((13, 70), (70, 33))),
    "few rows": ("ik,kj->ij", "", ((4, 2000), (2000, 1000)), ((19, 70), (70, 33))),
    "scores": ("bqd,bkd->bqk", "", ((9, 300, 64), (9, 300, 64)), ((2, 21, 19), (2, 37, 19))),
    "convolution": (
        "n h+r w+s c, k r s c -> n h w k",
        "",
        ((4, 30, 30, 32), (32, 3, 3, 32)),
        ((2, 9, 8, 5), (7, 3, 3, 5)),
    ),
    "maxima": ("ij->i", "max", ((4096, 999),), ((37, 513),)),
    "columns": ("ij->j", "add", ((4096, 999),), ((300, 51),)),
    "total": ("ij->", "add", ((4096, 999),), ((77, 513),)),
    "points": ("ij,j->ij", "", ((1000, 999), (999,)), ((37, 301), (301,))),
    "prefix sums": ("ij->ij", "scan", ((64, 9999),), ((3, 2311),)),
}


def computed(text: str, combine: str, shapes: tuple[tuple[int, ...], ...]) -> MDHom:
    specs = [TensorSpec.of(shape, "f4") for shape in shapes]
    if not combine:
        return md_hom_from_einsum(text, specs)
    scans = combine == "scan"
    how = {"j": "add"} if scans else combine
    return md_hom_from_reduction(Reduction(text, combine=how, scans=scans), specs)


def both(name: str) -> tuple[Problem, MDHom]:
    text, combine, shapes, others = CASES[name]
    problem = problem_from_md_hom(computed(text, combine, shapes))
    return problem, computed(text, combine, others)


@pytest.mark.parametrize("name", CASES)
def test_a_general_kernel_computes_other_shapes(name: str) -> None:
    problem, md_hom = both(name)
    structure, _ = generalised(problem)
    other = problem_from_md_hom(md_hom)
    same, sizes = generalised(other)
    assert same == structure
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-4, 5, each.spec.shape).astype("f4") for each in md_hom.inputs]
    (expected,) = run(md_hom, inputs)
    variants = {without_parts(problem, s) for s in general_candidates(problem, H200)}
    chosen = sorted(variants, key=lambda v: estimated(problem, in_parts(problem, v, H200), H200))
    for variant in [gpu_schedule(problem, H200), *chosen[:3]]:
        general = without_parts(problem, variant)
        validate(structure, general)
        source = program_of(structure, general, OPENCL, "")
        program = device().compile(source, [1] * len(source.sizes))
        parts = in_parts(other, general, H200).parts
        result = np.full(expected.shape, np.nan, np.float32)
        launch = launch_sizes(sizes, general, parts)
        program.bound((*sizes, *launch))(*inputs, result)
        np.testing.assert_array_equal(result, expected, str(general))


@pytest.mark.parametrize("name", CASES)
def test_the_best_one_compiles_as_cuda(name: str) -> None:
    problem, _ = both(name)
    found = [gpu_schedule(problem, H200), *general_candidates(problem, H200)]
    best = min(found, key=lambda s: estimated(problem, s, H200))
    structure, _ = generalised(problem)
    text = program_of(structure, without_parts(problem, best), CUDA, "").text
    assert ".entry" in compiled(text, "sm_90a")


@pytest.mark.parametrize("name", ["product", "few rows", "scores", "convolution"])
def test_contractions_have_tiles_that_work_items_share(name: str) -> None:
    problem, _ = both(name)
    best = min(
        [gpu_schedule(problem, H200), *general_candidates(problem, H200)],
        key=lambda s: estimated(problem, s, H200),
    )
    assert best.resident
    assert math.prod(best.registers[d] for d in problem.kept) > 1


def test_groups_share_a_reduction_where_results_are_few() -> None:
    total, _ = both("total")
    assert any(schedule.splits(total) for schedule in general_candidates(total, H200))
    (d,) = total.contracted
    split = next(s for s in general_candidates(total, H200) if s.splits(total))
    assert split.parts[d] == 4 * H200.cores
    rows, _ = both("maxima")
    assert not any(schedule.splits(rows) for schedule in general_candidates(rows, H200))


def test_kept_dims_have_a_group_for_each_block() -> None:
    problem, _ = both("product")
    schedule = next(general_candidates(problem, H200))
    assert in_parts(problem, without_parts(problem, schedule), H200).parts == schedule.parts
    blocks = [-(-problem.extent(d) // schedule.block(d)) for d in problem.kept]
    assert [schedule.parts[d] for d in problem.kept] == blocks
