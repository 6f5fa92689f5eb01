"""Calls as users write them, on both devices of processors, beside the best of installed peers.

`python -m bench.natural [--device llvm opencl] [--only PATTERN] [--seconds 20] [--out FILE]`

A natural call makes its result; the same call with `out` stands beside it. A row has for each
device the microseconds of both, how many times as long the best peer takes for the same (a peer
that has no `out` makes its result there too), and how many times as long OpenCL takes as LLVM.
Each device has a process, in which mdtensor, tuned before, and the peers take turns; every way to
compute a case is compared with a float64 reference before it is timed. Times are medians of the
turns' medians. A process that does not answer in time is ended, and its device left out of the row.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bench.child import Child, ChildError
from bench.engines import ENGINES, OURS, SOLITARY
from bench.families import ALL, in_order
from bench.machine import commit, now, processor, tell
from bench.run import PAUSE_SECONDS, save_references
from bench.two_devices import DEVICES, WARM_SECONDS
from bench.workload import CALL, Workload

# Both kinds of calls, by the prefix of their names, and how users write mdtensor's: contractions
# first, then all others.
NEW, OUT = "new ", ""
KINDS = {NEW: "new", OUT: "out"}
WRITTEN = {NEW: (f"{NEW}einsum", f"{NEW}{CALL}"), OUT: ("einsum out", CALL)}

# A peer's way that takes that many times as long as the best in its first batch is timed no more.
RIVALS = 2.0


class Way(NamedTuple):
    """A call of an engine in the process of a device."""

    device: str
    engine: str
    call: str

    @property
    def kind(self) -> str:
        """Whether the call makes its result."""
        return NEW if self.call.startswith(NEW) else OUT


@dataclass(frozen=True)
class Row:
    """Seconds of the ways to compute a case."""

    name: str
    seconds: Mapping[Way, float]

    def ours(self, device: str, kind: str) -> float | None:
        """mdtensor's time."""
        return min(self._of(device, kind, ours=True).values(), default=None)

    def peer(self, device: str, kind: str) -> Way | None:
        """The fastest way of all peers."""
        found = self._of(device, kind, ours=False)
        return min(found, key=found.__getitem__, default=None)

    def ratio(self, device: str, kind: str) -> float | None:
        """How many times as long as mdtensor the fastest peer takes."""
        ours, peer = self.ours(device, kind), self.peer(device, kind)
        return self.seconds[peer] / ours if ours and peer else None

    def between_devices(self, kind: str) -> float | None:
        """How many times as long as LLVM OpenCL takes."""
        llvm, opencl = (self.ours(device, kind) for device in DEVICES)
        return opencl / llvm if llvm and opencl else None

    def _of(self, device: str, kind: str, *, ours: bool) -> dict[Way, float]:
        return {
            way: seconds
            for way, seconds in self.seconds.items()
            if (way.device, way.kind, way.engine == OURS) == (device, kind, ours)
        }


@dataclass
class Bench:
    """The processes of the devices, which take turns."""

    options: argparse.Namespace
    stack: ExitStack
    engines: Sequence[str]
    children: dict[str, Child] = field(default_factory=dict[str, Child])

    def ask(self, device: str, do: str, patience: float = 0.0, **request: Any) -> Any:
        """The reply of a device's process, which begins when first needed, or when it has ended."""
        child = self.children.get(device)
        if child is None or not child.is_alive:
            child = self.stack.enter_context(Child(self.engines, MDTENSOR_DEVICE=device))
            self.children[device] = child
        return child.ask(do, patience=self.options.limit + patience, **request)

    def row(self, workload: Workload, folder: Path) -> Row:
        """Tunes, checks and times a case; what failed is told and left out."""
        references = save_references(workload, folder)
        ways: list[Way] = []
        for device in self.options.device:
            try:
                ways += self._prepared(device, workload, list(map(str, references)))
            except ChildError as error:
                tell(f"{workload.name} {device}: {error}", self.options.out)
        try:
            seconds = self._timed(sorted(ways, key=lambda way: self.engines.index(way.engine)))
        except ChildError as error:
            tell(f"{workload.name}: {error}", self.options.out)
            seconds = {}
        for child in self.children.values():
            if child.is_alive:
                child.ask("drop")
        for path in references:
            path.unlink()
        return Row(workload.name, seconds)

    def _prepared(self, device: str, workload: Workload, references: list[str]) -> list[Way]:
        """The ways whose results are right, mdtensor's with the kernels that it keeps to."""
        name, budget = workload.name, self.options.seconds
        if budget:
            self.ask(device, "tune", patience=3 * budget, case=name, budget=budget)
        self.ask(device, "load", case=name, references=references)
        ways: list[Way] = []
        for engine in self.engines:
            if ENGINES[engine].word not in workload.words:
                continue
            for kind in KINDS:
                reply = self.ask(device, "prepare", engine=engine, prefix=kind)
                right = [Way(device, engine, call) for call in reply["errors"]]
                ways += [way for way in right if engine != OURS or way.call in WRITTEN[kind]]
                for call, why in reply["refused"].items():
                    print(f"{name} {device} {engine} {call}: {why}", file=sys.stderr, flush=True)
        for way in ways:
            if way.engine == OURS:
                self.ask(device, "settle", engine=OURS, call=way.call, seconds=WARM_SECONDS)
        return ways

    def _timed(self, ways: Sequence[Way]) -> dict[Way, float]:
        """Medians of the batches of the ways that may be the fastest; the order alternates."""
        pilot = {way: self._batch(way) for way in ways}
        row = Row("", pilot)
        times = {way: [] for way in ways if way.engine == OURS or _is_rival(way, row)}
        for number in range(self.options.rounds):
            for way in times if number % 2 == 0 else reversed(times):
                times[way].append(self._batch(way))
        return {way: statistics.median(medians) for way, medians in times.items()}

    def _batch(self, way: Way) -> float:
        time.sleep(PAUSE_SECONDS)
        device, engine, call = way
        seconds = self.options.batch_seconds
        return self.ask(device, "time", engine=engine, call=call, seconds=seconds)["median"]


