"""Planes of a stencil that are on their way to groups that march."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.space.gpu_ranking import misfit
from mdtensor.lower.gpu.streaming.planes import plane_dim, planes_of
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_stencil import md_homs_from_stencil
from mdtensor.translate.stencils.stencil_from_function import stencil_from_function
from tests.kernels.nvrtc_compiler import compiled
from tests.lower.codegen.streaming.test_pointwise import tiles
from tests.targets import H200


def star(u: Any) -> Any:
    around = u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] + u[0, 0, -1] + u[0, 0, 1]
    return 6 * u[0, 0, 0] - around


def problem_of(*shape: int, dtype: str = "f4", border: str = "valid") -> Problem:
    stencil = stencil_from_function(star, [TensorSpec.of(shape, dtype)])
    return problem_from_md_hom(md_homs_from_stencil(stencil, Border(border))[0])


def ahead(**values: object) -> Schedule:
    plain: dict[str, object] = {
        "registers": (1, 4, 2),
        "chunks": (1, 4, 1),
        "threads": (1, 1, 32),
        "parts": (1, 7, 1),
        "staged": ("local",),
        "march": True,
        "stages": 3,
        "tail": "overlap",
    }
    return tiles(**(plain | values))


def planes(problem: Problem, schedule: Schedule, *, aligned: bool = True):
    validate(problem, schedule)
    tilings = tilings_of(problem, schedule)
    (found,) = planes_of(problem, schedule, tilings, aligned=aligned)
    return found


def test_a_plane_is_a_block_and_what_lies_around_it() -> None:
    found = planes(problem_of(20, 30, 64), ahead())
    assert [(side.dim, side.length) for side in found.sides] == [(1, 4 + 2), (2, 64)]
    assert (found.first, found.last, found.count) == (0, 2, 3 + 2)
    assert (found.lanes, found.size, found.apart) == (4, 6 * 64, 6 * 64)
    # Work-items beyond the 62 points of a row read 2 elements more of the last one.
    assert found.elements == 5 * 6 * 64 + 2


@pytest.mark.parametrize(
    ("shape", "dtype", "aligned", "lanes"),
    [
        ((20, 30, 64), "f8", True, 2),
        ((20, 30, 64), "f4", False, 1),
        ((20, 30, 66), "f4", True, 2),
        ((20, 31, 63), "f4", True, 1),
    ],
)
def test_pieces_are_as_wide_as_all_rows_allow(
    shape: tuple[int, ...], dtype: str, aligned: bool, lanes: int
) -> None:
    found = planes(problem_of(*shape, dtype=dtype), ahead(parts=(1, 8, 1)), aligned=aligned)
    assert found.lanes == lanes


def test_an_offset_is_steps_along_every_side() -> None:
    found = planes(problem_of(20, 30, 64), ahead())
    assert found.steps(2 * 30 * 64 + 3 * 64 + 5) == (2, [3, 5])
    assert found.strides() == [64, 1]


def test_each_element_of_a_plane_is_copied_once_and_read_where_it_lies() -> None:
    source = program_of(problem_of(20, 30, 64), ahead(), CUDA)
    text = source.text[source.text.index("void kernel_0") :]
    before, block = text.split("for (", 1)
    # 96 pieces of 16 bytes a plane, three for each of 32 work-items
    assert before.count("copy_async<16>(") == 3 * (3 + 1)
    assert block.count("copy_async<16>(") == 3
    assert block.count("__syncthreads();") == 1
    assert "b0[" not in text
    # Of a column of 4 points one plane is new; neighbours are read from the plane in between.
    assert block.count("= p0_2[") == 4 * 2
    assert block.count("= p0_1[") == (2 + 4 * 2) * 2
    assert block.count("= h_x") == before.count("float h_x") == 2 * 4 * 2


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_planes_come_without_registers(architecture: str) -> None:
    text = program_of(problem_of(20, 30, 64), ahead(), CUDA).text
    ptx = compiled(text, architecture)
    assert ptx.count("cp.async.cg.shared.global") >= 3
    assert "ld.global" not in ptx


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stages": 0}, "staged planes one by one, in stages"),
        ({"registers": (2, 4, 2), "chunks": ()}, "staged planes one by one, in stages"),
        ({"padding": (1,)}, "staged planes lie as their sources do"),
        ({"staged": ("",)}, "stages need staged inputs"),
        ({"march": False}, "only streams that are read once a point can be staged"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        validate(problem_of(20, 30, 64), ahead(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"registers": (1, 1, 2), "chunks": (), "parts": (20, 1, 1)}, "farthest"),
        ({"registers": (1, 4, 8), "threads": (1, 1, 16)}, "lies inside it"),
        ({"parts": (18, 7, 1)}, "a group that marches has several blocks"),
    ],
)
def test_planes_that_cannot_be_are_refused_before_they_are_compiled(
    changes: dict[str, object], message: str
) -> None:
    problem, schedule = problem_of(20, 30, 64), ahead(**changes)
    assert message in misfit(problem, schedule, H200)
    with pytest.raises(LoweringError, match=message):
        program_of(problem, schedule, CUDA)


def test_planes_lie_along_the_dim_whose_neighbours_are_farthest() -> None:
    assert plane_dim(problem_of(20, 30, 64)) == 0
    assert plane_dim(problem_of(20, 30, 64, dtype="i1")) == -1
    matrix = TensorSpec.of((64, 64))
    turned = md_hom_from_einsum("ij,ji->ij", [matrix, matrix])
    assert plane_dim(problem_from_md_hom(turned)) == -1
    scalar = md_hom_from_einsum(",->", [TensorSpec.of(())] * 2)
    assert plane_dim(problem_from_md_hom(scalar)) == -1
    product = md_hom_from_einsum("ik,kj->ij", [matrix, matrix])
    assert plane_dim(problem_from_md_hom(product)) == -1


def test_a_schedule_says_that_planes_are_staged() -> None:
    problem, schedule = problem_of(20, 30, 64), ahead()
    assert "stages 3; marches" in schedule.describe(problem)
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert replace(schedule, stages=4) != schedule
