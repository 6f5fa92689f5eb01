"""Candidates whose rows lie as their source does: what they are made of, and what they compute."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mdtensor.lower.gpu.base.block_shapes import BlockShapes
from mdtensor.lower.gpu.base.gpu_cost import gpu_estimate
from mdtensor.lower.gpu.base.gpu_resources import read_by_steps, registers_of
from mdtensor.lower.gpu.register_blocking.gpu_candidates import gpu_candidates, ranked_on_gpu
from mdtensor.lower.gpu.register_blocking.source_layout_candidates import by_steps_of_source
from mdtensor.lower.gpu.space.gpu_ranking import misfit
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.convolutions.convolution_axes import strided
from mdtensor.translate.convolutions.md_hom_from_convolution import (
    Convolution,
    ConvolutionOperand,
    md_homs_from_convolution,
)
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.views import AffineIndex
from tests.lower import fuzz
from tests.lower.md_hom_cases import single_case
from tests.problems import einsum_problem as einsum
from tests.targets import H200


def capsules(side: int, filters: int, channels: int = 3) -> MDHom:
    """A convolution of 4×4 matrices by windows of 3×3, of `side` results along both dims."""
    at = AffineIndex.of
    shape, window = side + 2, (filters, 3, 3, channels, 4, 4)
    image = TensorSpec.of((1, shape, shape, channels, 4, 4), "f4")
    img = ConvolutionOperand(image, (at("n"), 0, 1, at("c"), at("i"), at("k")))
    flt = ConvolutionOperand(
        TensorSpec.of(window, "f4"), (at("f"), 0, 1, at("c"), at("k"), at("j"))
    )
    results = TensorSpec.of((1, side, side, filters, 4, 4), "f4")
    out = ConvolutionOperand(results, (at("n"), 0, 1, at("f"), at("i"), at("j")))
    kept = (("n", 1), ("f", filters), ("i", 4), ("j", 4))
    axes = (strided(shape, 3, side), strided(shape, 3, side))
    convolution = Convolution(
        axes, kept, (("c", channels), ("k", 4)), img, flt, out, out.spec.dtype
    )
    (md_hom,) = md_homs_from_convolution(convolution).md_homs
    return md_hom


def found(problem: Problem) -> list[Schedule]:
    return list(by_steps_of_source(BlockShapes(problem)))


def test_lanes_lie_along_what_is_nearest_and_a_window_is_whole():
    problem = problem_from_md_hom(capsules(32, 16))
    labels = problem.labels
    schedules = found(problem)
    assert schedules
    for schedule in schedules:
        threads = dict(zip(labels, schedule.threads, strict=True))
        registers = dict(zip(labels, schedule.registers, strict=True))
        assert (threads["i"], registers["i"], registers["j"], registers["k"]) == (4, 1, 4, 4)
        assert registers["p1"] == 8
        assert schedule.as_source == (True, False)
        assert read_by_steps(problem, schedule) == 0
    tiles = {dict(zip(labels, s.tiles, strict=True))["r1c"] for s in schedules}
    assert tiles == {0, 3}


def test_tiles_are_in_stages_or_alone_or_the_whole_reduction():
    problem = problem_from_md_hom(capsules(32, 16))
    stages: dict[bool, set[int]] = {True: set(), False: set()}
    for schedule in found(problem):
        stages[any(schedule.tiles)].add(schedule.stages)
    assert stages == {True: {0, 2, 3}, False: {0}}


def test_a_whole_reduction_in_one_tile_is_waited_for_once():
    problem = problem_from_md_hom(capsules(32, 16))
    tiles = next(s.tiles for s in found(problem) if any(s.tiles))
    whole = next(s for s in found(problem) if not any(s.tiles))
    several = replace(whole, tiles=tiles)
    assert gpu_estimate(problem, whole, H200) < gpu_estimate(problem, several, H200)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ik,kj->ij", ((64, 96), (96, 64))),
        ("ik,kj->ji", ((64, 96), (96, 64))),
        ("bik,kj->bij", ((8, 64, 96), (96, 64))),
    ],
)
def test_products_have_them(text: str, shapes: tuple[tuple[int, ...], ...]):
    problem = einsum(text, *shapes)
    for schedule in found(problem):
        by_source = schedule.as_source.index(True)
        nearest = schedule.reduce_order[-1]
        assert problem.streams[by_source].strides[nearest].constant == 1
        assert math.prod(schedule.threads) % 32 == 0
        assert not misfit(problem, schedule, H200) or misfit(problem, schedule, H200).startswith(
            "fits_"
        )


@pytest.mark.parametrize(
    "problem",
    [
        einsum("ki,kj->ij", (96, 64), (96, 64)),  # nothing is turned
        einsum("ik,kj->ij", (64, 95), (95, 64)),  # no whole accesses
        einsum("ik,kj->ij", (61, 96), (96, 64)),  # rows that nothing divides
        einsum("ij,j->i", (64, 96), (96,)),  # no columns
    ],
    ids=["not turned", "odd depth", "odd rows", "one column"],
)
def test_others_have_none(problem: Problem):
    assert found(problem) == []


def test_they_are_among_the_candidates_and_the_best_ones():
    problem = problem_from_md_hom(capsules(64, 64))
    every = set(gpu_candidates(problem, H200))
    assert any(read_by_steps(problem, schedule) == 0 for schedule in every)
    best = ranked_on_gpu(problem, H200)[:10]
    assert best == ranked_on_gpu(problem, H200, 10)
    assert any(read_by_steps(problem, schedule) == 0 for _, schedule in best)


def test_rows_that_take_steps_together_need_fewer_registers():
    problem = problem_from_md_hom(capsules(32, 16))
    schedule = next(s for s in found(problem) if math.prod(s.registers) == 8 * 8 * 4)
    assert registers_of(problem, schedule) == 64 + 4 * 8 + 32


@pytest.mark.parametrize("number", [0, 7, 20])
def test_what_they_compute_is_right(number: int):
    md_hom = capsules(16, 8)
    problem = problem_from_md_hom(md_hom)
    schedules = found(problem)
    schedule = schedules[number % len(schedules)]
    assert fuzz.check(single_case(md_hom, schedule, [(-8, 8)] * 2))
