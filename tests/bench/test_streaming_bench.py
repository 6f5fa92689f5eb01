"""Calls on files larger than memory: what is timed of them is right, here on a small file."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import streaming
from bench.streaming import CASES, Case, measured, write_numbers


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_results_are_those_of_float64(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "BLOCK", 1 << 20)
    file = tmp_path / "numbers"
    write_numbers(file, 1 << 24)
    line = measured(case, file, "8MB")
    assert line.startswith(case.name)
    assert [path.name for path in tmp_path.iterdir()] == ["numbers"]
