"""Are short searches as good as long ones? `python -m bench.search_gpu --out DIRECTORY` on GPUs.

Of each case, one search with the `--short` budget and one with the `--long` one, each from an empty
store; then the winners of both take turns. Every search is a process of its own with a GPU of its
own (bench/desk.py), so that the whole can be done in several calls: `--within` says how many
seconds one may take. `--table` writes what there is.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.desk import Desk
from bench.families import named
from bench.search_table import table_of
from bench.workload import Workload
from bench.workloads import matmul

CASES = (
    "matmul-1024x1024x1024",
    "matmul-333x777x513",
    "matmul-16x1000x2048",
    "bmatmul-16x10x500x64",
    "matmul-1x1000x2048",
    "ccsdt-abcdef-gdab-efgc",
    "mcc-1x7x7x512-512x3x3",
    "mcc-resnet-1x230x230x3-64x7x7-s2",
    "jacobi3d-256^3",
    "scan-add-2^24",
    "argmax-rows-4096x4096",
    "matmul-1024x1024x1024-float16",
)
_OWN = {each.name: each for each in (matmul(333, 777, 513), matmul(1024, 1024, 1024, "float16"))}
COMPARED = "compared"
_ROUNDS, _TIMES = 15, 5


def workload_of(name: str) -> Workload:
    """The case of a name."""
    return _OWN.get(name) or named(name)


@dataclass(frozen=True, slots=True)
class Job:
    """A search of a case with so many seconds, or the comparison of what two searches found."""

    case: str
    what: str  # seconds of a budget, or COMPARED

    @property
    def stem(self) -> str:
        """The name of the job's files."""
        return f"{self.case}-{self.what}".replace("^", "_")

    def needs(self, short: str, long: str) -> tuple[Job, ...]:
        """What must be done before."""
        if self.what != COMPARED:
            return ()
        return Job(self.case, short), Job(self.case, long)


def search_case(case: str, seconds: float) -> dict[str, Any]:
    """Searches for the best schedules of a case's programs, and tells how it went."""
    from bench.search_watch import watched_search
    from mdtensor.api.engine import registry

    started = time.monotonic()
    engine = registry.engine_for("cupy")
    device = registry.device_name("cupy")
    programs = watched_search(engine, device, _md_homs(case), seconds)
    return {
        "case": case,
        "budget": seconds,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "environment": engine.environment,
        "seconds": time.monotonic() - started,
        "programs": programs,
    }


def _md_homs(case: str) -> list[Any]:
    """The programs of a case's call on CuPy's arrays."""
    import cupy

    import mdtensor
    from bench.engines import Tuned
    from bench.workload import CALL, PLAN

    workload = workload_of(case)
    operands = [cupy.asarray(operand) for operand in workload.operands()]
    outputs = tuple(cupy.empty(spec.shape, spec.dtype) for spec in workload.outputs)
    calls = Tuned().calls(workload, operands, outputs)
    with mdtensor.tuning("record") as seen:
        (calls[PLAN] if PLAN in calls else calls[CALL])()
    return [item.md_hom for item in seen]


def compare_case(case: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Seconds of the winners of several searches, program by program, by turns."""
    from bench.search_watch import seconds_by_turns
    from mdtensor.api.engine import registry

    engine = registry.engine_for("cupy")
    schedules = [[each["winner"] for each in one["programs"]] for one in found]
    times = [
        seconds_by_turns(engine, md_hom, rivals, _ROUNDS, _TIMES)
        for md_hom, rivals in zip(_md_homs(case), zip(*schedules, strict=True), strict=True)
    ]
    return {"case": case, "seconds": [sum(each) for each in zip(*times, strict=True)]}


def drop_outdated(desk: Desk[Job], jobs: Sequence[Job], long: str, commit: str) -> None:
    """Removes results of other commits, but for those of long searches."""
    for job in jobs:
        path = desk.result(job)
        if job.what == long or not path.exists():
            continue
        if json.loads(path.read_text()).get("commit", "") != commit:
            path.unlink()


def do(job: Job, out: Path, short: str, long: str, commit: str) -> None:
    """Does a job in this process."""
    if job.what == COMPARED:
        needed = [out / f"{need.stem}.json" for need in job.needs(short, long)]
        result = compare_case(job.case, [json.loads(path.read_text()) for path in needed])
    else:
        result = search_case(job.case, float(job.what))
    path = out / f"{job.stem}.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps({**result, "commit": commit}))
    part.replace(path)


def main() -> int:
    """Begins and awaits jobs, or does one; 1 where something is left to do."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--short", type=int, default=60, help="seconds of a budget")
    parser.add_argument("--long", type=int, default=600)
    parser.add_argument("--gpus", default=os.environ.get("CUDA_VISIBLE_DEVICES", "0"))
    parser.add_argument("--within", type=float, default=1e9, help="seconds for this call")
    parser.add_argument("--commit", default="", help="what of the code results are of")
    parser.add_argument("--table", action="store_true", help="only write what there is")
    parser.add_argument("--do", help=argparse.SUPPRESS)
    parser.add_argument("stem", nargs="?", help=argparse.SUPPRESS)
    options = parser.parse_args()
    short, long = str(options.short), str(options.long)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.do:
        do(Job(*options.do.rsplit("=", 1)), options.out, short, long, options.commit)
        return 0
    done, cases = True, options.cases.split(",")
    if not options.table:
        fixed = [sys.executable, "-m", "bench.search_gpu", "--out", str(options.out.resolve())]
        fixed += ["--short", short, "--long", long, "--commit", options.commit]
        desk = Desk[Job](
            options.out.resolve(),
            options.gpus.split(","),
            lambda job: [*fixed, "--do", f"{job.case}={job.what}"],
        )
        jobs = [Job(case, what) for case in cases for what in (long, short, COMPARED)]
        drop_outdated(desk, jobs, long, options.commit)
        jobs.sort(key=lambda job: (long, short, COMPARED).index(job.what))
        done = desk.work(jobs, lambda job: job.needs(short, long), options.within)
    print(table_of(options.out, cases, short, long, lambda case, what: Job(case, what).stem))
    return int(not done)


if __name__ == "__main__":
    sys.exit(main())
