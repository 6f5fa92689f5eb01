"""Tiles that lie as their source: what several products need is there once, and copied once."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.codegen.base.source_layout import places_as_source
from mdtensor.lower.gpu.base.gpu_resources import tile_elements
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.specs import TensorSpec
from mdtensor.translate.convolutions.convolution_layout import (
    Geometry,
    convolution_from_layout,
    parse_layout,
)
from mdtensor.translate.convolutions.md_hom_from_convolution import md_homs_from_convolution
from mdtensor.translate.md_hom import MDHom
from tests.lower import fuzz
from tests.lower.md_hom_cases import single_case
from tests.lower.random_resident import random_resident_schedule

TAPS = 3


def convolution(channels: int = 4, stride: int = 1) -> MDHom:
    """A convolution of 2 images, 8 filters of 3×3 and 8×8 results an image."""
    side = (8 - 1) * stride + TAPS
    geometry = Geometry((stride,) * 2, ((0, 0),) * 2, (1, 1), 1, False, (0, 0))
    specs = (
        TensorSpec.of((2, side, side, channels), "f4"),
        TensorSpec.of((8, TAPS, TAPS, channels), "f4"),
    )
    layout = parse_layout("NHWC,KRSC->NPQK")
    (md_hom,) = md_homs_from_convolution(convolution_from_layout(layout, geometry, specs)).md_homs
    return md_hom


def schedule(problem: Problem, **values: object) -> Schedule:
    """Four filters by two rows of four points a work-item; the image staged as it lies."""
    filters, image = problem.labels.index("K"), ("p0", "p1")
    points = {"K": 4, "p0": 2, "p1": 4, "r1C": 4}
    chosen = Schedule(
        asm="gpu",
        parts=tuple(1 if problem.reduced[d] else 8 for d in problem.dims),
        tiles=tuple(int(label == "r0") for label in problem.labels),
        threads=tuple(2 if label in ("K", *image) else 1 for label in problem.labels),
        registers=tuple(points.get(label, 1) for label in problem.labels),
        lane=-1,
        width=1,
        group_order=tuple(problem.dims),
        loop_order=tuple(sorted(problem.kept, key=lambda d: d == filters)),
        reduce_order=tuple(sorted(problem.contracted, reverse=True)),
        staged=("local", "local"),
        resident=True,
        chunks=tuple(4 if label in ("K", "r1C") else 1 for label in problem.labels),
        as_source=(True, False),
    )
    return replace(chosen, **values)


def whole_rows(problem: Problem) -> Schedule:
    """The same, tiles being all rows of the window."""
    return schedule(problem, tiles=(0,) * len(problem.extents))


@pytest.mark.parametrize(
    ("stride", "elements", "whole"),
    [(1, 4 * 1 * (8 * 4 + 8), 6 * 10 * 4), (2, 4 * 1 * (8 * 8 + 4), 9 * 17 * 4)],
)
def test_dims_of_a_window_share_elements(stride: int, elements: int, whole: int):
    problem = problem_from_md_hom(convolution(stride=stride))
    for chosen, size in ((schedule(problem), elements), (whole_rows(problem), whole)):
        tilings = tilings_of(problem, chosen)
        places, found = places_as_source(problem, tilings, 0)
        strides = {problem.labels[p.dim]: p.stride.constant for p in places}
        assert (strides["r1C"], strides["p1"]) == (1, 4 * stride)
        assert found.constant == tile_elements(problem, chosen, tilings, 0) == size


def test_unless_each_shall_have_its_own():
    problem = problem_from_md_hom(convolution())
    tilings = tilings_of(problem, schedule(problem))
    places, size = places_as_source(problem, tilings, 0, shared=False)
    assert size.constant == 12 * 8 * 4
    assert sorted(p.stride.constant or 0 for p in places) == [1, 12, 96, 96, 384]


def test_what_may_end_inside_a_tile_shares_nothing():
    problem = problem_from_md_hom(convolution())
    registers = tuple(3 if label == "p1" else 1 for label in problem.labels)
    chosen = schedule(problem, registers=registers, chunks=registers)
    _, size = places_as_source(problem, tilings_of(problem, chosen), 0)
    assert size.constant == 12 * 6 * 2


@pytest.mark.parametrize("stages", [0, 2, 3])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [(0, 0), (4, 4), (1, 0)], ids=repr)
def test_what_is_computed_is_right(stride: int, padding: tuple[int, int], stages: int):
    md_hom = convolution(stride=stride)
    chosen = schedule(problem_from_md_hom(md_hom), padding=padding, stages=stages)
    assert fuzz.check(single_case(md_hom, chosen, [(-8, 8)] * 2))


@pytest.mark.parametrize("channels", [3, 4])
def test_rows_of_the_window_share_elements_too(channels: int):
    md_hom = convolution(channels)
    problem = problem_from_md_hom(md_hom)
    chosen = whole_rows(problem)
    unrolled = problem.labels.index("r1C")
    steps = dict(enumerate(chosen.registers)) | {unrolled: 3 if channels == 3 else 4}
    chunks = dict(enumerate(chosen.chunks)) | {unrolled: steps[unrolled]}
    chosen = replace(chosen, registers=tuple(steps.values()), chunks=tuple(chunks.values()))
    assert fuzz.check(single_case(md_hom, chosen, [(-8, 8)] * 2))


def test_a_run_is_copied_in_order():
    problem = problem_from_md_hom(convolution())
    text = program_of(problem, schedule(problem, stages=2), CUDA).text
    assert "__shared__ __align__(16) float S0[384];" in text  # twice 160 in whole lines
    assert "copy_async<16>(S0 + 4*c0_4" in text


def test_random_schedules():
    checked = 0
    for number in range(16):
        md_hom = convolution((3, 4)[number % 2], (1, 2)[number // 2 % 2])
        problem = problem_from_md_hom(md_hom)
        drawn = random_resident_schedule(random.Random(number), problem)
        chosen = replace(drawn, staged=("local", "local"), as_source=(True, bool(number % 3)))
        checked += fuzz.check(single_case(md_hom, chosen, [(-8, 8)] * 2))
    assert checked > 6
