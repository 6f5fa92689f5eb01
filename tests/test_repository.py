"""Promises about the repository as a whole: its layers, its imports, its size, its version."""

from __future__ import annotations

import ast
import os
import re
import shutil
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import mdtensor
from tests import children
from tests.asked_of_machines import TESTS, asked, begins_processes

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "mdtensor").rglob("*.py"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOADED_WHEN_NEEDED = {"cupy", "jax", "pyopencl", "torch", "matplotlib"}
MOST_LINES = 600
MOST_MODULES = 20  # of a folder that is divided into rooms


# Imports against the contracts of pyproject.toml, which `make check` asks about the sources.
WRONG = {
    "translate.wrong": "mdtensor.lower",
    "autotune.wrong": "mdtensor.kernels",
    "backends.wrong": "mdtensor.lower",
    "kernels.wrong": "pyopencl",
    "api.engine.wrong": "mdtensor.api.plans.plan",
    "lower.problem.wrong": "mdtensor.lower.schedule",
    "lower.ir.values": "mdtensor.lower.ir.statements",
}
FOLDERS_WITHOUT_A_PLACE = ("fresh", "api.fresh")


@pytest.mark.process
def test_imports_against_the_direction_are_found(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "mdtensor", tmp_path / "mdtensor")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in FOLDERS_WITHOUT_A_PLACE:
        path = tmp_path / "mdtensor" / folder.replace(".", "/") / "__init__.py"
        path.parent.mkdir()
        path.touch()
    for module, imported in WRONG.items():
        path = tmp_path / "mdtensor" / f"{module.replace('.', '/')}.py"
        path.write_text(f"import {imported}\n", encoding="utf-8")
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    end = children.run("-c", program, "--no-cache", cwd=tmp_path, code=1)
    told = {line.removeprefix("-").strip() for line in end.lines}
    assert told >= {f"mdtensor.{folder}" for folder in FOLDERS_WITHOUT_A_PLACE}
    assert told >= {f"mdtensor.{module} -> {imported} (l.1)" for module, imported in WRONG.items()}
    assert ".values -> .statements (1 import)" in told  # in a circle, too


@pytest.mark.process
def test_import_loads_no_device_library() -> None:
    program = "import sys; from mdtensor import *; print(*sys.modules)"
    loaded = {name.partition(".")[0] for name in children.run("-c", program).out.split()}
    assert "mdtensor" in loaded
    assert not loaded & LOADED_WHEN_NEEDED


# Who reads pickles: what a process and its own children say to each other, and Dask's workers.
PICKLES = {"autotune/worker/pickling.py", "api/dask/dask_graph.py"}
SAY_CODE = r"^\s*(?:import|from) (?:pickle|marshal|shelve|dill|cloudpickle|joblib)\b"


def test_no_code_is_read_from_files() -> None:
    found = {
        str(path.relative_to(ROOT / "mdtensor"))
        for path in SOURCES
        if re.search(SAY_CODE, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    assert found == PICKLES


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


def test_no_name_of_a_public_class_is_there_twice() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    counts = Counter(node.name for node in classes if not node.name.startswith("_"))
    assert counts
    assert not {name for name, count in counts.items() if count > 1}


def test_tools_know_the_oldest_python_that_is_promised() -> None:
    (promised,) = re.findall(r"^>=(3\.\d+)$", PYPROJECT["project"]["requires-python"])
    # Types of NumPy are those for the Python that it was installed for, the oldest one in CI.
    assert "pythonVersion" not in PYPROJECT["tool"]["pyright"]
    assert PYPROJECT["tool"]["ruff"]["target-version"] == "py" + promised.replace(".", "")


def interpreter(folder: Path, name: str, version: str) -> Path:
    """A stand-in for an interpreter: it says its version as `.ci/pythons` asks for it."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    parts = [f"{int(part):03}" for part in version.split(".")]
    path.write_text(f"#!/bin/sh\necho {' '.join(parts)} {path}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def pythons(*folders: Path) -> list[Path]:
    """What `.ci/pythons` finds in folders; its tools are in none of them."""
    bash = shutil.which("bash")
    assert bash is not None
    tools = folders[0].parent / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("sort", "sed", "cut"):
        place = shutil.which(name)
        assert place is not None
        (tools / name).unlink(missing_ok=True)
        (tools / name).symlink_to(place)
    path = os.pathsep.join(map(str, (*folders, tools)))
    end = children.run(ROOT / ".ci" / "pythons", executable=bash, env={"PATH": path})
    return list(map(Path, end.lines))


@pytest.mark.process
def test_the_oldest_and_the_newest_python_run_all_checks(tmp_path: Path) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    interpreter(near, "python3.12", "3.12.1")
    newest = interpreter(near, "python3.14", "3.14.0")
    interpreter(near, "python3", "3.15.0")  # a second name of another one
    assert pythons(near) == [near / "python3.12", newest]
    oldest = interpreter(far, "python3.11", "3.11.2")
    (far / "python3.9").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")  # says nothing
    (far / "python3.9").chmod(0o755)
    assert pythons(near, far) == [oldest, newest]
    assert pythons(far) == [oldest, oldest]


# What begins processes by itself, and why not by tests/children.py.
BEGIN_PROCESSES = {
    "tests/children.py": "all others do by it",
    "tests/workers.py": "reads what many workers say as they say it",
    "tests/api/survival/interrupts.py": "forks before each first call of a process",
    "tests/api/survival/programs.py": "tells a process that hangs from one that others hinder",
    "tests/cross/emulator.py": "speaks with an emulator in bytes",
    "tests/lower/check_schedules.py": "spreads cases over a pool",
    "tests/lower/fuzz_cuda.py": "spreads cases over a pool, and runs those that it lost alone",
}


def test_children_of_tests_begin_in_one_file() -> None:
    found = {
        str(path.relative_to(ROOT)): by
        for path in TESTS
        if (by := begins_processes(path.read_text(encoding="utf-8")))
    }
    assert {name: by for name, by in found.items() if name not in BEGIN_PROCESSES} == {}
    assert found.keys() == BEGIN_PROCESSES.keys()
    program = "import os, subprocess; os.fork(); 'import multiprocessing'"
    assert begins_processes(program) == {"os.fork", "subprocess"}


ASKING = '''
import time
def took(): begun = time.monotonic(); return begun
def test_quick(): assert took() < 2
def test_tuned(plan): plan.tune(1); plan.tune(0); plan.tune(budget=3600)
def test_tuned_by_name(plan): plan.tune(budget=2.5)
def test_tuned_by_words(run): run("tune", "--budget", "7")
def test_tuned_by_a_clock_of_its_own(plan, bench): plan.tune(1)
PROGRAM = """
print(open("/proc/self/statm").read())
"""
def test_program(): run(PROGRAM)
def test_memory(): resource.getrusage(0).ru_maxrss
class TestMany:
    def test_quick(self): time.perf_counter_ns()
    @pytest.mark.gpu
    def test_slow(self): time.process_time()
@pytest.fixture
def pause(): time.thread_time()
def test_pause(pause): pass
@pytest.fixture(autouse=True)
def always(): mallinfo2()
def not_reached(): time.monotonic()
@pytest.mark.campaign
def test_slow(): assert time.monotonic() < 20
'''
ASKED = {
    (3, "monotonic"),
    (5, "tune(1)"),
    (6, "tune(2.5)"),
    (7, "tune(7)"),
    (9, "statm"),
    (13, "ru_maxrss"),
    (15, "perf_counter_ns"),
    (19, "thread_time"),
    (22, "mallinfo2"),
}


def test_what_is_asked_of_the_machine_is_found() -> None:
    assert asked(ASKING) == ASKED
    assert asked("pytestmark = pytest.mark.campaign\n" + ASKING) == set()


def test_only_campaigns_ask_the_clock_or_the_memory_of_the_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in TESTS
        if path.name.startswith("test_") and path != Path(__file__)
        for line, what in sorted(asked(path.read_text(encoding="utf-8")))
    ]
    assert not found, "mark these `campaign`, or let them count:\n" + "\n".join(found)


# Security releases brought these to minor versions of Python, whose first releases lack them.
LATER_IN_A_MINOR = r"\b(extractall|unpack_archive)\([^()]*\bfilter\s*="


def test_nothing_is_used_that_came_later_than_the_oldest_python() -> None:
    assert re.search(LATER_IN_A_MINOR, 'inside.extractall(there, filter="data")')
    files = [
        path for folder in ("mdtensor", "tests", "bench") for path in (ROOT / folder).rglob("*.py")
    ]
    assert files
    others = {path for path in files if path != Path(__file__)}
    assert not {
        str(path)
        for path in others
        if re.search(LATER_IN_A_MINOR, path.read_text(encoding="utf-8"))
    }


def test_no_generic_class_has_a_slot_for_weak_references() -> None:
    """Python 3.12.3 leaves it out: https://github.com/python/cpython/issues/118033."""
    generic = re.compile(r"weakref_slot=True\)\nclass \w+\(.*\bGeneric\b")
    assert not [path for path in SOURCES if generic.search(path.read_text(encoding="utf-8"))]


def test_every_tested_dependency_is_pinned() -> None:
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    installed = ("opencl", "test", "check", "demo", "bench", "site")
    groups = [project["dependencies"], *(extras[name] for name in installed)]
    wanted = {requirement_name(line) for group in groups for line in group}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all("==" in line for line in pins)
    assert wanted <= {requirement_name(line) for line in pins}


# What is missing where a module's hint names an extra or a package.
MISSING = {
    "api/cli/demo.py": "scikit-learn",
    "api/frontends/correlation.py": "scipy",
    "backends/cuda/nvrtc.py": "cupy",
    "backends/llvm/presence.py": "llvmlite",
    "backends/opencl/opencl_runtime.py": "pyopencl",
}


def test_hints_name_what_brings_the_missing_package() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    found: set[str] = set()
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        module = path.relative_to(ROOT / "mdtensor").as_posix()
        named = re.findall(r"mdtensor\[(\w+)\]'", text)
        packages = re.findall(r"pip install (\w+)", text)
        for brought in (*({requirement_name(r) for r in extras[e]} for e in named), packages):
            if brought:
                assert any(name.startswith(MISSING[module]) for name in brought), module
                found.add(module)
    assert found == MISSING.keys()


def requirement_name(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


@pytest.mark.process
@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ((), "1 passed, 3 deselected"),
        (("--gpu",), "1 passed, 2 deselected, 1 error"),
        (("--gpus",), "1 passed, 2 deselected, 1 error"),
        (("--gpu", "--gpus"), "1 passed, 1 deselected, 2 errors"),
        (("--cross",), "2 passed, 2 deselected"),
    ],
    ids=["by default", "--gpu", "--gpus", "both", "--cross"],
)
def test_what_needs_more_runs_where_it_is_asked_for_and_a_missing_gpu_fails_it(
    tmp_path: Path, options: tuple[str, ...], outcome: str
) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n  gpu\n  gpus\n  cross\n", encoding="utf-8"
    )
    (tmp_path / "test_two.py").write_text(
        "import pytest\ndef test_plain(): pass\n"
        "@pytest.mark.gpu\ndef test_on_gpu(): pass\n"
        "@pytest.mark.gpus\ndef test_on_two(): pass\n"
        "@pytest.mark.cross\ndef test_emulated(): pass\n",
        encoding="utf-8",
    )
    none = {"MDTENSOR_TEST_GPU": "", "MDTENSOR_TEST_GPUS": "", "CUDA_VISIBLE_DEVICES": "-1"}
    end = children.run("-m", "pytest", *options, cwd=tmp_path, env=none, code=None)
    assert outcome in end.lines[-1], end.out


BEGINNERS = """
import os, subprocess, sys
import pytest

def test_plain():
    subprocess.run([sys.executable, "-c", ""])

@pytest.mark.process
def test_marked():
    subprocess.run([sys.executable, "-c", ""])

def forks():
    if os.fork() == 0:
        os._exit(0)

def test_fork():
    forks()

@pytest.mark.process
def test_marked_fork():
    forks()

@pytest.mark.campaign
def test_fork_in_a_campaign():
    forks()
"""


@pytest.mark.process
def test_no_test_begins_a_process_unmarked_or_forks_pytest(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    markers = "[pytest]\nmarkers =\n  process\n  campaign\n"
    (tmp_path / "pytest.ini").write_text(markers, encoding="utf-8")
    (tmp_path / "test_beginners.py").write_text(BEGINNERS, encoding="utf-8")
    end = children.run("-m", "pytest", cwd=tmp_path, code=1)
    assert "4 failed, 1 passed" in end.lines[-1], end.out
    said = re.findall(r"^E +AssertionError: test_beginners.py::test_(.*)$", end.out, re.MULTILINE)
    assert said == [
        "plain begins a process (subprocess.Popen): mark it `process`",
        *(
            f"{name} forks pytest: let a program fork, by tests/children.py"
            for name in ("fork", "marked_fork", "fork_in_a_campaign")
        ),
    ]
