"""The desk of `bench.search_gpu`: jobs on several GPUs, cut off and gone on with."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.search_gpu import COMPARED, Desk, Job, drop_outdated
from bench.search_table import table_of

SHORT, LONG = "60", "600"
WORK = """
import os, pathlib, sys, time
time.sleep(float(sys.argv[2]))
pathlib.Path(sys.argv[1]).write_text(os.environ["CUDA_VISIBLE_DEVICES"] + " " + sys.argv[3])
"""


def desk_of(out: Path, gpus: tuple[str, ...] = ("0", "1"), seconds: float = 0.0) -> Desk:
    def command(job: Job, cores: object) -> list[str]:
        result = str(out / f"{job.stem}.json")
        return [sys.executable, "-c", WORK, result, str(seconds), str(cores)]

    return Desk(out, gpus, command)


def jobs_of(*cases: str) -> list[Job]:
    return [Job(case, what) for case in cases for what in (LONG, SHORT, COMPARED)]


def needs(job: Job) -> tuple[Job, ...]:
    return job.needs(SHORT, LONG)


def test_every_job_has_a_gpu_and_what_it_needs(tmp_path: Path) -> None:
    desk, jobs = desk_of(tmp_path), jobs_of("a", "b")
    assert desk.work(jobs, needs, 60)
    results = [desk.result(job) for job in jobs]
    assert {path.read_text().split()[0] for path in results} == {"0", "1"}
    for case in "ab":
        made = [desk.result(Job(case, what)).stat().st_mtime_ns for what in (LONG, COMPARED)]
        assert made == sorted(made)


def test_what_is_there_is_not_done_again(tmp_path: Path) -> None:
    for job in (jobs := jobs_of("a")):
        desk_of(tmp_path).result(job).write_text("mine")
    assert desk_of(tmp_path).work(jobs, needs, 60)
    assert [desk_of(tmp_path).result(job).read_text() for job in jobs] == ["mine"] * 3


def test_of_other_commits_long_searches_are_kept(tmp_path: Path) -> None:
    desk, jobs = desk_of(tmp_path), jobs_of("a", "b", "c")
    for job in jobs[:6]:
        commit = "old" if job.case == "a" else "new"
        desk.result(job).write_text(json.dumps({"commit": commit}))
    drop_outdated(desk, jobs, LONG, "new")
    kept = {(job.case, job.what) for job in jobs if desk.result(job).exists()}
    assert kept == {("a", LONG), ("b", LONG), ("b", SHORT), ("b", COMPARED)}


def test_what_is_under_way_is_awaited_by_a_later_call(tmp_path: Path) -> None:
    job = Job("a", LONG)
    earlier = desk_of(tmp_path, seconds=2.0)
    assert not earlier.work([job], needs, 0.0)
    later = desk_of(tmp_path, ("1",))
    assert later.gpu_of(job) == "0"
    assert later.work([job], needs, 60)
    assert later.result(job).read_text().split()[0] == "0"
    assert earlier.gpu_of(job) is None  # which takes note of its end
    assert later.gpu_of(job) is None


def test_a_job_that_fails_is_not_begun_again_and_others_wait_for_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ("0",), lambda job, cores: [sys.executable, "-c", "raise SystemExit(1)"])
    assert not desk.work(jobs_of("a", "b"), needs, 60)
    assert not list(tmp_path.glob("*.json"))
    assert not list(tmp_path.glob("*.running"))


@pytest.mark.parametrize("compared", [None, [2.1e-6, 2.0e-6]])
def test_the_table_has_ratio_trials_and_when_it_was_near(
    tmp_path: Path, compared: list[float] | None
) -> None:
    def write(what: str, value: object) -> None:
        (tmp_path / f"a-{what}.json").write_text(json.dumps(value))

    def search(best: float, *times: tuple[float, float]) -> object:
        trials = [[at, "ok", seconds, "", "{}"] for at, seconds in times]
        spent = {"start": 1.0, "compiling": 2.0, "measuring": 3.0, "other": 4.0}
        programs = [{"best": best, "trials": trials, "spent": spent}]
        return {"programs": programs, "commit": f"of {len(trials)}"}

    write(SHORT, search(2.2e-6, (1.0, 9e-6), (3.0, 2.2e-6)))
    write(LONG, search(2.0e-6, (1.5, 9e-6), (30.0, 2.05e-6), (99.0, 2.0e-6)))
    if compared:
        write(COMPARED, {"seconds": compared})
    rows = table_of(tmp_path, ["a", "b"], SHORT, LONG, lambda c, w: f"{c}-{w}").splitlines()
    assert len({row.count("|") for row in rows}) == 1
    cells = [cell.strip() for cell in rows[-1].strip("| ").split("|")]
    found = ["2.10", "2.00", "1.050"] if compared else ["2.20", "2.00", "(1.100)"]
    spent = ["1.0", "2.0", "3.0", "4.0"]
    assert cells == ["a", *found, "2", "3", "never", "30.0", *spent, "of 2, of 3"]
