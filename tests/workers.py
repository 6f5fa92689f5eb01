"""Random cases in worker processes, so that one that crashes or hangs fails like any other.

`python -m MODULE --worker` reads names of cases and calls `work`, which checks one after the other
and says what comes of each.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from mdtensor.backends.host.hardware import core_count

BATCH = 50
SECONDS = 60
BEGIN_SECONDS = 250
MOST_AT_ONCE = 4
# Intel's compiler itself crashes on some kernels with barriers, at times: no fault of theirs, but
# no result either. Such cases are counted apart.
COMPILER = "compiler crashed"
# What the compiler says when it crashes.
TRACES = ("Running pass", "PLEASE submit a bug report")
ROOT = Path(__file__).parents[1]
RIGHT, REFUSED = "ok", "refused"


class MismatchError(AssertionError):
    """Something computed other values than it should have, or wrote where it should not."""


@dataclass
class Report:
    """Outcomes of a run: how many cases were right or refused, what failed, what crashed."""

    counts: Counter[str]
    failures: dict[str, str]
    crashed: list[str] = field(default_factory=list[str])
    seconds: float = 0.0

    def add(self, other: Report) -> None:
        """Counts what another run found too."""
        self.counts += other.counts
        self.failures |= other.failures
        self.crashed += other.crashed

    def __str__(self) -> str:
        failed = "\n".join(f"{name}: {why}" for name, why in self.failures.items())
        figures = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        crashed = f"{COMPILER}: {' '.join(self.crashed)}\n" if self.crashed else ""
        figures += f", {len(self.failures)} failed, {self.seconds:.0f} s"
        return f"{failed}\n{crashed}{figures}".strip()


@dataclass(frozen=True)
class Workers:
    """What runs cases: a module with an option `--worker`, and what a case is, in words.

    A worker that says nothing for `SECONDS`, once it has begun, hangs; where cases are so many
    times `slower`, it may take as many times as long.
    """

    module: str
    describe: Callable[[str], str]
    slower: int = 1

    def run(
        self, names: Sequence[str], *, verbose: bool = False, workers: int | None = None
    ) -> Report:
        """Runs cases, a batch in each process; a crash or a hang fails its case only."""
        report = Report(Counter(), {})
        begun = time.monotonic()
        batches = [names[start : start + BATCH] for start in range(0, len(names), BATCH)]
        with ThreadPoolExecutor(workers or min(core_count(), MOST_AT_ONCE)) as pool:
            for number, found in enumerate(pool.map(self._run_batch, batches), 1):
                report.add(found)
                if verbose:
                    done = min(number * BATCH, len(names))
                    failed = " ".join(report.failures)
                    print(f"{done}/{len(names)}", dict(report.counts), failed, flush=True)
        report.seconds = time.monotonic() - begun
        return report

    def _run_batch(self, names: Sequence[str]) -> Report:
        report, waiting = Report(Counter(), {}), list(names)
        while waiting:
            waiting = self._run_some(waiting, report)
        return report

    def _run_some(self, names: list[str], report: Report) -> list[str]:
        """Runs cases in one worker; returns those that it did not come to."""
        environment = {**os.environ, "MDTENSOR_CACHE_LIMIT": "0", "PYTHONFAULTHANDLER": "1"}
        worker = subprocess.Popen(
            [sys.executable, "-m", self.module, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        assert worker.stdin is not None
        worker.stdin.write("\n".join(names))
        worker.stdin.close()
        finished: set[str] = set()
        current, hung = "", False
        for message in _messages(worker, SECONDS * self.slower):
            if message is None:
                hung = True
                worker.kill()
                break
            if "begin" in message:
                current = message["begin"]
                continue
            finished.add(message["end"])
            current = ""
            if message["outcome"].startswith((RIGHT, REFUSED)):
                report.counts[message["outcome"]] += 1
            else:
                report.failures[message["end"]] = message["outcome"]
        code = worker.wait()
        assert worker.stderr is not None
        words = worker.stderr.read().strip().splitlines()
        worker.stderr.close()
        left = [name for name in names if name not in finished]
        if not left:
            return []
        if not current:
            raise RuntimeError("a worker cannot start:\n" + "\n".join(words))
        reason = (
            f"no answer in {SECONDS * self.slower} s" if hung else f"the process ended with {code}"
        )
        if any(trace in word for word in words for trace in TRACES):
            report.counts[COMPILER] += 1
            report.crashed.append(current)
        else:
            report.failures[current] = "\n    ".join([reason, *words[:12], self.describe(current)])
        return [name for name in left if name != current]


def work(names: Sequence[str], check: Callable[[str], str], describe: Callable[[str], str]) -> None:
    """Runs cases and reports each on standard output: a line when it begins, one when it ends."""
    for name in names:
        print(json.dumps({"begin": name}), flush=True)
        _harm(name)
        try:
            print(json.dumps({"end": name, "outcome": check(name)}), flush=True)
        except Exception as error:  # whatever goes wrong is the case's outcome
            lines = [str(error).splitlines()[0] if str(error) else repr(error)]
            lines += [line for line in str(error).splitlines() if " error: " in line][:2]
            if not isinstance(error, MismatchError):
                lines += traceback.format_exc().splitlines()[-6:]
            lines += getattr(error, "__notes__", ())
            text = f"{type(error).__name__}: " + "\n    ".join([*lines, describe(name)])
            print(json.dumps({"end": name, "outcome": text}), flush=True)


def parsed(
    parser: argparse.ArgumentParser, check: Callable[[str], str], describe: Callable[[str], str]
) -> argparse.Namespace:
    """The options of a command that checks cases, with those that all such commands have.

    A worker process does its work and ends here.
    """
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", help="name of one case, which runs in this process")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(sys.stdin.read().split(), check, describe)
        sys.exit()
    return options


def _harm(name: str) -> None:
    """Crashes or hangs where a test of the workers themselves asks for it."""
    asked = os.environ.get("MDTENSOR_TEST_FUZZ_HARM", "").split()
    if f"{name}=crash" in asked:
        os.kill(os.getpid(), signal.SIGSEGV)
    if f"{name}=hang" in asked:
        time.sleep(3600)


def _messages(worker: subprocess.Popen[str], seconds: int) -> Iterator[dict[str, str] | None]:
    """What a worker says, line by line; None where it is silent for too long."""
    assert worker.stdout is not None
    descriptor = worker.stdout.fileno()
    text, silence = b"", BEGIN_SECONDS
    with selectors.DefaultSelector() as selector, worker.stdout:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            # Second by second: one that this process is stopped for, as its worker is, counts once.
            if not any(selector.select(1) for _ in range(silence)):
                yield None
                return
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                return
            silence = seconds
            *lines, text = (text + piece).split(b"\n")
            for line in lines:
                yield json.loads(line)
