"""Programs of winners, kept from one process to the next: lowered and compiled once.

The store has a winner's schedule. To lower its problem by it, and to write the program's text,
takes longer than to load machine code; so beside the store lie the programs themselves. Where
nobody tuned, what was chosen for a problem alone lies there too, since ranking takes as long.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import mdtensor
from mdtensor.backends.compiled import Compiled, Files, folder_of_kept
from mdtensor.backends.protocol import Device, Program
from mdtensor.errors import CompileError
from mdtensor.kernels.source import KernelSource
from mdtensor.lower.key import problem_key
from mdtensor.lower.problem import Problem
from mdtensor.lower.schedule import Schedule

K = TypeVar("K")

# Where problems become programs.
_FOLDERS = ("lower", "kernels", "backends", "translate")


@dataclass(frozen=True, slots=True)
class _Winner:
    """What a file holds: a key may be that of several problems, as one in the store may."""

    problem: Problem
    schedule: Schedule
    compiled: Compiled


@dataclass(frozen=True, slots=True)
class _Choice:
    """What a file holds: the schedule that was chosen for a problem, and how long it may take."""

    problem: Problem
    schedule: Schedule
    seconds: float


class Winners:
    """The programs of one device, in an environment that says what decides their machine code."""

    def __init__(self, device: Device, environment: str) -> None:
        self._device = device
        self._environment = environment

    def program(
        self, problem: Problem, schedule: Schedule, source: Callable[[], KernelSource]
    ) -> tuple[KernelSource, Program]:
        """The program of a problem by a schedule, as it was kept; else compiled now, and kept.

        Raises what `source` raises, and CompileError.
        """
        kept = self._kept(problem, schedule)
        if kept is not None:
            with suppress(CompileError):  # another driver by the same name and number
                return kept.source, self._device.load(kept)
        compiled = self._made(problem, schedule, source)
        return compiled.source, self._device.load(compiled)

    def compiled(
        self, problem: Problem, schedule: Schedule, source: Callable[[], KernelSource]
    ) -> Compiled:
        """The same as machine code, for threads that leave the device alone."""
        return self._kept(problem, schedule) or self._made(problem, schedule, source)

    def _kept(self, problem: Problem, schedule: Schedule) -> Compiled | None:
        kept = _loaded(self._programs().get(self._key_of_program(problem, schedule)), _Winner)
        if kept is None or (kept.problem, kept.schedule) != (problem, schedule):
            return None
        return kept.compiled

    def _made(
        self, problem: Problem, schedule: Schedule, source: Callable[[], KernelSource]
    ) -> Compiled:
        compiled = self._device.compiled(source())
        content = pickle.dumps(_Winner(problem, schedule, compiled))
        self._programs().put(self._key_of_program(problem, schedule), content)
        return compiled

    def _programs(self) -> Files:
        return Files(folder_of_kept("winners"))

    def _key_of_program(self, problem: Problem, schedule: Schedule) -> str:
        return f"{self._key(problem)}\n{schedule.to_json()}"

    def choice(self, problem: Problem) -> tuple[float, Schedule] | None:
        """The schedule that an earlier process chose for a problem, and its expected seconds."""
        kept = _loaded(Files(folder_of_kept("choices")).get(self._key(problem)), _Choice)
        if kept is None or kept.problem != problem:
            return None
        return kept.seconds, kept.schedule

    def keep_choice(self, problem: Problem, seconds: float, schedule: Schedule) -> None:
        """Keeps a schedule that was chosen, for later processes."""
        content = pickle.dumps(_Choice(problem, schedule, seconds))
        Files(folder_of_kept("choices")).put(self._key(problem), content)

    def _key(self, problem: Problem) -> str:
        head = self._environment, _state_of_the_code(), *problem.labels
        return "\n".join((*head, problem_key(problem)))


def _loaded(content: bytes | None, kind: type[K]) -> K | None:
    """What a file holds; None where nothing is kept that this code can read.

    A process that began before mdtensor was replaced may have kept its own classes under a key of
    the new files.
    """
    if content is None:
        return None
    try:
        kept = pickle.loads(content)
    except Exception:  # whatever the classes of other code raise
        return None
    return kept if isinstance(kept, kind) else None


@cache
def _state_of_the_code() -> str:
    """What changes when the files do that make programs: as for bytecode, their times and sizes."""
    found = [mdtensor.__version__]
    for folder in _FOLDERS:
        files = list(_files(os.path.join(os.path.dirname(mdtensor.__file__), folder)))
        times, sizes = (sum([f.st_mtime_ns for f in files]), sum([f.st_size for f in files]))
        found.append(f"{len(files)} files {times} {sizes}")
    return ", ".join(found)


def _files(folder: str) -> Iterator[os.stat_result]:
    """The files of Python in a folder and those below."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.stat()
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)
