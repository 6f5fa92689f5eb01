"""Candidates for GPUs: valid, within the limits of the device, and in a sensible order."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mdtensor.kernels.cstyle import render
from mdtensor.kernels.cuda import CUDA
from mdtensor.lower.gpu.base.block_shapes import BlockShapes, blocked, sides_of
from mdtensor.lower.gpu.base.gpu_cost import gpu_estimate, least_seconds
from mdtensor.lower.gpu.base.gpu_resources import local_bytes, registers_of
from mdtensor.lower.gpu.register_blocking.gpu_candidates import (
    all_blocks,
    gpu_candidates,
    most_parts,
    of_block,
    ranked_on_gpu,
)
from mdtensor.lower.gpu.register_blocking.lower_bound import LeastOfBlocks
from mdtensor.lower.gpu.space.gpu_ranking import misfit
from mdtensor.lower.lowering import lowered
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.schedule import MOST_OF_CLUSTER
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from tests.problems import einsum_problem
from tests.targets import H200

SHAPES = {
    "ik,kj->ij": ((512, 256), (256, 512)),
    "ki,jk->ij": ((256, 500), (300, 256)),
    "bik,bkj->bij": ((16, 10, 64), (16, 64, 500)),
    "ij,j->i": ((512, 1024), (1024,)),
    "ij,i->j": ((512, 1024), (512,)),
    "i,i->": ((1 << 20,), (1 << 20,)),
    "gdab,efgc->abcdef": ((24, 16, 16, 24), (24, 16, 24, 16)),
    "abcd->b": ((8, 32, 8, 64),),
}


def problem_of(text: str, dtype: str = "f4") -> Problem:
    return einsum_problem(text, *SHAPES[text], dtype=dtype)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1"])
def test_candidates_can_be_rendered_and_keep_the_limits(text, dtype):
    problem = problem_of(text, dtype)
    found = list(gpu_candidates(problem, H200))
    assert len(found) == len(set(found)) > 10
    for schedule in found[:: len(found) // 8]:
        assert 32 <= math.prod(schedule.threads) <= H200.max_threads
        assert local_bytes(problem, schedule) <= H200.local_bytes
        assert registers_of(problem, schedule) <= 255
        assert "__global__" in render(lowered(problem, schedule), CUDA).text


def test_rows_are_dims_that_share_what_lies_along_the_results():
    problem = problem_of("gdab,efgc->abcdef")
    sides = sides_of(problem)
    assert [problem.labels[d] for d in sides.columns] == ["ef", "c"]
    assert [problem.labels[d] for d in sides.rows] == ["d", "ab"]


def test_large_products_are_blocked_with_many_points_a_work_item():
    problem = einsum_problem("ik,kj->ij", (4096, 4096), (4096, 4096))
    _, best = ranked_on_gpu(problem, H200)[0]
    assert math.prod(best.registers[d] for d in problem.kept) >= 64
    assert best.staged == ("local", "local")
    assert best.prefetch


def test_long_reductions_are_shared_by_groups_and_work_items():
    problem = problem_of("i,i->")
    _, best = ranked_on_gpu(problem, H200)[0]
    assert best.parts[0] >= 64
    assert best.threads[0] >= 32
    assert best.chunks == (4,)
    assert best.last_group


def test_teams_share_the_reduction_where_results_are_few_for_the_warps_of_a_device():
    specs, target = [TensorSpec.of((1024, 1024))] * 2, replace(H200, local_bytes=227 << 10)
    problem = problem_from_md_hom(md_hom_from_einsum("ik,kj->ij", specs))
    k = problem.contracted[0]
    found = [s for s in gpu_candidates(problem, target) if s.threads[k] > 1 and any(s.staged)]
    assert {s.threads[k] for s in found} == {2, 4}
    for team in found:
        assert team.tiles[k] % (team.threads[k] * team.registers[k]) == 0
        assert team.stages > 1
    # What a search of ten minutes found, but for its unrolling.
    best = [s for s in found if s.threads == (4, 2, 16) and s.tiles[k] == 32]
    assert any((s.registers[0], s.registers[2], s.stages) == (8, 8, 3) for s in best)
    many = einsum_problem("ik,kj->ij", (4096, 4096), (4096, 4096))
    assert not any(s.threads[1] in (2, 4) for s in gpu_candidates(many, target) if any(s.staged))


def test_clusters_are_for_devices_that_have_them():
    problem = problem_of("ik,kj->ij")
    one = next(s for _, s in ranked_on_gpu(problem, H200) if 1 < s.parts[1] <= MOST_OF_CLUSTER)
    met = replace(one, last_group=False, cluster=True)
    assert misfit(problem, met, H200) == "has_clusters: no"
    assert not misfit(problem, met, replace(H200, clusters=True))
    estimates = [gpu_estimate(problem, schedule, H200) for schedule in (one, met)]
    assert estimates[0] < estimates[1]


def test_groups_that_cannot_count_themselves_have_a_second_kernel():
    problem, target = problem_of("i,i->"), replace(H200, counts_groups=False)
    found = [schedule for _, schedule in ranked_on_gpu(problem, target)]
    assert any(schedule.parts[0] > 1 for schedule in found)
    assert not any(schedule.last_group for schedule in found)


def test_estimates_grow_with_the_work():
    small, large = problem_of("ij,j->i"), problem_of("ik,kj->ij")
    work = [gpu_estimate(p, ranked_on_gpu(p, H200)[0][1], H200) for p in (small, large)]
    assert work[0] < work[1]


def test_every_schedule_has_an_estimate():
    outer = einsum_problem("i,j->ij", (1 << 12,), (1 << 12,))
    for problem in (outer, problem_of("ij,j->i"), problem_of("i,i->")):
        _, simple = ranked(problem, H200)[-1]
        assert not simple.resident
        assert gpu_estimate(problem, simple, H200) > 1e-6


def test_structures_have_the_simple_schedule():
    problem = einsum_problem("i,j->ij", (64,), (64,))
    assert not list(gpu_candidates(problem, H200))
    assert len(ranked(problem_of("ij,j->i"), H200, general=True)) == 1


def test_many_results_bypass_the_caches():
    many, few = problem_of("gdab,efgc->abcdef"), problem_of("ik,kj->ij")
    assert all(schedule.streaming for schedule in gpu_candidates(many, H200))
    assert not any(schedule.streaming for schedule in gpu_candidates(few, H200))


def test_rows_are_neighbours_in_the_source_where_copies_would_be_of_single_elements():
    shapes = ((24, 24, 24, 16), (16, 16, 24, 16))
    specs = [TensorSpec.of(shape) for shape in shapes]
    problem = problem_from_md_hom(md_hom_from_einsum("gdac,efgb->abcdef", specs))
    _, best = ranked_on_gpu(problem, H200)[0]
    strides = problem.streams[0].strides
    along_source = [problem.labels[d] for d in problem.kept if strides[d].constant == 1]
    assert along_source == ["c"]
    assert best.registers[problem.labels.index("c")] >= 8


def test_column_sums_are_read_in_whole_lines():
    problem = einsum_problem("ij->j", (4096, 4096))
    _, best = ranked_on_gpu(problem, H200)[0]
    assert best.threads[1] * best.chunks[1] * 4 >= 128


def test_no_work_item_computes_more_than_a_point_a_cycle():
    problem = problem_of("i,i->")
    alone = replace(ranked(problem, H200)[-1][1], threads=(1,))
    points, clock = 1 << 20, H200.rate / 128
    assert least_seconds(problem, alone, H200) == pytest.approx(points / clock)
    shared = replace(alone, threads=(256,))
    assert least_seconds(problem, shared, H200) == pytest.approx(points / 256 / clock)
    many = replace(shared, parts=(1 << 20,))
    assert least_seconds(problem, many, H200) >= points / (132 * 128) / clock * 0.99


@pytest.mark.parametrize(
    ("depth", "steps", "tiles"),
    [(8, (1, 3, 4), (1, 3, 0)), (16, (1, 3, 4), (1, 3, 0)), (64, (1, 3, 4), (1, 0, 0))],
)
def test_steps_and_depth_are_shared_out_among_short_reduced_dims(depth, steps, tiles):
    problem = einsum_problem("ikab,bakj->ij", (64, 7, 21, 4), (4, 21, 7, 64))
    schedule = blocked(problem, (8, 8), (8, 8), depth)
    dims = [problem.labels.index(label) for label in "kab"]
    assert tuple(schedule.registers[d] for d in dims) == steps
    assert tuple(schedule.tiles[d] for d in dims) == tiles
    assert schedule.reduce_order == tuple(dims)


def test_a_long_reduction_has_round_steps_and_tiles():
    problem = einsum_problem("ik,kj->ij", (64, 500), (500, 64))
    schedule = blocked(problem, (8, 8), (8, 8), 16)
    d = problem.labels.index("k")
    assert (schedule.registers[d], schedule.tiles[d], schedule.prefetch) == (8, 16, True)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("most", [1, 2])
def test_the_best_are_found_without_looking_at_all(text, dtype, most):
    problem, target = problem_of(text, dtype), replace(H200, matrices=True, bulk_copies=True)
    every = ranked_on_gpu(problem, target)
    assert ranked_on_gpu(problem, target, most) == every[:most]


@pytest.mark.parametrize("text", SHAPES)
def test_no_schedule_of_a_block_is_expected_to_take_less_than_the_least(text):
    problem = problem_of(text)
    blocks = BlockShapes(problem)
    bound = LeastOfBlocks(blocks, H200, lambda block: most_parts(blocks, block, H200))
    for block in all_blocks(blocks)[::7]:
        least = bound.seconds(block)
        assert all(least <= gpu_estimate(problem, s, H200) for s in of_block(blocks, block, H200))
