"""Files of default schedules as JSON: the winners on a class of devices, by problem structure.

They hold facts only, and may be anybody's: what is read has the types that it should have, or is
refused. A schedule is checked against the rules of a problem before it is used, like every other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from mdtensor.autotune.store.rows import WinnerRow
from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError, StoreError, tell
from mdtensor.lower.problem.problem_key import CODE_GENERATION, structure_in_key
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.paths import read_regular, write_whole
from mdtensor.plain_data import data_of, value_of
from mdtensor.specs import Target

KIND, VERSION = "mdtensor defaults", 1
FOLDER = Path(__file__).parent
_MOST_BYTES = 16 << 20
_MOST_CHARACTERS = 1 << 14  # of a problem's key
_MOST_WINNERS = 256  # of a structure in a file, the newest


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """The device facts that decide whether schedules carry over."""

    kind: str
    name: str
    dialect: str
    cores: int
    vector_bytes: int

    @classmethod
    def of(cls, target: Target) -> DeviceClass:
        """The class of a device."""
        return cls(target.kind, target.name, target.dialect, target.cores, target.vector_bytes)

    def serves(self, target: Target) -> bool:
        """Whether this class's schedules may suit a device: same kind, same vector width."""
        return (self.kind, self.vector_bytes) == (target.kind, target.vector_bytes)

    def distance(self, target: Target) -> tuple[bool, bool, float]:
        """A device's distance, as a sort key: other name, other dialect, ratio of core counts."""
        cores = abs(math.log2(max(1, self.cores) / max(1, target.cores)))
        return self.name != target.name, self.dialect != target.dialect, cores


@dataclass(frozen=True, slots=True)
class DefaultWinner:
    """A problem's key with its best schedule, and the seconds measured on the original device."""

    problem: str
    seconds: float
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class DefaultsOfStructure:
    """The winners for all shapes of one problem structure."""

    structure: str
    winners: tuple[DefaultWinner, ...]


@dataclass(frozen=True, slots=True)
class Defaults:
    """The content of a defaults file; `generator` is the code generator's version."""

    kind: str
    version: int
    generator: int
    device: DeviceClass
    structures: tuple[DefaultsOfStructure, ...]

    def rows(self) -> list[WinnerRow]:
        """The winners as store rows, in an environment that no device has."""
        environment = f"defaults of {self.device.name} x{self.device.cores}"
        return [
            WinnerRow(
                each.problem,
                environment,
                each.schedule.to_json(),
                each.seconds,
                trials=0,
                search_seconds=0.0,
                confirmed=True,
                created=0.0,
            )
            for structure in self.structures
            for each in structure.winners
        ]


def defaults_of(rows: Iterable[WinnerRow], target: Target) -> Defaults:
    """The defaults from a device's confirmed winners; rows without a valid schedule are skipped."""
    found: dict[str, list[DefaultWinner]] = {}
    for row in sorted(rows, key=lambda row: row.created):
        with suppress(LoweringError):
            schedule = Schedule.from_json(row.schedule)
            if row.confirmed and schedule.asm == target.kind:
                winner = DefaultWinner(row.problem, float(row.seconds), schedule)
                found.setdefault(structure_in_key(row.problem), []).append(winner)
    structures = tuple(
        DefaultsOfStructure(structure, tuple(found[structure][-_MOST_WINNERS:]))
        for structure in sorted(found)
    )
    return Defaults(KIND, VERSION, CODE_GENERATION, DeviceClass.of(target), structures)


def text_of(defaults: Defaults) -> str:
    """The text of a file of defaults: JSON with one winner on each line."""
    head = data_of(defaults) | {"structures": []}
    groups: list[str] = []
    for each in defaults.structures:
        winners = ",\n  ".join(_line_of(winner) for winner in each.winners)
        name = json.dumps(each.structure)
        groups.append(f'{{"structure": {name}, "winners": [\n  {winners}]}}')
    text = json.dumps(head).removesuffix("[]}")
    return f"{text}[\n {f',{chr(10)} '.join(groups)}]}}\n"


def _line_of(winner: DefaultWinner) -> str:
    fields = {"problem": winner.problem, "seconds": winner.seconds}
    return json.dumps(fields | {"schedule": json.loads(winner.schedule.to_json())})


def defaults_in(text: str) -> Defaults:
    """Parse a defaults file's text, which is untrusted; `StoreError` says what is wrong."""
    try:
        found = value_of(Defaults, json.loads(text))
        if (found.kind, found.version) != (KIND, VERSION):
            raise ValueError(f"kind {found.kind!r:.40} of version {found.version}")
        for structure in found.structures:
            for winner in structure.winners:
                _check(winner)
        return found
    except (ValueError, RecursionError) as error:
        raise StoreError(f"no file of defaults: {error}") from None


def _check(winner: DefaultWinner) -> None:
    if not 0 < len(winner.problem) <= _MOST_CHARACTERS:
        raise ValueError(f"a problem of {len(winner.problem)} characters")
    if not 0 <= winner.seconds < math.inf:
        raise ValueError(f"{winner.seconds} seconds")


def read(file: Path) -> Defaults:
    """Read a defaults file; `StoreError` if it is unreadable or invalid."""
    try:
        return defaults_in(read_regular(file, _MOST_BYTES).decode("utf-8"))
    except StoreError as error:
        raise StoreError(f"{file}: {error.message}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"cannot read {file}: {reason}") from None


def write(file: Path, defaults: Defaults) -> None:
    """Write a defaults file atomically; `StoreError` where that is impossible."""
    write_whole(file, text_of(defaults), StoreError)


@cache
def shipped(folder: Path = FOLDER) -> tuple[Defaults, ...]:
    """All defaults files of a folder; damaged ones are skipped with one warning."""
    found: list[Defaults] = []
    for file in sorted(folder.glob("*.json")):
        try:
            found.append(read(file))
        except StoreError as error:
            tell(error)
    return tuple(found)


def default_winners(target: Target, files: Sequence[Defaults] | None = None) -> list[WinnerRow]:
    """The default winners for a device, from the nearest class of devices.

    Files of another version of the code generator are ignored.
    """
    files = shipped() if files is None else files
    fitting = [f for f in files if f.generator == CODE_GENERATION and f.device.serves(target)]
    if not fitting:
        return []
    return min(fitting, key=lambda file: file.device.distance(target)).rows()
