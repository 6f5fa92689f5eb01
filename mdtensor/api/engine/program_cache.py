"""The program cache: machine code of tuned problems, shared between processes.

The store has a winner's schedule. To lower its problem by it, and to write the program's text,
takes longer than to load machine code; so beside the store lie the programs themselves, with what
a launch must know of them. Where nobody tuned, what was chosen for a problem alone is kept, too,
since ranking takes as long.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import mdtensor
from mdtensor.api.engine.scratch_bound import fits_scratch_limit
from mdtensor.autotune.store.store import Store
from mdtensor.backends.host.binary_cache import (
    BlobStore,
    Compiled,
    folder_of_kept,
    joined,
    machine_code,
    resources_of,
    split,
)
from mdtensor.backends.protocol import CompiledProgram, ComputeDevice
from mdtensor.bounded import Bounded
from mdtensor.errors import CompileError, LoweringError
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.plain_data import data_of, digest_of, value_of
from mdtensor.stage_timer import stage

_MOST_FOUND = 64  # programs that stay in memory for calls to come
# Where problems become programs.
_FOLDERS = ("lower", "kernels", "backends", "translate")


class Winners:
    """The machine code of one device's tuned problems, keyed by an environment fingerprint."""

    def __init__(self, device: ComputeDevice, environment: str, store: Callable[[], Store]) -> None:
        self._device = device
        self._environment = environment
        self._store = store
        # Programs that this process made while it looked for winners, by problems and schedules.
        self._found = Bounded[tuple[Problem, Schedule], tuple[KernelSource, CompiledProgram]](
            _MOST_FOUND
        )
        # Keys of problems, each of which is asked for several things in a row.
        self._keys = Bounded[Problem, str](_MOST_FOUND)

    def program(
        self, problem: Problem, schedule: Schedule, source: Callable[[], KernelSource]
    ) -> tuple[KernelSource, CompiledProgram]:
        """The program of a problem by a schedule: from the cache, or compiled now and cached.

        Raises what `source` raises, and CompileError.
        """
        if (found := self._found.get((problem, schedule))) is not None:
            return found
        kept = self.kept_program(problem, schedule)
        return kept or self._loaded(self._made(problem, schedule, source))

    def kept_program(
        self, problem: Problem, schedule: Schedule
    ) -> tuple[KernelSource, CompiledProgram] | None:
        """The cached program of an earlier process; None where none can be loaded."""
        kept = self._kept(problem, schedule)
        if kept is not None:
            with suppress(CompileError):  # another driver by the same name and number
                return self._loaded(kept)
        return None

    def _loaded(self, compiled: Compiled) -> tuple[KernelSource, CompiledProgram]:
        source = compiled.source
        return source, self._device.load(compiled, [1] * len(source.sizes))

    def keep_program(
        self, problem: Problem, schedule: Schedule, source: KernelSource, program: CompiledProgram
    ) -> None:
        """Caches the program of a winner-to-be, so that no call waits for a compiler."""
        self._found.keep((problem, schedule), (source, program))
        self.keep_code(problem, schedule, source)

    def keep_code(self, problem: Problem, schedule: Schedule, source: KernelSource) -> None:
        """Caches the machine code of a source, for later processes."""
        machine = self._device.binaries.get(self._device.machine_code_key(source))
        if machine is not None:
            content = content_of(Compiled(source, machine))
            self._programs().put(self._key_of_program(problem, schedule), content)

    def compiled(
        self, problem: Problem, schedule: Schedule, source: Callable[[], KernelSource]
    ) -> Compiled:
        """The machine code of a problem by a schedule, for threads that may not use the device."""
        return self._kept(problem, schedule) or self._made(problem, schedule, source)

    def _kept(self, problem: Problem, schedule: Schedule) -> Compiled | None:
        kept = compiled_from(self._programs().get(self._key_of_program(problem, schedule)))
        if kept is None or problem.is_general:
            return kept
        if fits_scratch_limit(kept.source, (), lambda: problem):
            return kept
        return None  # and says why where it is lowered

    def _made(
        self, problem: Problem, schedule: Schedule, source: Callable[[], KernelSource]
    ) -> Compiled:
        text = source()
        with stage("compile"):
            compiled = self._device.compiled(text)
        self._programs().put(self._key_of_program(problem, schedule), content_of(compiled))
        return compiled

    def _programs(self) -> BlobStore:
        return BlobStore(folder_of_kept("tuned"))

    def _key_of_program(self, problem: Problem, schedule: Schedule) -> str:
        return f"{self._key(problem)}\n{schedule.to_json()}"

    def choice(self, problem: Problem) -> tuple[float, Schedule] | None:
        """The cached schedule of a problem, and its expected seconds; None without one."""
        row = self._store().choice(self._key(problem))
        if row is None:
            return None
        try:
            return row.seconds, Schedule.from_json(row.schedule)
        except LoweringError:
            return None

    def keep_choice(self, problem: Problem, seconds: float, schedule: Schedule) -> None:
        """Caches a chosen schedule, for later processes."""
        self._store().keep_choice(self._key(problem), schedule.to_json(), seconds)

    def _key(self, problem: Problem) -> str:
        """The cache key of a problem's program, without its schedule.

        The store's key is a line for people, under which a wrong schedule would be slow; a wrong
        program would be wrong.
        """

        def key() -> str:
            head = self._environment, _codegen_fingerprint()
            return "\n".join((*head, problem_key(problem), digest_of(problem)))

        return self._keys.made(problem, key)


def content_of(compiled: Compiled) -> bytes:
    """A program serialised for a file: the launch's metadata as JSON, then the machine code."""
    facts = {"source": data_of(compiled.source), **resources_of(compiled.machine)}
    return joined(facts, compiled.machine.code)


def compiled_from(content: bytes | None) -> Compiled | None:
    """The program read from a file; None where this version cannot read it."""
    found = split(content)
    if found is None:
        return None
    facts, code = found
    machine = machine_code(facts, code)
    try:
        source = value_of(KernelSource, facts.get("source"))
    except ValueError:
        return None
    return None if machine is None else Compiled(source, machine)


@cache
def _codegen_fingerprint() -> str:
    """The fingerprint of the code generator: its version, and its files' times and sizes."""
    found = [mdtensor.__version__]
    for folder in _FOLDERS:
        files = list(_files(os.path.join(os.path.dirname(mdtensor.__file__), folder)))
        times, sizes = (sum([f.st_mtime_ns for f in files]), sum([f.st_size for f in files]))
        found.append(f"{len(files)} files {times} {sizes}")
    return ", ".join(found)


def _files(folder: str) -> Iterator[os.stat_result]:
    """The Python files in a folder and its subfolders; in a zip archive, the archive."""
    try:
        entries = list(os.scandir(folder))
    except NotADirectoryError:
        yield next(each for each in Path(folder).parents if each.is_file()).stat()
        return
    for entry in entries:
        if entry.name.endswith(".py"):
            yield entry.stat()
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _files(entry.path)
