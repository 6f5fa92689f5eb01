"""Results of groups that march leave in runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.space.gpu_ranking import misfit
from mdtensor.lower.gpu.streaming.plane_resources import streamed_bytes
from mdtensor.lower.gpu.streaming.streamed_output import lengths_of_runs, runs_of
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from tests.kernels.nvrtc_compiler import compiled
from tests.lower.codegen.streaming.test_plane_prefetch import ahead, problem_of
from tests.targets import H200

PROBLEM = problem_of(20, 30, 66)  # 28 rows of 64 results a plane


def in_runs(**values: object) -> Schedule:
    return ahead(**({"results": "local"} | values))


def test_a_run_is_what_a_block_writes_of_a_plane() -> None:
    schedule = in_runs()
    assert lengths_of_runs(PROBLEM, schedule, tilings_of(PROBLEM, schedule)) == (4 * 64,)
    assert lengths_of_runs(PROBLEM, ahead(), tilings_of(PROBLEM, ahead())) == ()


@pytest.mark.parametrize(("stages", "runs"), [(2, 2), (3, 3), (5, 5)])
def test_as_many_runs_leave_as_planes_come(stages: int, runs: int) -> None:
    schedule = in_runs(stages=stages)
    text = program_of(PROBLEM, schedule, CUDA).text
    assert runs_of(schedule) == runs
    # The block before the last one's run may leave while this one is written.
    assert text.count(f"bulk.wait_group.read {runs - 2};") == 1
    assert text.count("bulk.wait_group 0;") == 1
    assert text.count("cp.async.bulk.global.shared") == 2
    assert f"if ({runs} <= out)" in text
    held = streamed_bytes(PROBLEM, schedule) - streamed_bytes(
        PROBLEM, replace(schedule, results="")
    )
    assert held == runs * (4 * 64 + 32) * 4


def test_runs_compile() -> None:
    ptx = compiled(program_of(PROBLEM, in_runs(stages=4), CUDA).text, "sm_90a")
    assert "cp.async.bulk.wait_group.read 2;" in ptx
    assert "st.global" not in ptx


@pytest.mark.parametrize(
    ("shape", "changes", "message"),
    [
        ((20, 30, 66), {"threads": (1, 1, 16), "parts": (1, 7, 2)}, "a block's lie in a run"),
        ((20, 31, 66), {"tail": "split", "parts": (1, 8, 1)}, "in whole blocks"),
        (
            (20, 30, 65),
            {"registers": (1, 2, 2), "chunks": (1, 2, 1), "parts": (1, 14, 1)},
            "multiples of 16 bytes",
        ),
    ],
)
def test_results_that_are_no_run_are_refused(
    shape: tuple[int, ...], changes: dict[str, object], message: str
) -> None:
    problem, schedule = problem_of(*shape), in_runs(**changes)
    with pytest.raises(LoweringError, match=message):
        lengths_of_runs(problem, schedule, tilings_of(problem, schedule))
    assert misfit(problem, schedule, replace(H200, bulk_copies=True))
