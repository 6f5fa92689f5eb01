"""The cases on the `llvm` device and on OpenCL, by turns.

`python -m bench.two_devices [--family kernels] [--only PATTERN] [--tune-budget 5] [--rounds 3]`

Each device has a process of its own, which checks its results against those of float64. A row has
the least of each, since on a shared machine only that is of the kernel, and how many times as long
OpenCL takes; the last line the geometric mean. Without a budget, shapes are untuned.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from bench.child import Child
from bench.engines import OURS, UNTUNED
from bench.families import EINSUM, FAMILIES, selected
from bench.machine import now, processor
from bench.run import PAUSE_SECONDS, save_references
from bench.workload import CALL, PLAN, Workload

DEVICES = ("llvm", "opencl")
# Launches of that many seconds are worth a kernel for one shape alone.
WARM_SECONDS = 0.2


def compared(
    workload: Workload, children: Mapping[str, Child], options: argparse.Namespace, folder: Path
) -> dict[str, float]:
    """The seconds of a case on each device; a device without a right result is left out."""
    references = save_references(workload, folder)
    engine = OURS if options.tune_budget else UNTUNED
    calls: dict[str, str] = {}
    for device, child in children.items():
        if options.tune_budget:
            child.ask("tune", case=workload.name, budget=options.tune_budget)
        child.ask("load", case=workload.name, references=list(map(str, references)))
        reply = child.ask("prepare", engine=engine)
        for name, why in reply["refused"].items():
            print(f"{workload.name} {device} {name}: {why}", flush=True)
        if found := [name for name in (PLAN, CALL) if name in reply["errors"]]:
            calls[device] = found[0]
            child.ask("settle", engine=engine, call=found[0], seconds=WARM_SECONDS)
    best = dict.fromkeys(calls, math.inf)
    for _ in range(options.rounds):
        for device, name in calls.items():
            time.sleep(PAUSE_SECONDS)
            reply = children[device].ask(
                "time", engine=engine, call=name, seconds=options.batch_seconds
            )
            best[device] = min(best[device], reply["least"])
    for child in children.values():
        child.ask("drop")
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", choices=FAMILIES, default=EINSUM)
    parser.add_argument("--only")
    parser.add_argument("--tune-budget", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--batch-seconds", type=float, default=0.05)
    options = parser.parse_args()
    ratios: list[float] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engine = OURS if options.tune_budget else UNTUNED
        children = {
            device: stack.enter_context(Child([engine], MDTENSOR_DEVICE=device))
            for device in DEVICES
        }
        for device, child in children.items():
            print(device, child.ask("device"), child.ask("describe")["versions"])
        print(processor(), now())
        for workload in selected(options.only, options.family):
            best = compared(workload, children, options, folder)
            row = [
                f"{device} {best[device] * 1e6:11.2f} us" for device in DEVICES if device in best
            ]
            if len(best) == len(DEVICES):
                ratios.append(best["opencl"] / best["llvm"])
                row.append(f"ratio {ratios[-1]:.2f}")
            load = f"load {os.getloadavg()[0]:.1f}"
            print(f"{workload.name:<44}", *row, load, sep="  ", flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean {mean:.3f} of {len(ratios)}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
