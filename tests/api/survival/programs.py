"""Programs of the campaigns, as processes that are watched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests import children

Process = subprocess.Popen[str]
LONGEST_S = 120.0
_MOST_TROUBLE = 3000  # characters

# `new()` calls what the process has not called before, and `known()` what any may have.
CALLS = """
import itertools, os, sys
import numpy as np
import mdtensor as mdt

elements = np.arange(1.0, 9.0)
matrix = np.random.default_rng(0).random((40, 50))
constants = itertools.count(os.getpid() * 1000)

def known():
    assert np.allclose(mdt.einsum("ij,kj->ik", matrix, matrix), matrix @ matrix.T, rtol=1e-12)
    assert np.array_equal(mdt.reduce("ij->i", matrix, combine="max"), matrix.max(1))

def new():
    constant = next(constants) + 0.5
    found = mdt.reduce("i->", elements, f=lambda x: x * constant)
    assert found == sum(element * constant for element in elements.tolist()), found
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its exit code, or None where it hung; and what it wrote."""

    code: int | None
    shown: str
    trouble: str

    def is_clean(self, code: int = 0) -> bool:
        """Whether it ended by this exit code, without an error of Python's."""
        return self.code == code and not any(
            word in self.trouble for word in ("Traceback", "Fatal", "Exception ignored")
        )


def started(program: str, cache: Path, *arguments: object) -> Process:
    """A process of a program behind `CALLS`, in a group of its own, whose cache is in a folder."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore::UserWarning", "-c", CALLS + program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "MDTENSOR_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(cache.parent)},
    )


def where(pid: int) -> str:
    """Where the threads of a process stand, as gdb tells it; and what they wait for, by Linux."""
    found = [f"{file}: {file.read_text()}" for file in Path(f"/proc/{pid}/task").glob("*/wchan")]
    words = "-p", f"{pid}", "-batch", "-ex", "thread apply all backtrace 25"
    with suppress(OSError, children.ChildError):
        found.append(children.run(*words, executable="gdb", limit_s=60, code=None).out)
    return "\n".join(found)


def is_waiting_for_processors(pid: int) -> bool:
    """Whether a process could go on, had it a processor, and has worked for less than `LONGEST_S`.

    One whose threads wait for each other has none that could; one that runs without end works on.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        if (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") > LONGEST_S:
            return False
        for _ in range(200):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                if (thread / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[
                    0
                ] in "RD":
                    return True
            time.sleep(0.01)
    except OSError:  # it has ended, as a thread may
        return True
    return False


def ended(process: Process, longest_s: float = LONGEST_S) -> Ended:
    """Waits for the end of a process, and kills one that hangs.

    It has so many seconds, and as many again while others have the processors.
    """
    try:
        shown, trouble = process.communicate(timeout=longest_s)
    except subprocess.TimeoutExpired:
        if is_waiting_for_processors(process.pid):
            return ended(process, longest_s)
        found = where(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        shown, trouble = process.communicate()
        return Ended(None, shown, trouble[-_MOST_TROUBLE:] + found)
    return Ended(process.returncode, shown, trouble[-_MOST_TROUBLE:])
