from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ARGUMENTS = {"einsum_in_a_model.py": [], "record_linkage.py": [], "tune_shapes.py": ["0"]}
LAST_WORDS = {
    "einsum_in_a_model.py": "cost",
    "record_linkage.py": "precision 0.99",
    "tune_shapes.py": "largest eigenvalue 3.9",
}


def run(name: str) -> str:
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *ARGUMENTS[name]],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_example_is_run() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(ARGUMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_example_runs(name: str) -> None:
    assert LAST_WORDS[name] in run(name)


@pytest.mark.slow
def test_shapes_are_tuned_once() -> None:
    run("tune_shapes.py")
    reports = [line for line in run("tune_shapes.py").splitlines() if line.startswith("md_hom[")]
    assert len(reports) == 4
    assert all(line.endswith(": from the cache, 0 trials") for line in reports)
