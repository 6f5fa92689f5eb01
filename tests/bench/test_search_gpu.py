"""Searches of two budgets: which results are kept, on a desk, and the table of what they found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.desk import Desk
from bench.search_gpu import COMPARED, Job, drop_outdated
from bench.search_table import table_of

SHORT, LONG = "60", "600"


def test_comparisons_need_both_searches() -> None:
    assert Job("a", COMPARED).needs(SHORT, LONG) == (Job("a", SHORT), Job("a", LONG))
    assert Job("a", SHORT).needs(SHORT, LONG) == Job("a", LONG).needs(SHORT, LONG) == ()


def test_of_other_commits_long_searches_are_kept(tmp_path: Path) -> None:
    desk = Desk[Job](tmp_path, ("0",), lambda job: ["false"])
    jobs = [Job(case, what) for case in "abc" for what in (LONG, SHORT, COMPARED)]
    for job in jobs[:6]:
        commit = "old" if job.case == "a" else "new"
        desk.result(job).write_text(json.dumps({"commit": commit}))
    drop_outdated(desk, jobs, LONG, "new")
    kept = {(job.case, job.what) for job in jobs if desk.result(job).exists()}
    assert kept == {("a", LONG), ("b", LONG), ("b", SHORT), ("b", COMPARED)}


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
