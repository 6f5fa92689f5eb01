"""The queue of everything that is measured on GPUs: with tasks that need none."""

from __future__ import annotations

import dataclasses
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import gpu_all, gpu_tensor, search_gpu
from bench.desk import ROOT
from bench.gpu_all import do, known_tasks, measured, merge, pack, task_file
from bench.gpu_plan import Task, rows_file
from bench.gpu_tasks import FRONTS, KINDS, TENSOR_CASES, TESTS, UNSEARCHED, log_of
from bench.results import CaseResult, Measurement, Run, read, write
from tests import children


def python(stem: str, code: str, seconds: float = 1.0) -> Task:
    return Task(stem, (sys.executable, "-c", code), seconds)


def fake(out: Path, cores: int, seed: int) -> Iterator[Task]:
    where = "import os; print('GPU', os.environ['CUDA_VISIBLE_DEVICES'], 'of', "
    for name in ("check-one", "check-two"):
        yield python(name, f"{where}'{name}', {cores}, {seed})")
    yield python("check-three", "print('FAILED a test'); print('1 failed'); raise SystemExit(1)")


def row_of(name: str, date: str = "2026-11-22T12:00:00+00:00", peer: float = 2e-5) -> CaseResult:
    measurements = tuple(
        Measurement(engine, call, seconds, 0.0, (seconds,), 0.0)
        for engine, call, seconds in (("torch", "mm", peer), ("mdtensor", "plan", 1e-5))
    )
    return CaseResult(name, "", (), "float32", 1, 1, date, "one for all", measurements)


def run_of(*rows: CaseResult, date: str = "2026-11-22T12:00:00+00:00", cores: int = 132) -> Run:
    device = {"name": "NVIDIA H200", "cores": cores, "driver": date[:10]}
    return Run(date, device, {}, {}, {}, rows)


@pytest.fixture
def only_fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "fake", fake)


@pytest.mark.process
@pytest.mark.usefixtures("only_fakes")
def test_a_call_does_all_tasks_and_a_second_one_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "all.tar.gz"
    out = tmp_path / "out"
    arguments = ["--out", str(out), "--gpus", "4,5", "--what", "fake", "--seed", "7"]
    arguments += ["--cores", "3", "--commit", "abc", "--pack", str(packed)]
    assert gpu_all.main([*arguments, "--dry-run"]) == 0
    assert "3 tasks, 0 cases" in capfd.readouterr().out
    assert not out.exists()
    assert gpu_all.main(arguments) == 0
    assert {task.stem for task in known_tasks(out)} == {task.stem for task in fake(out, 3, 7)}
    assert json.loads((out / "check-one.json").read_text())["rc"] == 0
    assert json.loads((out / "check-three.json").read_text())["rc"] == 1
    log = (out / "checks.log").read_text()
    assert "commit abc\n" in log
    assert "GPU 4 of check-one 3 7 (" in log
    assert "1 failed (" in log
    assert "\n  exit status 1\n  FAILED a test\n" in log
    with tarfile.open(packed) as inside:
        names = inside.getnames()
    assert {"check-one.json", "check-one.log", "checks.log"} <= set(names)
    assert not any(name.startswith("stores") for name in names)
    before = {path: path.stat().st_mtime_ns for path in out.glob("check-*.json")}
    assert gpu_all.main(arguments) == 0
    assert {path: path.stat().st_mtime_ns for path in out.glob("check-*.json")} == before
    there = tmp_path / "another machine"
    unpack(packed, there)
    assert gpu_all.main([*arguments, "--out", str(there)]) == 0
    assert (there / "checks.log").read_text().splitlines()[1:] == log.splitlines()[1:]


def unpack(packed: Path, there: Path) -> None:
    """Writes the files of an archive; `extractall` depends on the version of Python."""
    with tarfile.open(packed) as inside:
        for member in inside.getmembers():
            content = inside.extractfile(member)
            if content is not None:
                path = there / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())


