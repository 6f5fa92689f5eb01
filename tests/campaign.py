"""What is too long or too much of the machine to be a condition of each commit: `make campaign`.

All cases of all tests, the tests marked `campaign`, the fuzzers at full count, kills, forks and
ends of processes, the suites of others, and the demo: one command after the other, each in a cache
of its own. A log goes to bench/results: a line for each command with its minutes and last words,
the end of what failed, and a closing line that counts. Two hours on two cores; bounds of time
come last, for which nothing may run beside them. `--only NAME …` runs some, `--list` names
them, `--log FILE` writes elsewhere.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.machine import commit, now, processor, tell
from mdtensor.backends.host.hardware import cpu_flags
from tests import children

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
LINES_OF_A_FAILURE = 60


@dataclass(frozen=True)
class Command:
    """A command of the campaign: its arguments behind `python`, and the hours that it may take."""

    name: str
    arguments: tuple[str, ...]
    hours: float = 1.0
    environment: tuple[tuple[str, str], ...] = ()


_FULL = (
    ("MDTENSOR_TEST_PAIRS", "2000"),
    ("MDTENSOR_TEST_KERNELS", "300"),
    ("MDTENSOR_TEST_FUNCTIONS", "400"),
)
_PYTEST = ("-m", "pytest", "--all-cases", "-q", "-o", "faulthandler_timeout=3600")


def _module(name: str, *arguments: str, hours: float = 1.0, **environment: str) -> Command:
    module, *options = arguments
    return Command(name, ("-m", module, *options), hours, tuple(environment.items()))


COMMANDS = (
    Command("all cases", (*_PYTEST, "-n", "2", "--dist", "loadfile"), 2, _FULL),
    Command("processes", (*_PYTEST, "-m", "process and not campaign"), 2, _FULL),
    _module("schedules", "tests.lower.check_schedules", "--count", "30000", "--workers", "2"),
    *(
        _module(f"kernels by {language}{kind}", f"tests.lower.{module}", "--count", count, *options)
        for language, module in (("OpenCL", "fuzz"), ("LLVM", "fuzz_llvm"))
        for kind, count, options in (
            ("", "2000", ()),
            (", md_homs", "2000", ("--md-homs",)),
            (", transposed", "500", ("--transposed",)),
            (", bfloat16", "500", ("--bfloats",)),
        )
    ),
    *(
        (_module("kernels by LLVM, pairs", "tests.lower.fuzz_llvm", "--count", "1000", "--pairs"),)
        if "avx512_bf16" in cpu_flags()
        else ()
    ),
    *(
        _module(f"calls on {device}", "tests.api.fuzz", "--count", "100", MDTENSOR_DEVICE=device)
        for device in ("llvm", "opencl")
    ),
    _module("calls evaluated and by kernels", "tests.api.fuzz", "--tiers", "--count", "300"),
    _module("chains", "tests.api.engine.fuzz_row_chains", "--count", "200"),
    _module("functions of Python", "tests.translate.fuzz_python", "--count", "2000"),
    _module("malformed calls", "tests.api.fuzz_malformed", "--count", "20000", "--seed", "11"),
    *(
        _module(f"survival of {what}", "tests.api.survival", f"--{what}", tries)
        for what, tries in (
            ("kills", "200"),
            ("forks", "1000"),
            ("exits", "100"),
            ("crowd", "64"),
            ("damage", "100"),
            ("interrupts", "300"),
        )
    ),
    *(
        _module(f"{name} on {device}", *survival, f"--{what}", tries, MDTENSOR_DEVICE=device)
        for survival in (("tests.api.survival",),)
        for name, what, tries in (
            ("forks beside kernels", "kernels", "200"),
            ("ends of processes", "ends", "500"),
        )
        for device in ("llvm", "opencl")
    ),
    _module("mutations", "tests.mutations", hours=3),
    Command("clocks and memory", (*_PYTEST, "-m", "campaign"), 2, _FULL),
    _module("the demo", "mdtensor", "demo"),
)


@dataclass(frozen=True)
class End:
    """How a command ended: its exit code (None: killed at its limit), seconds and words."""

    code: int | None
    seconds: float
    words: str

    def line(self, name: str) -> str:
        """The line of the log."""
        how = "passed" if self.code == 0 else f"FAILED ({self.code})"
        last = self.words.strip().splitlines()[-1:] or [""]
        return f"{name}: {how} in {self.seconds / 60:.1f} min: {last[0].strip('= ')}"


def run(command: Command) -> End:
    """Runs a command in a cache of its own; one that exceeds its limit is killed."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        # Each process of pytest has a cache of its own.
        own = "" if command.arguments[:2] == ("-m", "pytest") else cache
        environment = {"MDTENSOR_CACHE_DIR": own} | dict(command.environment)
        limit, to_one = command.hours * 3600, children.STDOUT
        try:
            end = children.run(
                *command.arguments, env=environment, limit_s=limit, code=None, stderr=to_one
            )
            code, said = end.code, end.out
        except children.ChildError as error:
            code, said = None, str(error)
    return End(code, time.monotonic() - begun, said)


def log_name() -> str:
    """The name of a log, as those of benchmarks: the day and the processor."""
    words = re.sub(r"[^a-z0-9]+", "-", processor().lower()).strip("-")
    return f"{now()[:10]}-{words}-campaign.log"


def main(arguments: Sequence[str] | None = None, commands: Sequence[Command] = COMMANDS) -> int:
    """Runs what is asked for and writes the log; 1 where something failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="NAME", help="commands, by their names")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--log", type=Path, default=RESULTS / log_name())
    options = parser.parse_args(arguments)
    if options.list:
        print(*(command.name for command in commands), sep="\n")
        return 0
    names = {command.name for command in commands}
    if unknown := set(options.only or ()) - names:
        parser.error(f"no command is called {', '.join(sorted(unknown))}; --list names them")
    tell(f"campaign of {now()}, commit {commit()}, {processor()}", options.log)
    counts = {True: 0, False: 0}
    for command in commands:
        if options.only and command.name not in options.only:
            continue
        end = run(command)
        counts[end.code == 0] += 1
        tell(end.line(command.name), options.log)
        if end.code != 0:
            tell("\n".join(end.words.splitlines()[-LINES_OF_A_FAILURE:]), options.log)
    tell(f"{counts[True]} passed, {counts[False]} failed", options.log)
    return int(bool(counts[False]))


if __name__ == "__main__":
    sys.exit(main())
