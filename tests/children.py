"""Child processes of tests, each in a group of its own, with a limit and a traceback at its end.

A child that exceeds its limit is told to abort, as is what it began, so that `faulthandler` shows
where all their threads are, and its whole group is killed. What it said is never lost.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
STDOUT = subprocess.STDOUT  # of `stderr`: what goes there is `out`, too
LIMIT_S = 150.0  # less than faulthandler_timeout of pytest, which says nothing of children
_LAST_WORDS_S = 5.0


class ChildError(AssertionError):
    """A child that did not end by itself, or not as it should have."""


@dataclass(frozen=True)
class Ended:
    """A child that ended: its exit code (negative: a signal) and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output, line by line."""
        return self.out.splitlines()


@contextlib.contextmanager
def started(
    *arguments: str | Path,
    env: Mapping[str, str | Path] | None = None,
    cwd: Path = ROOT,
    **options: object,
) -> Iterator[subprocess.Popen[str]]:
    """`python ARGUMENTS…` with pipes of text; its group is killed at the end of the block.

    `env` is added to this process's environment; a variable of it that is empty is taken away.
    Options are those of `subprocess.Popen`: `executable` is another program than Python.
    """
    # What tests of a child come to is no outcome of the tests here.
    merged = {**os.environ, "PYTHONFAULTHANDLER": "1", "MDTENSOR_TEST_OUTCOMES": "", **(env or {})}
    given = {name: value for name, value in merged.items() if value or name not in (env or {})}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    child: subprocess.Popen[str] = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        **(pipes | options),  # pyright: ignore[reportArgumentType, reportCallIssue]
        env=given,
        cwd=cwd,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        child.wait()


def finished(child: subprocess.Popen[str], said: str = "", limit_s: float = LIMIT_S) -> Ended:
    """What becomes of a child that was started and gets this on its standard input."""
    try:
        out, err = child.communicate(said, timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGABRT)
        try:
            out, err = child.communicate(timeout=_LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
        raise ChildError(f"no end within {limit_s:g} s\n{out}\n{err}") from None
    return Ended(child.returncode, out or "", err or "")


def run(
    *arguments: str | Path,
    said: str = "",
    limit_s: float = LIMIT_S,
    code: int | None = 0,
    env: Mapping[str, str | Path] | None = None,
    cwd: Path = ROOT,
    **options: object,
) -> Ended:
    """Runs `python ARGUMENTS…` to its end; ChildError where the exit code is another.

    `code` None takes any. `run("-c", program)` runs a program.
    """
    with started(*arguments, env=env, cwd=cwd, **options) as child:
        end = finished(child, said, limit_s)
    if code is not None and end.code != code:
        raise ChildError(f"ended with {end.code}, not {code}\n{end.out}\n{end.err}")
    return end