@pytest.mark.process
@pytest.mark.parametrize(
    "code", ["import os; os.kill(os.getpid(), 9)", "import time; time.sleep(600)"]
)
def test_what_was_killed_is_not_done(tmp_path: Path, code: str) -> None:
    task = python("check", code, seconds=-39.9)
    assert 0 < task.patience < 1
    do(task, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_rows_are_done_when_all_are_there(tmp_path: Path) -> None:
    task = dataclasses.replace(python("einsum-a", "pass", 60.0), cases=("a", "b"))
    do(task, tmp_path)
    write(run_of(row_of("a")), rows_file(tmp_path, task.stem))
    do(task, tmp_path)
    assert not (tmp_path / "einsum-a.json").exists()
    write(run_of(row_of("a"), row_of("b")), rows_file(tmp_path, task.stem))
    do(task, tmp_path)
    assert json.loads((tmp_path / "einsum-a.json").read_text())["rc"] == 0


def test_rows_that_are_there_are_not_planned_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(run_of(row_of("dot-2^24")), rows_file(tmp_path, "einsum-dot-2_24"))
    arguments = ["--out", str(tmp_path), "--cases", "dot", "--family", "einsum", "--dry-run"]
    assert gpu_all.main(arguments) == 0
    said = capfd.readouterr().out
    assert "einsum-dot-10_7, 1 cases" in said
    assert "dot-2" not in said


def test_tasks_are_kept_as_they_are(tmp_path: Path) -> None:
    task = Task("einsum-a", ("python", "-m", "bench.run"), 60.0, "einsum", ("a", "b"))
    path = task_file(tmp_path, task.stem)
    path.parent.mkdir()
    path.write_text(json.dumps(dataclasses.asdict(task)))
    assert known_tasks(tmp_path) == [task]


OLD = "2026-11-20-nvidia-h200-x132-einsum-cuda.json"


def test_merging_replaces_older_rows_and_says_what_changed(tmp_path: Path) -> None:
    out, results = tmp_path / "out", tmp_path / "results"
    kept, later = row_of("dot-10^7"), "2026-11-23T00:00:00+00:00"
    write(run_of(row_of("dot-2^24"), kept), results / OLD)
    write(run_of(row_of("dot-2^24", later, 3e-5), date=later), rows_file(out, "einsum-dot"))
    write(run_of(row_of("matvec-4096", later), date=later), rows_file(out, "einsum-matvec"))
    write(run_of(row_of("jacobi3d-256^3", later), date=later), rows_file(out, "kernels-jacobi"))
    assert merge(out, results) == [
        "dot-2^24: 2.00 -> 3.00",
        "matvec-4096: none -> 2.00",
        "jacobi3d-256^3: none -> 2.00",
    ]
    merged = read(results / OLD)
    assert (merged.date, merged.device["driver"]) == (later, later[:10])
    assert [row.name for row in merged.cases] == ["dot-2^24", "dot-10^7", "matvec-4096"]
    assert merged.cases[1] == kept
    assert (results / "2026-11-23-nvidia-h200-x132-kernels-cuda.json").exists()
    assert merge(out, results) == []
    assert read(results / OLD) == merged


def test_merging_keeps_devices_apart(tmp_path: Path) -> None:
    out, results = tmp_path / "out", tmp_path / "results"
    write(run_of(row_of("dot-2^24")), results / OLD)
    write(run_of(row_of("dot-2^24"), cores=114), rows_file(out, "einsum-dot"))
    merge(out, results)
    assert read(results / OLD) == run_of(row_of("dot-2^24"))
    assert (results / "2026-11-22-nvidia-h200-x114-einsum-cuda.json").exists()


def test_the_newest_of_several_rows_comes_last(tmp_path: Path) -> None:
    dates = ["2026-11-22T12:00:00+00:00", "2026-11-22T11:00:00+00:00"]
    for number, date in enumerate(dates):
        write(run_of(row_of("dot-2^24", date), date=date), rows_file(tmp_path, str(number)))
    assert [row.date for _, row in measured(tmp_path)] == sorted(dates)


def test_checks_that_are_not_done_are_not_in_the_log(tmp_path: Path) -> None:
    assert log_of([python("check", "pass")], tmp_path, ["head"]) == "head\n"


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_of_tools_are_commands_of_this_python(tmp_path: Path, kind: str) -> None:
    tasks = list(KINDS[kind](tmp_path, 16, 1))
    assert len({task.stem for task in tasks}) == len(tasks) > 0
    for task in tasks:
        assert task.command[:2] == (sys.executable, "-m")
        assert 0 < task.seconds < 900


def test_cases_of_tools_are_known() -> None:
    assert set(UNSEARCHED) <= set(search_gpu.CASES)
    assert set(TENSOR_CASES) <= {*gpu_tensor.CASES, *gpu_tensor.CONVOLUTIONS}


def test_checks_run_every_file_of_tests_that_need_a_gpu() -> None:
    tests = ROOT / "tests"
    marked = [p for p in tests.rglob("test_*.py") if "= pytest.mark.gpu\n" in p.read_text()]
    assert sorted(marked) == sorted(ROOT / name for name in TESTS)
    assert all((ROOT / name).exists() for names in FRONTS for name in names)


@pytest.mark.process
def test_checks_of_front_ends_leave_out_what_is_of_processors() -> None:
    files = ("tests/api/frontends/test_convolution.py", "tests/api/test_einsum_affine.py")
    words = "-m", "pytest", "-q", "--collect-only", "--all-cases", "-p", "tests.api.on_cupy"
    said = children.run(*words, *files).out
    assert "(3 deselected)" in said
    assert "::test_peak_memory" not in said
    assert "::test_a_plan\n" not in said


def test_a_pack_has_no_stores(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("stores", "rows", "searches/stores"):
        (out / name).mkdir(parents=True)
        (out / name / "x.json").touch()
    pack(out, out / "all.tar.gz")
    pack(out, out / "all.tar.gz")
    with tarfile.open(out / "all.tar.gz") as inside:
        assert inside.getnames() == ["rows", "rows/x.json", "searches"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--what", "rows,all"], "not all"),
        (["--family", "einsums"], "--family knows einsum, kernels, not einsums"),
        (["--stale", "yesterday"], "--stale wants a date as 2026-11-22"),
    ],
)
def test_words_that_are_not_known_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    with pytest.raises(SystemExit):
        gpu_all.main(["--out", str(tmp_path), *arguments])
    assert said in capsys.readouterr().err
