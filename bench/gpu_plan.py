"""Which cases are measured next on GPUs, in which order, and how long that takes.

Pure: from the cases and what the result files say, to tasks. `bench.gpu_all` does them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cuda_cases import CASES
from bench.families import fits, in_order, place_of
from bench.gpu_goals import goal_of
from bench.kernels.kernel import COMPILED
from bench.render import RESULTS
from bench.results import CaseResult, read
from bench.workload import Workload
from bench.workloads import Contraction

# Seconds: until a process has its libraries and a device; what a case takes beside its search;
# what torch's compiler takes of it. Each call is run so often, the first looks included.
START, CASE, COMPILER, RUNS = 12.0, 3.0, 12.0, 40
# A search that ended in less of its budget had nothing left to try.
ENDED = 0.8
# A task may take so many times as long as expected, and this much more, before it is ended.
_TIMES, _MORE = 3.0, 120.0


@dataclass(frozen=True, slots=True)
class Task:
    """A process to run: `stem` names its files, `seconds` is how long it will take.

    `cases` are those whose results it leaves in the file `rows`; one without cases is done when
    its process has ended by itself.
    """

    stem: str
    command: tuple[str, ...]
    seconds: float
    family: str = ""
    cases: tuple[str, ...] = ()

    @property
    def patience(self) -> float:
        """Seconds after which it is ended."""
        return _TIMES * self.seconds + _MORE


@dataclass(frozen=True, slots=True)
class Choice:
    """Which cases are measured: those that fit the pattern, and of these the ones that are wanted.

    Wanted are cases without a result and, where nothing else is asked for, all others too; else
    those measured before a date, and those that lack a peer, as `torch compiled` or `jax`.
    """

    pattern: str | None = None
    before: str | None = None
    missing: bool = False
    without: tuple[str, ...] = ()
    done: frozenset[str] = frozenset()  # names of cases that nobody measures again

    def wants(self, workload: Workload, row: CaseResult | None) -> bool:
        """Whether a case is measured, by what is known of it."""
        if workload.name in self.done or not fits(workload, self.pattern):
            return False
        if row is None or not (self.before or self.missing or self.without):
            return True
        if self.before and row.date < self.before:
            return True
        return any(lacks(row, peer) for peer in self.without)


def lacks(row: CaseResult, peer: str) -> bool:
    """Whether a result has no word about a peer, or a call of one: measured or refused."""
    known = [f"{each.engine} {each.call}" for each in row.measurements] + [*row.refused]
    return not any(f"{each} ".startswith(f"{peer} ") for each in known)


def newest_file(family: str, results: Path, device: str = "*") -> Path | None:
    """The newest result file of a family on a CUDA device, or on any."""
    return max(results.glob(f"????-??-??-{device}-{family}-cuda.json"), default=None)


def newest_rows(family: str, results: Path = RESULTS) -> dict[str, CaseResult]:
    """The results of that file by the names of the cases."""
    path = newest_file(family, results)
    return {} if path is None else {row.name: row for row in read(path).cases}


def rank_of(name: str, row: CaseResult | None) -> int:
    """Cases of lower ranks come first: what is missing, then what falls short of a goal."""
    goal = goal_of(name)
    if row is None:
        return 0
    if goal is None:
        return 3
    return 1 if goal.missed_by(row) else 2


def seconds_of(workload: Workload, row: CaseResult | None, budget: float) -> float:
    """How long a case takes in a process that has begun, by how long it took before.

    Searches that ended by themselves do so again; torch's compiler takes part in contractions and
    wherever it did before.
    """
    known = row.tuning if row is not None else None
    search = budget
    if known and known["trials"] and known["seconds"] < ENDED * known["budget"]:
        search = min(budget, known["seconds"])
    calls = row.measurements if row is not None else ()
    compiled = isinstance(workload, Contraction) or any(m.call == COMPILED for m in calls)
    return search + CASE + COMPILER * compiled + RUNS * sum(m.seconds for m in calls)


def exactly(name: str) -> str:
    """A pattern that no other case fits, though its name may contain this one.

    >>> exactly("dot-2^24")
    '[d]ot-2^24'
    """
    return f"[{name[0]}]{name[1:]}"


def row_tasks(
    choice: Choice,
    families: Sequence[str],
    rows: Mapping[str, Mapping[str, CaseResult]],
    out: Path,
    *,
    budget: float,
    together: float,
) -> list[Task]:
    """The tasks of the chosen cases, in the order in which they are done.

    Cases of one rank and family share processes of about `together` seconds, and with them their
    budget and what a process takes to begin; of one rank, longer tasks come first. Cases that a
    pattern names are done in the order of its parts instead.
    """
    tasks: list[tuple[float, float, Task]] = []
    for family in families:
        known = rows.get(family, {})
        wanted = [w for w in CASES[family] if choice.wants(w, known.get(w.name))]
        chosen = in_order(wanted, choice.pattern)
        place = {w.name: place_of(w, choice.pattern) or 0 for w in chosen}
        for rank in (None,) if choice.pattern else range(4):
            expected = {
                w.name: seconds_of(w, known.get(w.name), budget)
                for w in chosen
                if rank is None or rank_of(w.name, known.get(w.name)) == rank
            }
            grouped = groups_of if rank is not None else runs_of
            for group in grouped(expected, together - START):
                seconds = START + sum(expected[name] for name in group)
                stem = f"{family}-{group[0]}".replace("^", "_")
                command = (
                    *(sys.executable, "-m", "bench.run", "--device", "cuda", "--family", family),
                    *("--tune-budget", f"{budget:g}", "--only", ",".join(map(exactly, group))),
                    *("--out", str(rows_file(out, stem))),
                )
                task = Task(stem, command, seconds, family, tuple(group))
                key = (place[group[0]], 0.0) if rank is None else (rank, -seconds)
                tasks.append((*key, task))
    tasks.sort(key=lambda each: each[:2])
    return [task for *_, task in tasks]


def rows_file(out: Path, stem: str) -> Path:
    """Where a task leaves the results of its cases."""
    return out / "rows" / f"{stem}.json"


def groups_of(seconds: Mapping[str, float], most: float) -> list[list[str]]:
    """Names in groups that take so many seconds at most, or are of one name; longest first.

    >>> groups_of({"a": 10, "b": 50, "c": 30, "d": 20}, 60)
    [['b', 'a'], ['c', 'd']]
    """
    groups: list[list[str]] = []
    for name in sorted(seconds, key=lambda name: -seconds[name]):
        for group in groups:
            if sum(seconds[each] for each in group) + seconds[name] <= most:
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def runs_of(seconds: Mapping[str, float], most: float) -> list[list[str]]:
    """Names in groups that take so many seconds at most, or are of one name, in their order.

    >>> runs_of({"a": 10, "b": 50, "c": 30, "d": 20}, 60)
    [['a', 'b'], ['c', 'd']]
    """
    groups: list[list[str]] = []
    for name in seconds:
        if groups and sum(seconds[each] for each in groups[-1]) + seconds[name] <= most:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def schedule(tasks: Sequence[Task], gpus: Sequence[str]) -> list[tuple[float, float, str, Task]]:
    """When each task begins and ends on which GPU, if all take as long as expected."""
    free = dict.fromkeys(gpus, 0.0)
    planned: list[tuple[float, float, str, Task]] = []
    for task in tasks:
        gpu = min(free, key=lambda each: free[each])
        planned.append((free[gpu], free[gpu] + task.seconds, gpu, task))
        free[gpu] += task.seconds
    return planned


def plan_of(tasks: Sequence[Task], gpus: Sequence[str], within: float) -> list[str]:
    """The plan in words: a line for each task, and what fits into a call of so many seconds."""
    planned = schedule(tasks, gpus)
    lines = [
        f"{begin:6.0f} to {end:6.0f} s on GPU {gpu}: {task.stem}"
        + (f", {len(task.cases)} cases" if task.cases else "")
        for begin, end, gpu, task in planned
    ]
    total, last = sum(task.seconds for task in tasks), max((p[1] for p in planned), default=0.0)
    cases = sum(len(task.cases) for task in tasks)
    inside = sum(end <= within for _, end, _, _ in planned)
    lines.append(
        f"{len(tasks)} tasks, {cases} cases: {total:.0f} s of GPUs, {last:.0f} s on {len(gpus)};"
        f" {inside} tasks end within {within:.0f} s"
    )
    return lines
