"""Shell commands as cost functions: a number that they print, or their run time."""

from __future__ import annotations

import os
import re
import shlex
import signal
import string
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from mdtensor.autotune.space.space import Configuration
from mdtensor.autotune.trial import Trial
from mdtensor.dataclass import dataclass
from mdtensor.errors import TuningError
from mdtensor.tuner.costs import invalid, trial_of

_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_MOST_PRINTED = 1 << 20  # bytes that are read of what a command printed last
_DETAIL = 2000  # characters


@dataclass(frozen=True, slots=True)
class Command:
    """A cost function that runs a command for each configuration (002, section 5.6.1).

    `run`, and `build` before it, are a list of arguments, or a text that is split into these as a
    shell would. `{tile}` in them stands for the value of the parameter of that name, as in
    `str.format`. No shell sees them, unless the command is one.

    The cost is the `"time"` of `run` in seconds, the least of as many runs as `repeats` says; or
    the last number that is `"printed"` to standard output; or what the only group of another
    regular expression found there last, such as `r"took (.*) ms"`.

    A command that fails makes its configuration invalid, and so does one that takes longer than
    `timeout_s`: it is killed, with all that it started. `folder` is where they run,
    `environment` has further variables.

    >>> from mdtensor.tuner import Parameter, Space, search
    >>> space = Space([Parameter("n", range(10))])
    >>> cost = Command("expr 1 + {n} % 4", cost="printed", timeout_s=10)
    >>> search(space, cost, "exhaustive").best.configuration
    {'n': 0}
    >>> Command("sleep {n}", timeout_s=0.2)({"n": 30}).status
    'timeout'

    Raises `TuningError` for a parameter that there is not, a command that is not found, and a
    regular expression that has not one group.
    """

    run: str | Sequence[str]
    build: str | Sequence[str] | None = None
    cost: str = "time"
    timeout_s: float = 60.0
    repeats: int = 1
    folder: str | Path | None = None
    environment: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.cost in ("time", "printed"):
            return
        try:
            groups = re.compile(self.cost).groups
        except re.error as error:
            raise TuningError(f"{self.cost!r} is no regular expression: {error}") from None
        if groups != 1:
            raise TuningError(
                f"{self.cost!r} has {groups} groups",
                hint="'time', 'printed', or a regular expression with the number in its only group",
            )

    def __call__(self, configuration: Configuration) -> Trial:
        """Build, run, and read the cost."""
        if self.build is not None:
            built = self._done(self.build, configuration)
            if isinstance(built, Trial):
                return Trial("compile_error", detail=built.detail)
        seconds: list[float] = []
        printed: list[float] = []
        for _ in range(max(1, self.repeats)):
            done = self._done(self.run, configuration)
            if isinstance(done, Trial):
                return done
            seconds.append(done[0])
            if self.cost != "time":
                number = self._read(done[1])
                if number is None:
                    return invalid(f"no cost in what was printed: {done[1][-_DETAIL:]!r}", "wrong")
                printed.append(number)
        costs = printed or seconds
        found = trial_of(min(costs))
        if found.status != "ok":
            return found
        return Trial("ok", found.seconds, max(costs) - min(costs))

    def _read(self, text: str) -> float | None:
        found: list[str] = re.findall(_NUMBER if self.cost == "printed" else self.cost, text)
        if not found:
            return None
        try:
            return float(found[-1])
        except ValueError:
            return None

    def _done(
        self, command: str | Sequence[str], configuration: Configuration
    ) -> tuple[float, str] | Trial:
        """Run a command: its seconds and output, or a failed trial."""
        arguments = _arguments(command, configuration)
        environment = {**os.environ, **(self.environment or {})}
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            began = time.perf_counter()
            try:
                process = subprocess.Popen(
                    arguments,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    cwd=self.folder,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise TuningError(f"cannot run {shlex.join(arguments)}: {error}") from None
            late = threading.Event()
            timer = threading.Timer(self.timeout_s, _kill, (process, late))
            timer.start()
            try:
                code = process.wait()  # with a time-out, it would be asked every 50 ms only
                seconds = time.perf_counter() - began
            finally:
                timer.cancel()
                _kill(process)
            text, said = _text(output), _text(errors)
        if late.is_set():
            return invalid(f"killed after {self.timeout_s:g} s", "timeout")
        if code:
            how = f"exit status {code}" if code > 0 else signal.strsignal(-code)
            return invalid(f"{how}\n{said or text}"[-_DETAIL:], "crashed")
        return seconds, text


def _arguments(command: str | Sequence[str], configuration: Configuration) -> list[str]:
    parts = shlex.split(command) if isinstance(command, str) else command
    try:
        return [string.Formatter().vformat(part, (), configuration) for part in parts]
    except (KeyError, IndexError, ValueError) as error:
        raise TuningError(
            f"in the command {command!r}: {error!r} is no parameter",
            hint=f"of {', '.join(configuration)}; braces of the command's own are doubled",
        ) from None


def _kill(process: subprocess.Popen[bytes], late: threading.Event | None = None) -> None:
    """Kill the process group of a command; `late` is set by the timer after a timeout."""
    if late is not None:
        late.set()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if late is None:
        process.wait()


def _text(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _MOST_PRINTED))
    return file.read().decode("utf-8", "replace")
