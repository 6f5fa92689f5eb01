"""What is profiled on GPUs, and how."""

from __future__ import annotations

import shutil

import pytest

from bench import gpu_profile
from bench.cuda_cases import CASES
from bench.families import EINSUM, fits
from bench.gpu_goals import goal_of
from bench.gpu_plan import newest_rows


@pytest.mark.parametrize("family", CASES)
def test_cases_that_miss_their_goals_are_profiled(family: str) -> None:
    rows = newest_rows(family)
    short = set(gpu_profile.falling_short(family))
    assert short <= set(rows)
    for name, row in rows.items():
        goal = goal_of(name)
        assert (name in short) == (goal is not None and goal.missed_by(row))


def test_a_process_in_the_profiler_has_one_case() -> None:
    command = gpu_profile.command_of(EINSUM, "matmul-1024x1024x1024")
    assert command[0] == "ncu"
    assert command[command.index("--metrics") + 1].split(",") == list(gpu_profile.METRICS)
    assert "--here" in command
    only = command[command.index("--cases") + 1]
    assert [w.name for w in CASES[EINSUM] if fits(w, only)] == ["matmul-1024x1024x1024"]


def test_without_a_profiler_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit):
        gpu_profile.main([])
    assert "ncu, NVIDIA's profiler of kernels, is not on the path" in capsys.readouterr().err
