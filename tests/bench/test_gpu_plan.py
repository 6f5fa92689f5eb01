"""Which cases are measured next on GPUs, in which order, and how long that is expected to take."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.cuda_cases import CASES
from bench.families import BEYOND, EINSUM, fits, in_order
from bench.gpu_goals import GOALS, goal_of, table_of
from bench.gpu_plan import (
    CASE,
    COMPILER,
    RUNS,
    START,
    Choice,
    Task,
    exactly,
    lacks,
    newest_file,
    newest_rows,
    plan_of,
    rank_of,
    row_tasks,
    schedule,
    seconds_of,
)
from bench.results import CaseResult, Limit, Measurement

WORKLOADS = {w.name: w for workloads in CASES.values() for w in workloads}
DOT, MEAN, PLAIN = "dot-2^24", "jacobi3d-256^3", "gaussian-224x224"


def row_of(
    name: str,
    *,
    seconds: float = 1e-5,
    peer: float = 2e-5,
    call: str = "mm",
    tuning: dict[str, float] | None = None,
) -> CaseResult:
    measurements = tuple(
        Measurement(engine, label, value, 0.0, (value,), 0.0)
        for engine, label, value in (("torch", call, peer), ("mdtensor", "plan", seconds))
    )
    date, limit = "2026-11-22T12:00:00+00:00", Limit(0.95 * seconds, "memory", None, None, None)
    one = CaseResult(name, "", (), "float32", 1, 1, date, "one for all", measurements)
    return dataclasses.replace(one, tuning=tuning, limit=limit, refused={"jax einsum": "too short"})


def test_all_cases_are_chosen_unless_something_is_asked_for() -> None:
    assert Choice().wants(WORKLOADS[DOT], None)
    assert Choice().wants(WORKLOADS[DOT], row_of(DOT))
    assert not Choice("matmul").wants(WORKLOADS[DOT], None)
    assert not Choice(done=frozenset({DOT})).wants(WORKLOADS[DOT], None)


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        (Choice(missing=True), False),
        (Choice(before="2026-11-22"), False),
        (Choice(before="2026-11-22T12:30"), True),
        (Choice(before="2026-11-23"), True),
        (Choice(without=("torch compiled",)), True),
        (Choice(without=("torch",)), False),
        (Choice(without=("jax",)), False),  # which was refused
        (Choice(without=("jax", "cupy")), True),
        (Choice(missing=True, before="2026-11-23"), True),
    ],
)
def test_what_is_asked_for_is_chosen_and_what_is_missing(choice: Choice, wanted: bool) -> None:
    assert choice.wants(WORKLOADS[DOT], row_of(DOT)) is wanted
    assert choice.wants(WORKLOADS[DOT], None)


def test_a_peer_is_named_by_its_library_or_with_a_call() -> None:
    row = row_of(DOT, call="einsum out")
    assert not lacks(row, "torch einsum")
    assert lacks(row, "torch ein")
    assert lacks(row, "tor")


def test_what_is_missing_comes_first_then_what_falls_short() -> None:
    assert rank_of(DOT, None) == rank_of(PLAIN, None) == 0
    assert rank_of(DOT, row_of(DOT, peer=1.05e-5)) == 1
    assert rank_of(DOT, row_of(DOT)) == 2
    assert rank_of(PLAIN, row_of(PLAIN)) == 3


def test_a_goal_is_missed_by_its_ratio_or_its_limit() -> None:
    goal, row = goal_of(MEAN), row_of(MEAN)
    assert goal is not None
    assert (goal.ratio, goal.limit) == (1.1, 0.88)
    assert not goal.missed_by(row)
    assert goal.missed_by(row_of(MEAN, peer=1e-5))
    assert goal.missed_by(dataclasses.replace(row, limit=Limit(0.8e-5, "memory", None, None, None)))
    assert goal.missed_by(dataclasses.replace(row, limit=None))


def test_every_goal_has_cases() -> None:
    goals = [goal_of(name) for name in WORKLOADS]
    assert [goal for goal in GOALS if goal not in goals] == []


def test_the_table_of_goals_says_what_is_missing_and_what_falls_short() -> None:
    rows = {DOT: row_of(DOT), MEAN: row_of(MEAN, peer=1e-5)}
    lines = list(table_of([DOT, MEAN, "matvec-4096", PLAIN], rows))
    assert "| dot-2^24 | 2026-11-22 | torch mm | 2.00 | 1.10 | 0.95 | 0.90 |  |" in lines
    assert (
        "| jacobi3d-256^3 | 2026-11-22 | torch mm | 1.00 | 1.10 | 0.95 | 0.88 | falls short |"
        in lines
    )
    assert "| matvec-4096 | never |  |  | 1.10 |  | 0.85 | missing |" in lines
    assert not any(PLAIN in line for line in lines)
    assert not any("table6" in line for line in lines)


def test_seconds_are_the_budget_but_for_searches_that_ended() -> None:
    def seconds(name: str, tuning: dict[str, float] | None, call: str = "mm") -> float:
        return seconds_of(WORKLOADS[name], row_of(name, tuning=tuning, call=call), 20.0)

    calls = RUNS * 3e-5
    cut = {"budget": 8.0, "seconds": 8.1, "trials": 300}
    ended = {"budget": 8.0, "seconds": 2.0, "trials": 138}
    taken = {"budget": 1.5, "seconds": 0.0, "trials": 0}
    assert seconds(DOT, cut) == pytest.approx(20 + CASE + COMPILER + calls)
    assert seconds(DOT, ended) == pytest.approx(2 + CASE + COMPILER + calls)
    assert seconds(DOT, taken) == seconds(DOT, None) == seconds(DOT, cut)
    assert seconds(MEAN, cut) == pytest.approx(20 + CASE + calls)
    assert seconds(MEAN, cut, "compiled") == pytest.approx(20 + CASE + COMPILER + calls)
    assert seconds_of(WORKLOADS[PLAIN], None, 20.0) == 20 + CASE


def test_tasks_have_all_chosen_cases_once_the_most_valuable_first(tmp_path: Path) -> None:
    families = (EINSUM, BEYOND)
    rows = {family: newest_rows(family) for family in families}
    tasks = row_tasks(Choice(), families, rows, tmp_path, budget=20.0, together=100.0)
    done = [name for task in tasks for name in task.cases]
    assert sorted(done) == sorted(WORKLOADS)
    ranks = [{rank_of(name, rows[task.family].get(name)) for name in task.cases} for task in tasks]
    assert all(len(rank) == 1 for rank in ranks)
    assert ranks == sorted(ranks, key=min)
    assert len({task.stem for task in tasks}) == len(tasks)
    for task in tasks:
        assert task.seconds > START
        assert task.seconds <= 100.0 or len(task.cases) == 1


def test_a_task_runs_its_cases_and_no_others(tmp_path: Path) -> None:
    chosen = Choice("matmul-1024*,dot-2^24")
    tasks = row_tasks(chosen, (EINSUM,), {}, tmp_path, budget=25.0, together=1000.0)
    assert [sorted(task.cases) for task in tasks] == [
        [DOT, "matmul-1024x1024x1024", "matmul-1024x1024x1024-float64"]
    ]
    (task,) = tasks
    command = list(task.command)
    assert command[1:7] == ["-m", "bench.run", "--device", "cuda", "--family", EINSUM]
    assert command[command.index("--tune-budget") + 1] == "25"
    only = command[command.index("--only") + 1]
    assert {w.name for w in CASES[EINSUM] if fits(w, only)} == set(task.cases)


def test_named_cases_are_done_in_that_order_by_few_processes(tmp_path: Path) -> None:
    chosen = Choice("jacobi3d-256*,dot-2^24,gaussian-224*,dot-10^7,matmul-1x1000*")
    rows = {EINSUM: {DOT: row_of(DOT)}}  # which has another rank than the others
    tasks = row_tasks(chosen, (EINSUM, BEYOND), rows, tmp_path, budget=20.0, together=85.0)
    assert [task.cases for task in tasks] == [
        (MEAN, PLAIN),
        (DOT, "dot-10^7"),
        ("matmul-1x1000x2048",),
    ]
    for task in tasks:
        only = task.command[task.command.index("--only") + 1]
        assert [w.name for w in in_order(CASES[task.family], only)] == list(task.cases)


def test_names_stand_for_one_case() -> None:
    for workloads in CASES.values():
        for workload in workloads:
            pattern = exactly(workload.name)
            assert [w.name for w in workloads if fits(w, pattern)] == [workload.name]


def test_tasks_go_to_the_gpu_that_is_free_first() -> None:
    tasks = [Task(name, ("true",), seconds) for name, seconds in (("a", 50), ("b", 20), ("c", 20))]
    planned = schedule(tasks, ("0", "3"))
    assert [(begin, end, gpu) for begin, end, gpu, _ in planned] == [
        (0, 50, "0"),
        (0, 20, "3"),
        (20, 40, "3"),
    ]
    lines = plan_of(tasks, ("0", "3"), 45)
    assert lines[2].split() == ["20", "to", "40", "s", "on", "GPU", "3:", "c"]
    assert lines[-1] == "3 tasks, 0 cases: 90 s of GPUs, 50 s on 2; 2 tasks end within 45 s"
    assert plan_of([], ("0",), 45)[-1].startswith("0 tasks")


def test_the_newest_file_of_a_device_is_taken(tmp_path: Path) -> None:
    for name in (
        "2026-11-20-nvidia-h200-x132-einsum-cuda.json",
        "2026-11-21-nvidia-h200-x132-einsum-cuda.json",
        "2026-11-22-nvidia-h100-x132-einsum-cuda.json",
        "2026-11-23-nvidia-h200-x132-kernels-cuda.json",
    ):
        (tmp_path / name).touch()
    found = newest_file(EINSUM, tmp_path)
    assert found is not None
    assert found.name == "2026-11-22-nvidia-h100-x132-einsum-cuda.json"
    found = newest_file(EINSUM, tmp_path, "nvidia-h200-x132")
    assert found is not None
    assert found.name == "2026-11-21-nvidia-h200-x132-einsum-cuda.json"
    assert newest_file(EINSUM, tmp_path, "nvidia-b200-x148") is None