def _is_rival(way: Way, row: Row) -> bool:
    best = row.peer(way.device, way.kind)
    return best is not None and row.seconds[way] <= RIVALS * row.seconds[best]


def installed() -> tuple[str, ...]:
    """mdtensor and the peers that are there and can share a process with others."""
    return tuple(
        name
        for name, engine in ENGINES.items()
        if name not in SOLITARY and importlib.util.find_spec(engine.word) is not None
    )


def title(devices: Iterable[str]) -> str:
    """The names of the columns, those of devices as wide as their numbers in `line_of`."""
    columns = [
        f"{device + ' ' + said:>11} {'ratio':>6}" for device in devices for said in KINDS.values()
    ]
    return f"{'µs':<44}" + "".join(columns) + "  opencl/llvm new, out; best peers"


def line_of(row: Row, devices: Sequence[str]) -> str:
    """A row of the table.

    >>> ways = [Way("llvm", OURS, "call"), Way("llvm", "numpy", "dot"), Way("llvm", "jax", "dot")]
    >>> line_of(Row("dot", dict(zip(ways, (2e-6, 3e-6, 4e-6)))), ["llvm"]).split()
    ['dot', '–', '–', '2.00', '1.50', '–', '–', 'numpy', 'dot']
    """
    cells: list[str] = []
    for device in devices:
        for kind in KINDS:
            ours = row.ours(device, kind)
            cells.append(
                f"{_number(ours and ours * 1e6):>11} {_number(row.ratio(device, kind)):>6}"
            )
    between = [f"{_number(row.between_devices(kind)):>6}" for kind in KINDS]
    peers = [row.peer(device, kind) for kind in KINDS for device in devices]
    names = dict.fromkeys(f"{peer.engine} {peer.call.removeprefix(NEW)}" for peer in peers if peer)
    return f"{row.name:<44}" + "".join(cells) + "".join(between) + "  " + ", ".join(names)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def summary(rows: Sequence[Row], devices: Sequence[str]) -> list[str]:
    """Lines with the number of rows, the geometric mean and the least of each ratio.

    >>> ours, peer = Way("llvm", OURS, "new call"), Way("llvm", "numpy", "new call")
    >>> rows = [Row("a", {ours: 1.0, peer: 2.0}), Row("b", {ours: 1.0, peer: 8.0}), Row("c", {})]
    >>> summary(rows, ["llvm"])
    ['natural calls, best peer / llvm: 2 rows, geomean 4.00, least 2.00 (a)']
    """
    lines: list[str] = []
    for kind, said in ((NEW, "natural calls"), (OUT, "calls with out")):
        found = {
            f"best peer / {device}": {row.name: row.ratio(device, kind) for row in rows}
            for device in devices
        }
        found["opencl / llvm"] = {row.name: row.between_devices(kind) for row in rows}
        for what, ratios in found.items():
            known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
            if known:
                mean, least = (
                    statistics.geometric_mean(known.values()),
                    min(known, key=known.__getitem__),
                )
                lines.append(
                    f"{said}, {what}: {len(known)} rows, geomean {mean:.2f}, "
                    f"least {known[least]:.2f} ({least})"
                )
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Prints a row for each case, then what they come to; 1 where a device lacks one."""
    options = _options(arguments)
    rows: list[Row] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["MDTENSOR_CACHE_DIR"] = str(folder / "cache")  # no winners of other commits
        bench = Bench(options, stack, installed())
        cores, load = os.cpu_count(), os.getloadavg()[0]
        tell(
            f"{now()}, {processor()}, {cores} cores, load {load:.1f}, commit {commit()}",
            options.out,
        )
        for device in options.device:
            tell(f"{device}: {bench.ask(device, 'device')['driver']}", options.out)
        versions = bench.ask(options.device[0], "describe")["versions"]
        tell(
            ", ".join(f"{name} {version}" for name, version in sorted(versions.items())),
            options.out,
        )
        tell(f"tuned for {options.seconds:g} s; {options.rounds} turns", options.out)
        tell(title(options.device), options.out)
        for workload in in_order(ALL, options.only):
            rows.append(bench.row(workload, folder))
            tell(line_of(rows[-1], options.device), options.out)
    for line in summary(rows, options.device):
        tell(line, options.out)
    tell(f"load {os.getloadavg()[0]:.1f}", options.out)
    return int(
        any(
            row.ours(device, kind) is None
            for row in rows
            for device in options.device
            for kind in KINDS
        )
    )


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.natural", description=__doc__)
    parser.add_argument("--device", nargs="+", choices=DEVICES, default=list(DEVICES))
    parser.add_argument("--only", help="names, parts of names or patterns, separated by commas")
    parser.add_argument("--seconds", type=float, default=20.0, help="tuning of each case; 0: none")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each call")
    parser.add_argument("--batch-seconds", type=float, default=0.05, help="a turn")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a step may take")
    parser.add_argument("--out", type=Path, help="the file to which all is appended")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
