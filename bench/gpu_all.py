"""Everything that is measured on GPUs, in as few calls as possible: `python -m bench.gpu_all`.

`--out DIRECTORY` is where results go and where a later call goes on: each task is a process with a
GPU and its share of the cores (bench/desk.py), the most valuable first; what has a result there is
not done again, what is under way is waited for, and `--within` says how many seconds one call may
take. `--dry-run` prints the plan instead, which needs no GPU.

`--what` names what is done, in this order: `rows` are the cases of `bench.run --device cuda`, of
which `--cases`, `--stale`, `--missing` and `--without` choose some; `launches`, `host` and `tensor`
are the tools of these names, `searches` those of cases that lack them, `profiles` the counters of
cases that fall short, and `checks` all that verifies generated CUDA. `--pack FILE` puts all results
into one file at the end, and `--merge` takes the rows of a directory into the committed files and
renders them.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.cuda_cases import CASES
from bench.desk import ROOT, Desk
from bench.gpu_plan import Choice, Task, newest_file, newest_rows, plan_of, row_tasks, rows_file
from bench.gpu_tasks import KINDS, log_of
from bench.machine import commit, now
from bench.results import CaseResult, Run, read, write

ROWS = "rows"
_UNPACKED = {"stores"}


def task_file(out: Path, stem: str) -> Path:
    """Where the process of a task reads what it is."""
    return out / "tasks" / f"{stem}.json"


def known_tasks(out: Path) -> list[Task]:
    """The tasks of this and earlier calls."""
    found = [json.loads(path.read_text()) for path in sorted((out / "tasks").glob("*.json"))]
    return [
        Task(**{name: tuple(v) if isinstance(v, list) else v for name, v in each.items()})
        for each in found
    ]


def measured(out: Path) -> Iterator[tuple[Run, CaseResult]]:
    """The rows of a directory with the runs that they are of, the oldest first."""
    runs = [read(path) for path in (out / "rows").glob("*.json")]
    pairs = [(run, row) for run in runs for row in run.cases]
    return iter(sorted(pairs, key=lambda pair: (pair[1].date, pair[1].name)))


def tasks_left(options: Any, out: Path, under_way: Sequence[Task]) -> list[Task]:
    """What this call does beside what is under way."""
    gpus = options.gpus.split(",")
    cores = options.cores or max(1, len(os.sched_getaffinity(0)) // len(gpus))
    busy = {name for task in under_way for name in task.cases}
    done = frozenset({row.name for _, row in measured(out)} | busy)
    stems = {task.stem for task in under_way}
    tasks: list[Task] = []
    for what in options.what.split(","):
        if what != ROWS:
            of_kind = KINDS[what](out, cores, options.seed)
            tasks += [task for task in of_kind if task.stem not in stems]
            continue
        choice = Choice(options.cases, options.stale, options.missing, tuple(options.without), done)
        families = options.family.split(",")
        rows = {family: newest_rows(family) for family in families}
        tasks += row_tasks(
            choice, families, rows, out, budget=options.budget, together=options.together
        )
    return tasks


def do(task: Task, out: Path) -> None:
    """Does a task in a process of its own, and leaves its result where it is done."""
    begun = time.monotonic()
    child = subprocess.Popen(task.command, cwd=ROOT, start_new_session=True)
    try:
        status = child.wait(task.patience)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        print(f"ended after {task.patience:.0f} s", flush=True)
        return
    rows = rows_file(out, task.stem)
    found = {row.name for row in read(rows).cases} if rows.exists() else set[str]()
    if status < 0 or not found.issuperset(task.cases):
        return
    text = {"rc": status, "seconds": time.monotonic() - begun, "date": now()}
    part = out / f".{task.stem}.part"
    part.write_text(json.dumps(text))
    part.replace(out / f"{task.stem}.json")


def merge(out: Path, results: Path) -> list[str]:
    """Takes the rows of a directory into the result files of their device; what changed."""
    from bench.run import file_for

    said: list[str] = []
    for family, workloads in CASES.items():
        names = {workload.name for workload in workloads}
        pairs = [(run, row) for run, row in measured(out) if row.name in names]
        for device in dict.fromkeys(_device(run) for run, _ in pairs):
            mine = [(run, row) for run, row in pairs if _device(run) == device]
            run = max((run for run, _ in mine), key=lambda run: run.date)
            fresh = results / file_for(run, f"{family}-cuda").name
            slug = fresh.name[len("2026-11-22-") :].removesuffix(f"-{family}-cuda.json")
            path = newest_file(family, results, slug)
            merged = dataclasses.replace(run, cases=read(path).cases if path else ())
            for _, row in mine:
                before = next((each for each in merged.cases if each.name == row.name), None)
                if before is None or before.date < row.date:
                    merged = merged.with_case(row)
                    said.append(f"{row.name}: {_ratio(before)} -> {_ratio(row)}")
            write(merged, path or fresh)
    return said


def _device(run: Run) -> tuple[str, int]:
    return run.device["name"], run.device["cores"]


def _ratio(row: CaseResult | None) -> str:
    return "none" if row is None or row.ratio is None else f"{row.ratio:.2f}"


def pack(out: Path, path: Path) -> None:
    """Puts what a directory has into one file, but for the stores of searches."""

    def chosen(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if _UNPACKED & set(Path(member.name).parts) else member

    part = path.with_name(f".{path.name}.part")
    with tarfile.open(part, "w:gz") as packed:
        for each in sorted(out.iterdir()):
            if each != path and not each.name.startswith("."):
                packed.add(each, each.name, filter=chosen)
    part.replace(path)


def _options(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_all", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory of the results")
    parser.add_argument("--gpus", default=os.environ.get("CUDA_VISIBLE_DEVICES", "0"))
    parser.add_argument("--within", type=float, default=1e9, help="seconds for this call")
    parser.add_argument("--what", default=ROWS, help=f"some of {', '.join((ROWS, *KINDS))}")
    parser.add_argument("--family", default=",".join(CASES), help="families of rows")
    parser.add_argument("--cases", help="rows: names, parts of names or patterns, by commas")
    parser.add_argument("--stale", metavar="DATE", help="rows measured before it (ISO 8601, UTC)")
    parser.add_argument("--missing", action="store_true", help="rows that are not there")
    parser.add_argument(
        "--without", action="append", default=[], metavar="PEER", help="rows that lack a peer"
    )
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of a case's search")
    parser.add_argument("--together", type=float, default=120.0, help="seconds of a task of rows")
    parser.add_argument("--cores", type=int, help="of each GPU, in the plan of another machine")
    parser.add_argument("--seed", type=int, default=int(time.strftime("%y%m%d")))
    parser.add_argument("--commit", help="what of the code checks are of")
    parser.add_argument("--pack", type=Path, help="a .tar.gz for all results")
    parser.add_argument("--dry-run", action="store_true", help="only print the plan")
    parser.add_argument("--merge", action="store_true", help="only take rows into the files")
    parser.add_argument("--do", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if unknown := set(options.what.split(",")) - {ROWS, *KINDS}:
        parser.error(f"--what knows {', '.join((ROWS, *KINDS))}, not {', '.join(sorted(unknown))}")
    if unknown := set(options.family.split(",")) - set(CASES):
        parser.error(f"--family knows {', '.join(CASES)}, not {', '.join(sorted(unknown))}")
    if options.stale:
        try:
            datetime.datetime.fromisoformat(options.stale)
        except ValueError as error:
            parser.error(f"--stale wants a date as 2026-11-22 or 2026-11-22T14:00: {error}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Begins and awaits tasks, or does one; 1 where something is left to do."""
    options = _options(arguments)
    out = options.out.resolve()
    if options.do:
        do(next(task for task in known_tasks(out) if task.stem == options.do), out)
        return 0
    if options.merge:
        from bench import render

        print(*merge(out, render.RESULTS), sep="\n")
        render.main()
        return 0
    command = [sys.executable, "-m", "bench.gpu_all", "--out", str(out), "--do"]
    desk = Desk[Task](out, options.gpus.split(","), lambda task: command)
    under_way = [task for task in known_tasks(out) if desk.gpu_of(task) is not None]
    tasks = [*under_way, *tasks_left(options, out, under_way)]
    tasks = [task for task in tasks if not desk.result(task).exists()]
    print(*plan_of(tasks, desk.gpus, options.within), sep="\n", flush=True)
    if options.dry_run:
        return 0
    for task in tasks:
        path = task_file(out, task.stem)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dataclasses.asdict(task)))
    all_done = desk.work(tasks, lambda task: (), options.within)
    checked = [task for task in known_tasks(out) if task.stem.startswith("check-")]
    if checked:
        head = [
            f"correctness by generated CUDA, {now()}",
            "",
            f"commit {options.commit or commit()}",
        ]
        (out / "checks.log").write_text(log_of(checked, out, head))
    if options.pack:
        pack(out, options.pack)
    return int(not all_done)


if __name__ == "__main__":
    sys.exit(main())
