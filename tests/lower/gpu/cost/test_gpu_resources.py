"""What schedules hold on a GPU: registers of a work-item, local memory of its group."""

from __future__ import annotations

from dataclasses import replace

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.base.gpu_resources import held_by, local_bytes, registers_of, tile_elements
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.lower.search.candidates import ranked
from tests.kernels.kernel_cases import CASES
from tests.problems import einsum_problem
from tests.targets import H200

CASE = CASES["gpu_matmul_local"]
PROBLEM, SCHEDULE = CASE.problem(), CASE.schedule


def test_staged_tiles_take_local_memory() -> None:
    tilings = tilings_of(PROBLEM, SCHEDULE)
    elements = [tile_elements(PROBLEM, SCHEDULE, tilings, n) for n in range(2)]
    rows = [SCHEDULE.block(d) for d in PROBLEM.kept]
    depth = tilings[PROBLEM.contracted[0]].tile
    assert elements == [row * depth for row in rows]
    itemsize = PROBLEM.inputs[0].itemsize
    assert local_bytes(PROBLEM, SCHEDULE) >= sum(elements) * itemsize
    assert local_bytes(PROBLEM, replace(SCHEDULE, staged=("", ""))) == 0


def test_short_floats_are_staged_as_they_are_computed() -> None:
    """Gradients by the weights of a 1×1 convolution asked for 272 KB, and were thought to fit."""
    problem = einsum_problem("kn,km->mn", (1568, 512), (1568, 2048), dtype="f2")
    target = replace(H200, local_bytes=227 << 10)
    schedules = [schedule for _, schedule in ranked(problem, target) if any(schedule.staged)]
    pools = dict[int, int]()
    for schedule in schedules[:: len(schedules) // 40]:
        pool = max(entry.pool for entry in program_of(problem, schedule, CUDA).entries)
        pools[pool] = local_bytes(problem, schedule)
    assert max(pools) > 48 << 10
    assert all(pool <= estimated + 3 * 1024 for pool, estimated in pools.items())


def test_points_are_accumulators() -> None:
    wider = replace(SCHEDULE, registers=tuple(2 * n for n in SCHEDULE.registers))
    assert registers_of(PROBLEM, wider) > registers_of(PROBLEM, SCHEDULE) >= 40


def test_what_was_asked_for_last_is_kept_and_no_other() -> None:
    wider = replace(SCHEDULE, registers=tuple(2 * n for n in SCHEDULE.registers))
    for schedule in (SCHEDULE, wider, wider, SCHEDULE):
        expected = registers_of(PROBLEM, schedule), local_bytes(PROBLEM, schedule)
        assert held_by(PROBLEM, schedule) == expected
