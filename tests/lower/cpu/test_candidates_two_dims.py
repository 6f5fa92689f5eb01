"""Register tiles of two dims, for lanes along a reduction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mdtensor.api.tuning.harness import TrialBuffers
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.cpu.candidates_two_dims import tiles_of_two
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from tests.lower.running import device
from tests.problems import einsum_problem as einsum
from tests.targets import CPU


def tiles(problem: Problem, lane: str, width: int = 16) -> list[Schedule]:
    flat = replace(plain(problem), lane=problem.labels.index(lane), width=width)
    return list(tiles_of_two(problem, flat, CPU))


def test_points_along_both_dims_share_what_is_loaded():
    problem = einsum("ik,jk->ij", (100, 512), (100, 512))
    found = tiles(problem, "k")
    assert found
    for schedule in found:
        validate(problem, schedule)
        points = dict(zip(problem.labels, schedule.registers, strict=True))
        assert points.pop("k") == 16
        assert min(points.values()) > 1
        assert points["i"] * points["j"] + min(points.values()) <= CPU.vector_registers


def test_dims_that_share_nothing_have_no_tile_together():
    # Along b both inputs go on, so its points have nothing in common with those along i or j.
    problem = einsum("bik,bjk->bij", (8, 100, 512), (8, 100, 512))
    b = problem.labels.index("b")
    assert all(schedule.registers[b] == 1 for schedule in tiles(problem, "k"))
    assert not tiles(einsum("ik,k->i", (100, 512), (512,)), "k")
    assert not tiles(einsum("ik,kj->ij", (100, 512), (512, 96)), "j")


@pytest.mark.parametrize(
    ("dtype", "width"),
    [("f4", 16), ("f4", 4), ("f8", 8), ("i8", 8), ("f2", 16), ("u1", 32), ("i2", 16)],
)
def test_what_they_compute_is_the_reference(dtype, width):
    problem = einsum("ik,jk->ij", (9, 111), (10, 111), dtype=dtype)
    arena = TrialBuffers(problem)
    for schedule in tiles(problem, "k", width)[::9]:
        arena.poison()
        arena.run_of(compiled(problem, schedule))()
        assert arena.wrong() == ""


def compiled(problem: Problem, schedule: Schedule):
    return device().compile(program_of(problem, schedule, OPENCL, ""))


def test_long_rows_are_read_in_parts_for_all_points_or_for_some():
    problem = einsum("ik,jk->ij", (100, 2048), (100, 2048))
    k = problem.labels.index("k")
    parted = [schedule for schedule in tiles(problem, "k") if schedule.tiles[k] == 512]
    tiled = [[d for d in problem.kept if schedule.tiles[d]] for schedule in parted]
    assert sorted({len(dims) for dims in tiled}) == [0, 1]
    for schedule, dims in zip(parted, tiled, strict=True):
        assert all(schedule.tiles[d] == 4 * schedule.registers[d] for d in dims)
