"""Promises about the repository as a whole: its layers, its imports, its size, its version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import mdtensor

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "mdtensor").rglob("*.py"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOADED_WHEN_NEEDED = {"cupy", "jax", "pyopencl", "torch", "matplotlib"}
MOST_LINES = 600
MOST_MODULES = 20  # of a folder that is divided into rooms


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("lint-imports", path=sysconfig.get_path("scripts"))
    assert program is not None
    return subprocess.run(
        [program, "--no-cache"], cwd=root, capture_output=True, text=True, check=False
    )


def test_imports_point_one_way() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("translate/wrong.py", "import mdtensor.lower", "Imports point one way"),
        ("autotune/wrong.py", "import mdtensor.kernels", "autotune measures"),
        ("backends/wrong.py", "import mdtensor.lower", "backends see"),
        ("kernels/wrong.py", "import pyopencl", "only backends and api"),
        ("fresh/__init__.py", "", "Imports point one way"),
        ("api/engine/wrong.py", "import mdtensor.api.plans.plan", "the command line sees plans"),
        ("api/fresh/__init__.py", "", "the command line sees plans"),
        ("lower/problem/wrong.py", "import mdtensor.lower.schedule", "emitters know"),
        ("lower/ir/values.py", "import mdtensor.lower.ir.statements", "no folder, and no module"),
    ],
)
def test_an_import_against_the_direction_is_found(
    tmp_path: Path, module: str, line: str, contract: str
) -> None:
    shutil.copytree(ROOT / "mdtensor", tmp_path / "mdtensor")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / "mdtensor" / module
    path.parent.mkdir(exist_ok=True)
    path.write_text(line + "\n", encoding="utf-8")
    result = lint_imports(tmp_path)
    assert result.returncode != 0
    assert re.search(rf"^{contract}.* BROKEN\b", result.stdout, flags=re.MULTILINE), result.stdout


def test_import_loads_no_device_library() -> None:
    program = "import sys; from mdtensor import *; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    loaded = {name.partition(".")[0] for name in result.stdout.split()}
    assert "mdtensor" in loaded
    assert not loaded & LOADED_WHEN_NEEDED


def test_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    numbers = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text, flags=re.MULTILINE)
    assert numbers[0] == mdtensor.__version__


def test_installed_version_is_this_one() -> None:
    from importlib.metadata import version

    assert version("mdtensor") == mdtensor.__version__


def test_no_file_needs_a_table_of_contents() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert lines
    assert not {str(path): count for path, count in lines.items() if count > MOST_LINES}


def test_rooms_have_few_modules() -> None:
    stages = ("api", "autotune", "backends", "kernels", "lower")
    modules = [path for path in SOURCES if path.relative_to(ROOT / "mdtensor").parts[0] in stages]
    counts = Counter(path.parent for path in modules if path.name != "__init__.py")
    assert counts
    assert not {str(folder): count for folder, count in counts.items() if count > MOST_MODULES}


def test_no_name_of_a_module_is_there_twice() -> None:
    counts = Counter(path.stem for path in SOURCES if path.name != "__init__.py")
    assert counts
    assert not {name for name, count in counts.items() if count > 1}


def test_every_tested_dependency_is_pinned() -> None:
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    groups = [project["dependencies"], *(extras[name] for name in ("cpu", "test", "demo", "bench"))]
    wanted = {requirement_name(line) for group in groups for line in group}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all("==" in line for line in pins)
    assert wanted <= {requirement_name(line) for line in pins}


def requirement_name(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ((), "1 passed, 2 deselected"),
        (("--gpu",), "1 passed, 1 deselected, 1 error"),
        (("--gpus",), "1 passed, 1 deselected, 1 error"),
        (("--gpu", "--gpus"), "1 passed, 2 errors"),
    ],
    ids=["by default", "--gpu", "--gpus", "both"],
)
def test_a_missing_gpu_fails_what_asks_for_one(
    tmp_path: Path, options: tuple[str, ...], outcome: str
) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  gpu\n  gpus\n", encoding="utf-8")
    (tmp_path / "test_two.py").write_text(
        "import pytest\ndef test_plain(): pass\n"
        "@pytest.mark.gpu\ndef test_on_gpu(): pass\n"
        "@pytest.mark.gpus\ndef test_on_two(): pass\n",
        encoding="utf-8",
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MDTENSOR_TEST_GPU")}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env=environment | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in result.stdout.splitlines()[-1], result.stdout
