"""The table of machines: what a run writes is read again, and takes an earlier one's place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.machines import TABLE, Run, record, recorded, run_here

RUN = Run("A | B,  x2", "OpenCL 3.0", "3.11.2", "2.4.6", "all", "abcdef0", "2026-11-24", 10, 0)


def test_a_later_run_of_a_machine_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    table = tmp_path / "machines.md"
    assert recorded(table) == []
    record(RUN, table)
    record(replace(RUN, python="3.13.0", failed=2), table)
    read = recorded(table)
    assert [run.python for run in read] == ["3.11.2", "3.13.0"]
    assert read[0] == replace(RUN, processor="A / B, x2")
    record(replace(read[1], date="2026-11-25", failed=0), table)
    assert [(run.date, run.failed) for run in recorded(table)] == [
        ("2026-11-24", 0),
        ("2026-11-25", 0),
    ]


@pytest.mark.process
def test_a_run_here_tells_the_machine() -> None:
    run = run_here("all", 3, 0, on_gpu=False)
    assert "LLVM" in run.device or "OpenCL" in run.device
    assert " cores" in run.processor
    assert (run.passed, run.failed) == (3, 0)


def test_the_table_of_the_project_can_be_read() -> None:
    runs = recorded(TABLE)
    assert runs
    assert all(run.passed for run in runs)
