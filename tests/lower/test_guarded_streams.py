"""Padded convolutions as one kernel: what lies outside of the image is zero where it is read."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from typing import Any

import pytest

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.base.block_shapes import blocked
from mdtensor.lower.gpu.register_blocking.gpu_candidates import gpu_candidates
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.convolutions.convolution_layout import (
    Geometry,
    convolution_from_layout,
    parse_layout,
)
from mdtensor.translate.convolutions.md_hom_from_convolution import md_homs_from_convolution
from mdtensor.translate.md_hom import MDHom
from tests.lower import fuzz
from tests.lower.md_hom_cases import MDHomCase, single_case
from tests.lower.random_resident import random_resident_schedule
from tests.targets import H200


def convolution(
    channels: int, *, stride: int = 1, dilation: int = 1, dtype: Any = "f4", groups: int = 1
) -> MDHom:
    """A convolution of 2 images of 9×7, filters of 3×3 and padding 1 and 2, as one md_hom.

    Its filters are 5, or one for each group.
    """
    geometry = Geometry((stride,) * 2, ((1, 2),) * 2, (dilation,) * 2, groups, False, (0, 0))
    filters = (5 if groups == 1 else groups, 3, 3, channels // groups)
    specs = TensorSpec.of((2, 9, 7, channels), dtype), TensorSpec.of(filters, dtype)
    layout = parse_layout("NHWC,KRSC->NPQK")
    whole = md_homs_from_convolution(convolution_from_layout(layout, geometry, specs)).whole
    assert whole is not None
    return whole


def schedule(md_hom: MDHom, *staged: str, **values: object) -> Schedule:
    """Blocks of several points of image and filters, whose tiles are staged or not."""
    problem = zero_filled(problem_from_md_hom(md_hom))
    chosen = blocked(problem, (4, 2), (4, 4), 16)
    return replace(chosen, staged=staged, **values)


def case(md_hom: MDHom, chosen: Schedule) -> MDHomCase:
    return single_case(md_hom, chosen, [(-8, 8)] * 2)


STAGED = {
    "read where they are": ("", ""),
    "filters staged": ("", "local"),
    "image staged": ("local", ""),
    "both staged": ("local", "local"),
}


@pytest.mark.parametrize("staged", STAGED)
@pytest.mark.parametrize("channels", [3, 8], ids="{} channels".format)
def test_whatever_is_staged(channels: int, staged: str):
    md_hom = convolution(channels)
    assert fuzz.check(case(md_hom, schedule(md_hom, *STAGED[staged], prefetch=False)))


@pytest.mark.parametrize("geometry", [{"stride": 2}, {"dilation": 2}, {"dtype": "i4"}], ids=repr)
def test_strides_dilation_and_whole_numbers(geometry: dict[str, object]):
    md_hom = convolution(4, **geometry)
    for staged in STAGED.values():
        assert fuzz.check(case(md_hom, schedule(md_hom, *staged, prefetch=False)))


def test_tiles_on_their_way():
    md_hom = convolution(8)
    chosen = schedule(md_hom, "local", "local", prefetch=False, stages=3)
    assert any(chosen.tiles)
    assert fuzz.check(case(md_hom, chosen))


def test_random_schedules():
    checked = 0
    for number in range(24):
        md_hom = convolution(3 if number % 2 else 4)
        problem = zero_filled(problem_from_md_hom(md_hom))
        chosen = random_resident_schedule(random.Random(number), problem)
        checked += fuzz.check(case(md_hom, chosen))
    assert checked > 12


def test_an_element_is_selected_once_and_not_every_product():
    md_hom = convolution(3)
    chosen = schedule(md_hom, "", "", prefetch=False)
    text = program_of(problem_from_md_hom(md_hom), chosen, CUDA).text
    points = math.prod(chosen.registers)
    assert 0 < text.count("? p0[") < points / 2


@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_neighbours_with_one_guard_are_loaded_together(dtype: str) -> None:
    md_hom = convolution(8, dtype=dtype, groups=8)
    problem = problem_from_md_hom(md_hom)
    (channels,) = (d for d in problem.dims if problem.streams[0].strides[d].constant == 1)
    chunks = tuple(4 if d == channels else 1 for d in problem.dims)
    chosen = replace(schedule(md_hom, "", ""), registers=chunks, chunks=chunks, tiles=(0,) * 6)
    chosen = replace(chosen, prefetch=False)
    text = program_of(problem, chosen, CUDA).text
    assert "? p0[" not in text
    assert re.search(r"if \(.+ < \(long long\)\(9L\).+\) \{\n +w_x\d+ = ", text)
    assert fuzz.check(case(md_hom, chosen))
    unaligned = program_of(problem, chosen, CUDA).unaligned
    assert unaligned is not None
    assert "? p0[" in unaligned.text or "? of_" in unaligned.text


def test_candidates_stage_the_image():
    problem = problem_from_md_hom(convolution(8))
    staged = {schedule.staged for schedule in gpu_candidates(problem, H200)}
    assert ("local", "local") in staged


def test_schedules_that_keep_no_accumulators_see_the_guard():
    problem = problem_from_md_hom(convolution(3))
    simple = Schedule.from_json(schedule(convolution(3), "", "", prefetch=False).to_json())
    assert simple.computed(problem) == zero_filled(problem) != problem
    for changes in ({"resident": False}, {"asm": "cpu"}):
        assert replace(simple, **changes).computed(problem) is problem
    assert not any(read.computed for read in simple.computed(problem).reads)
