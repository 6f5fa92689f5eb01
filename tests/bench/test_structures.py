"""The memory of ever new structures, as the benchmark tells it."""

from __future__ import annotations

import json
from pathlib import Path

from bench import structures


def test_each_structure_is_called_and_what_the_process_holds_is_written(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    structures.main(["--count", "4", "--every", "2", "--out", str(file)])
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert [row["structures"] for row in rows] == [1, 2, 4]
    assert all(row["megabytes"] > 10 for row in rows)
