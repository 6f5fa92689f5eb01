"""Tunes the cases, measures mdtensor and its peers in turns, and writes a result file.

`python -m bench.run [--family kernels] [--only PATTERN] [--tune-budget 60] [--quick] [--out FILE]`
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import re
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import render
from bench.child import Child, ChildError
from bench.engines import ONE_THREAD, OURS, SOLITARY, UNTUNED, engines_for
from bench.families import EINSUM, FAMILIES, selected
from bench.limits import LIMITS, bound
from bench.machine import now, processor
from bench.results import CaseResult, Limit, Measurement, Run, case_of, read, write
from bench.timing import spread
from bench.workload import CALL, PLAN, Workload

RESULTS = Path(__file__).parent / "results"
# OpenBLAS's threads spin after a call, for some 110 ms on an EPYC of Zen 3, and keep a core from
# the next engine (`bench/results/2026-11-29-amd-epyc-25-1-spinning-peers.log`).
PAUSE_SECONDS = 0.15
# A call of an engine that is this much slower than its best one takes no part in the rounds.
WORTH_REPEATING = 1.3
# A call that takes this long, and this much longer than the best peer's, takes no part in the
# rounds either: one batch has shown enough of it.
RIVALS = 4.0
LONG_SECONDS = 0.02
# With more operations, one thread is never the better choice.
WORTH_THREADS = 20_000_000


@dataclass(frozen=True)
class Settings:
    """How long to tune each case, and how often and how long to measure each call."""

    tune_budget: float = 60.0
    rounds: int = 9
    batch_seconds: float = 0.08

    @classmethod
    def quick(cls, tune_budget: float) -> Settings:
        """A first look, not a result."""
        return cls(tune_budget, 3, 0.03)


class Driver:
    """The workers of a run: one per engine, and one that hosts all for cases bound by memory."""

    def __init__(self, settings: Settings, stack: ExitStack, family: str = EINSUM) -> None:
        self.settings = settings
        self.engines = engines_for(*FAMILIES[family])
        self.stack = stack
        self.children: dict[tuple[str, ...], Child] = {}
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

    def child(self, *engines: str) -> Child:
        """The worker that hosts these engines, started when first needed."""
        child = self.children.get(engines)
        if child is None or not child.is_alive:
            child = self.stack.enter_context(Child(engines))
            self.children[engines] = child
        return child

    def placed(self, workload: Workload) -> dict[str, Child]:
        """The worker of every engine that takes part in a case."""
        together = tuple(name for name in self.engines if name not in SOLITARY)
        placed = {
            name: self.child(*together)
            if workload.shared and name in together
            else self.child(name)
            for name in engines_for(workload)
            if name != ONE_THREAD or workload.flops < WORTH_THREADS
        }
        return {**placed, LIMITS: placed[OURS]}

    def describe(self) -> Run:
        """A run without cases yet."""
        versions: dict[str, str] = {}
        for name in self.engines:
            versions.update(self.child(name).ask("describe")["versions"])
        return Run(
            date=now(),
            device=self.child(OURS).ask("device"),
            system={
                "platform": platform.platform(),
                "processor": processor(),
                "cores": os.cpu_count(),
                "python": platform.python_version(),
            },
            versions=dict(sorted(versions.items())),
            settings={**dataclasses.asdict(self.settings), "pause_seconds": PAUSE_SECONDS},
        )

    def measure(self, workload: Workload) -> CaseResult:
        """Tunes a case, checks what every engine computes for it, and measures in turns."""
        load = os.getloadavg()[0]
        budget = self.settings.tune_budget
        ours = self.child(OURS)
        tuning = ours.ask("tune", case=workload.name, budget=budget, patience=600 + 3 * budget)
        placed = self.placed(workload)
        references = save_references(workload, self.folder)
        refused: dict[str, str] = {}
        errors: dict[tuple[str, str], float] = {}
        for child in _distinct(placed):
            child.ask("load", case=workload.name, references=list(map(str, references)))
        for name, child in placed.items():
            reply = child.ask("prepare", engine=name)
            errors |= {(name, call): error for call, error in reply["errors"].items()}
            refused |= {f"{name} {call}": why for call, why in reply["refused"].items()}
        times = self._rounds(workload, placed, list(errors))
        host = None
        if workload.is_small and (OURS, PLAN) in errors:
            host = placed[OURS].ask("profile")
        limit = _limit(workload, times, placed[LIMITS])
        for child in _distinct(placed):
            child.ask("drop")
        for path in references:
            path.unlink()
        measurements = tuple(
            Measurement(
                name,
                call,
                statistics.median(medians),
                spread(medians),
                tuple(medians),
                errors[name, call],
            )
            for (name, call), medians in times.items()
            if name != LIMITS
        )
        return case_of(
            workload,
            date=now(),
            processes="one for all" if workload.shared else "one per engine",
            measurements=measurements,
            refused=refused,
            load=load,
            tuning={"budget": budget, **tuning},
            limit=limit,
            host=host,
        )

    def _rounds(
        self, workload: Workload, placed: dict[str, Child], calls: list[tuple[str, str]]
    ) -> dict[tuple[str, str], list[float]]:
        """The medians of the batches of every call; the order of the turns alternates."""
        pilot = {key: self._batch(placed, key) for key in calls}
        kept = [key for key in calls if workload.is_small or _worth(key, pilot)]
        times: dict[tuple[str, str], list[float]] = {key: [] for key in kept}
        rivals = [key for key in kept if workload.is_small or _is_rival(key, pilot)]
        for number in range(self.settings.rounds):
            for key in rivals if number % 2 == 0 else reversed(rivals):
                times[key].append(self._batch(placed, key))
        return {key: medians or [pilot[key]] for key, medians in times.items()}

    def _batch(self, placed: dict[str, Child], key: tuple[str, str]) -> float:
        time.sleep(PAUSE_SECONDS)
        engine, call = key
        seconds = self.settings.batch_seconds
        return placed[engine].ask("time", engine=engine, call=call, seconds=seconds)["median"]


def save_references(workload: Workload, folder: Path) -> list[Path]:
    """The files of a case's right results, which workers read."""
    paths: list[Path] = []
    for number, result in enumerate(workload.reference(workload.operands())):
        paths.append(folder / f"reference-{number}.npy")
        np.save(paths[-1], result)
    return paths


