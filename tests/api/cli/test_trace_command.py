"""`mdtensor trace`: a program runs as by Python, and its calls are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import children

pytestmark = pytest.mark.process

SCRIPT = """
import sys
import numpy as np
import helper
import mdtensor
print(__name__, sys.argv, helper.SIX)
mdtensor.einsum("ij->i", np.ones((3, 4)))
{end}
"""


def traced(folder: Path, *arguments: str, end: str = "") -> children.Ended:
    """The outcome of `mdtensor trace` in a folder that has a script and a module."""
    (folder / "script.py").write_text(SCRIPT.format(end=end), encoding="utf-8")
    (folder / "helper.py").write_text("SIX = 6\n", encoding="utf-8")
    return children.run("-m", "mdtensor", "trace", *arguments, cwd=folder, code=None)


def test_a_script_runs_with_its_arguments(tmp_path: Path) -> None:
    found = traced(tmp_path, "script.py", "--save", "-m", "x")
    assert found.code == 0, found.err
    assert found.out == f"__main__ ['{tmp_path / 'script.py'}', '--save', '-m', 'x'] 6\n"
    header, line, _ = found.err.splitlines()
    assert header.split()[:3] == ["call", "cache", "tier"]
    assert line.startswith("einsum          miss: first call ")


def test_a_module_runs(tmp_path: Path) -> None:
    found = traced(tmp_path, "-m", "script", "x")
    assert found.out == f"__main__ ['{tmp_path / 'script.py'}', 'x'] 6\n"
    assert "einsum" in found.err


def test_events_are_saved(tmp_path: Path) -> None:
    found = traced(tmp_path, "--save", "x.json", "script.py", end="import os; os.chdir('..')")
    assert found.err == ""
    events = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["traceEvents"]
    assert events[0]["name"] == "einsum"


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("sys.exit(3)", 3, ""),
        (
            "mdtensor.einsum('ij,jk', [1.0])",
            1,
            'Traceback (most recent call last):\n  File "{}/script.py", line 8, in <module>\n',
        ),
    ],
)
def test_a_program_ends_as_it_does(end: str, code: int, said: str, tmp_path: Path) -> None:
    found = traced(tmp_path, "script.py", end=end)
    assert found.code == code
    assert found.err.startswith(said.format(tmp_path))
    assert "einsum          miss: first call " in found.err


def test_a_program_without_calls(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("", encoding="utf-8")
    assert traced(tmp_path, "empty.py").err == "mdtensor computed nothing\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.py"], "there is no file none.py; -m NAME runs a module"),
        (["--save", "x.txt", "script.py"], "--save x.txt is no FILE.json"),
        (["--save", "none/x.json", "script.py"], "--save none/x.json cannot be written"),
    ],
)
def test_what_cannot_be_traced(arguments: list[str], said: str, tmp_path: Path) -> None:
    found = traced(tmp_path, *arguments)
    assert found.code == 2
    assert found.out == "", "the program did not run"
    assert found.err.endswith(f"Error: Invalid value: {said}\n")
