"""Counters of the device for cases that fall short, ours beside the best peer's.

`python -m bench.gpu_profile [--cases PATTERN]` tunes each case, then has NVIDIA's profiler read the
counters of its kernels and of those of the best peer in the result file, caches emptied before and
clocks as they are. It needs `ncu` and leave to read counters.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from bench.cuda_cases import CASES
from bench.families import fits
from bench.gpu_goals import goal_of
from bench.gpu_plan import exactly, newest_rows
from bench.results import Measurement
from bench.workload import Call, Workload

# What the profiler reads of each kernel: time, shares of what the device does at best, and what
# keeps it from doing so.
METRICS = (
    "gpu__time_duration.sum",
    "launch__grid_size",
    "launch__block_size",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "l1tex__data_bank_conflicts_pipe_lsu.sum",
    *(
        f"smsp__average_warps_issue_stalled_{why}_per_issue_active.ratio"
        for why in (
            *("long_scoreboard", "short_scoreboard", "barrier", "math_pipe_throttle"),
            *("lg_throttle", "mio_throttle", "no_instruction", "wait", "not_selected"),
        )
    ),
)
SECONDS = 60.0  # for one case in the profiler
_WARM = 3  # calls before, with what they have compiled in the background


def falling_short(family: str) -> list[str]:
    """The cases of a family that miss their goal, by the newest result file."""
    goals = {name: (goal_of(name), row) for name, row in newest_rows(family).items()}
    return [name for name, (goal, row) in goals.items() if goal and goal.missed_by(row)]


def command_of(family: str, name: str) -> list[str]:
    """How a case is profiled: what is counted begins and ends with the profiler's own calls."""
    profiler = ("ncu", "--profile-from-start", "off", "--target-processes", "application-only")
    counted = ("--clock-control", "none", "--metrics", ",".join(METRICS))
    process = (sys.executable, "-m", "bench.gpu_profile", "--here", "--family", family)
    return [*profiler, *counted, *process, "--cases", exactly(name)]


def profile(workload: Workload, peer: Measurement | None) -> None:
    """Calls a case once, and its best peer, while the profiler counts."""
    from bench.cuda import Device, ours
    from bench.cuda_peers import JAX, calls_of, peers

    device = Device()
    runtime: Any = device.cupy.cuda.runtime
    operands, outputs = device.operands(workload), device.outputs(workload)
    calls: list[Call] = [ours(workload, operands, outputs)]
    if peer is not None and peer.engine != JAX:
        library = peers()[peer.engine]
        calls.append(calls_of(library, workload, operands, outputs, compiled=True)[peer.call])
    for call in calls:
        for _ in range(_WARM):
            call()
            device.engine.settle()
    runtime.deviceSynchronize()
    runtime.profilerStart()
    for call in calls:
        call()
    runtime.deviceSynchronize()
    runtime.profilerStop()


def tune(family: str, workloads: Sequence[Workload], budget: float) -> None:
    """Searches for the cases' best schedules, which the store keeps."""
    from bench.cuda import Cases, Device
    from bench.cuda_references import References

    with References(family, []) as references:
        Cases(Device(), budget, "*", references).tune(workloads)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_profile", description=__doc__)
    parser.add_argument("--family", choices=CASES, help="of one family")
    parser.add_argument("--cases", help="names or patterns; else those that fall short")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of a case's search")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.here and shutil.which("ncu") is None:
        parser.error("ncu, NVIDIA's profiler of kernels, is not on the path")
    failures = 0
    for family in [options.family] if options.family else CASES:
        short = falling_short(family)
        chosen = [
            workload
            for workload in CASES[family]
            if (fits(workload, options.cases) if options.cases else workload.name in short)
        ]
        rows = newest_rows(family)
        if options.here:
            for workload in chosen:
                row = rows.get(workload.name)
                profile(workload, None if row is None else row.peer)
            continue
        tune(family, chosen, options.budget)
        for workload in chosen:
            print(f"== {workload.name}", flush=True)
            try:
                done = subprocess.run(
                    command_of(family, workload.name), timeout=SECONDS, check=False
                )
                failures += done.returncode != 0
            except subprocess.TimeoutExpired:
                failures += 1
                print(f"ended after {SECONDS:.0f} s", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