def _worth(key: tuple[str, str], pilot: dict[tuple[str, str], float]) -> bool:
    engine, call = key
    best = min(seconds for (name, _), seconds in pilot.items() if name == engine)
    return (
        engine == LIMITS
        or call in (PLAN, CALL)
        or key == ("numpy", "einsum")
        or pilot[key] <= WORTH_REPEATING * best
    )


def _is_rival(key: tuple[str, str], pilot: dict[tuple[str, str], float]) -> bool:
    """Whether a call is ours, a limit, or worth measuring again."""
    ours = (OURS, UNTUNED, LIMITS)
    best = min((seconds for (name, _), seconds in pilot.items() if name not in ours), default=0.0)
    return key[0] in ours or pilot[key] <= max(LONG_SECONDS, RIVALS * best)


def _distinct(placed: dict[str, Child]) -> list[Child]:
    return list({id(child): child for child in placed.values()}.values())


def _limit(
    workload: Workload, times: dict[tuple[str, str], list[float]], child: Child
) -> Limit | None:
    """The limit by the rates of the same rounds; the best way to read counts."""
    found = {call: statistics.median(m) for (name, call), m in times.items() if name == LIMITS}
    reads = [seconds for call, seconds in found.items() if call.startswith("read")]
    fma = child.ask("fma_flops")["flops"] / found["fma"] if "fma" in found else None
    read = workload.bytes_read / min(reads) if reads else None
    write = workload.bytes_written / found["write"] if "write" in found else None
    least = bound(workload, fma, read, write)
    return None if least is None else Limit(*least, fma, read, write)


def file_for(run: Run, family: str) -> Path:
    device = re.sub(r"[^a-z0-9]+", "-", f"{run.device['name']} x{run.device['cores']}".lower())
    return RESULTS / f"{run.date[:10]}-{device.strip('-')}-{family}.json"


def line_of(case: CaseResult) -> str:
    ours, untuned, peer = case.ours, case.untuned, case.peer
    parts = [f"{case.name:<28}"]
    parts += [f"{ours.seconds * 1e6:>11.2f} µs" if ours else f"{'no call':>14}"]
    parts += [f"untuned {untuned.seconds * 1e6:>11.2f} µs" if untuned else ""]
    parts += [f"{peer.engine} {peer.call} {peer.seconds * 1e6:.2f} µs" if peer else "no peer"]
    parts += [f"ratio {case.ratio:.2f}" if case.ratio else ""]
    parts += [f"of the limit {case.limit_ratio:.0%}" if case.limit_ratio else ""]
    parts += ["ok" if case.ok else ", ".join(case.missed)]
    return "  ".join(part for part in parts if part)


def main(arguments: list[str] | None = None) -> int:
    """Runs the cases; 1 where one failed."""
    options = _options(arguments)
    if options.device == "cuda":
        from bench import cuda

        return cuda.main(
            options.family, options.only, options.tune_budget, options.out, options.compiled
        )
    budget = options.tune_budget
    settings = Settings.quick(budget) if options.quick else Settings(budget)
    failures = 0
    with ExitStack() as stack:
        driver = Driver(settings, stack, options.family)
        run = driver.describe()
        path = options.out or file_for(run, options.family)
        if path.exists():
            earlier = read(path)
            run = dataclasses.replace(run, cases=earlier.cases, first_calls=earlier.first_calls)
        for workload in selected(options.only, options.family):
            if options.resume and workload.name in {case.name for case in run.cases}:
                continue
            try:
                case = driver.measure(workload)
            except ChildError as error:
                failures += 1
                print(f"{workload.name}: {error}", file=sys.stderr, flush=True)
                continue
            run = run.with_case(case)
            write(run, path)
            print(line_of(case), flush=True)
            for call, why in case.refused.items():
                print(f"    {call}: {why}", file=sys.stderr, flush=True)
        if options.family == EINSUM:
            first = driver.child(UNTUNED).ask("first_calls")
            run = dataclasses.replace(run, first_calls=first)
            write(run, path)
    for name, value in run.summary().items():
        print(f"{name}: {value:.2f}")
    if run.first_calls:
        print(f"first calls: {run.first_calls}")
    print(path)
    if path.parent == RESULTS:
        render.main()
    return int(failures > 0)


def _options(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--family", choices=FAMILIES, default=EINSUM, help="which cases")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="what computes")
    parser.add_argument("--only", help="names, parts of names or patterns, separated by commas")
    parser.add_argument("--tune-budget", type=float, default=60.0, help="seconds per case")
    parser.add_argument("--quick", action="store_true", help="a first look, not a result")
    parser.add_argument("--resume", action="store_true", help="leave the cases that the file has")
    parser.add_argument("--compiled", default="*", help="cases for torch's compiler, on GPUs")
    parser.add_argument("--out", type=Path, help="the file; cases that it has are replaced")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
