"""Declarations of tuning parameters as dataclass fields: default, range, text and scope.

Schedules' texts, JSON, validation, and the copied parts of configurations follow from these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields
from functools import cache
from operator import attrgetter
from typing import Any, cast

from mdtensor.dataclass import dataclass

_KEY = "declaration"


@dataclass(frozen=True, slots=True)
class Declaration:
    """The metadata of a tuning parameter: its neutral value, range, text and scope.

    `text` describes a value other than the neutral one; `{}` in it stands for that value. A tuple
    has one entry for each of `entries` ("dims", "streams"), or none at all where `entries` is "".
    Numbers, and those in tuples, are `least` to `most`; texts are one of `choices`. Numbers up to
    `idle` mean what the neutral value means. Parameters `of_resident` schedules are neutral in all
    others, and on devices other than those named, if any. Those that are `copied` have the same
    name and value in configurations of search spaces. Searches try `values`; the spaces of the
    devices where it is `free` have it with all of them, whatever else a schedule says.
    """

    neutral: Any = None
    text: str = ""
    entries: str = ""
    least: int = 0
    most: int | None = None
    choices: tuple[str, ...] = ()
    idle: int = 0
    of_resident: bool = False
    devices: tuple[str, ...] = ()
    copied: bool = False
    values: tuple[Any, ...] = ()
    free: tuple[str, ...] = ()

    @property
    def tried(self) -> tuple[Any, ...]:
        """The values that searches try: those declared, all choices, or both of a flag."""
        return self.values or self.choices or ((False, True) if self.neutral is False else ())

    def is_neutral(self, value: Any) -> bool:
        """Whether a value is equivalent to the neutral one."""
        if isinstance(value, int) and not isinstance(value, bool):
            return value <= self.idle
        if isinstance(value, tuple):
            return not any(cast("tuple[int, ...]", value))
        return value == self.neutral

    def described(self, value: Any, by_dim: Callable[[tuple[int, ...]], str]) -> str:
        """The text of a value; `by_dim` formats entries of dims, others are numbered by stream."""
        if self.entries == "dims":
            return self.text.format(by_dim(value))
        if self.entries == "streams":
            return self.text.format(" ".join(_of_stream(n, v) for n, v in enumerate(value) if v))
        return self.text.format(value)

    def fault(self, name: str, value: Any, counts: Mapping[str, int]) -> str:
        """The error message for a value out of range; "" for a valid one."""
        if self.choices:
            return "" if value in self.choices else f"schedule.{name} is none of {self.choices}"
        if self.entries and len(value) not in (0, counts[self.entries]):
            return f"schedule.{name} needs {counts[self.entries]} entries or none"
        numbers = cast("tuple[int, ...]", value if isinstance(value, tuple) else (value,))
        if all(self._holds(number) for number in numbers):
            return ""
        if self.most is None:
            return f"schedule.{name} is at least {self.least}"
        return f"schedule.{name} is between {self.least} and {self.most}"

    def _holds(self, number: int) -> bool:
        return number >= self.least and (self.most is None or number <= self.most)


def _of_stream(number: int, value: int | bool) -> str:
    return str(number) if value is True else f"{number}:{value}"


def tuned(neutral: Any, text: str = "", **facts: Any) -> Any:
    """A dataclass field that declares a tuning parameter; `facts` are fields of Declaration."""
    return field(default=neutral, metadata={_KEY: Declaration(neutral, text, **facts)})


@cache
def declarations_of(kind: type) -> Mapping[str, Declaration]:
    """The declared tuning parameters of a dataclass, in order."""
    return {each.name: each.metadata[_KEY] for each in fields(kind) if each.default is not MISSING}


def tried(kind: type, name: str) -> tuple[Any, ...]:
    """The values of a tuning parameter that searches try."""
    return declarations_of(kind)[name].tried


def free_on(kind: type, device: str) -> dict[str, Declaration]:
    """The tuning parameters that are searched on a device."""
    return {name: each for name, each in declarations_of(kind).items() if device in each.free}


@cache
def _reader_of(kind: type) -> Callable[[object], tuple[Any, ...]]:
    return attrgetter(*declarations_of(kind))


def changed(schedule: object) -> list[tuple[str, Declaration, Any]]:
    """The tuning parameters with other than neutral values: name, declaration, value."""
    declared = declarations_of(type(schedule)).items()
    values = _reader_of(type(schedule))(schedule)
    return [
        (name, declaration, value)
        for (name, declaration), value in zip(declared, values, strict=True)
        if value != declaration.neutral
    ]


def copied_to(schedule: object) -> dict[str, Any]:
    """A schedule's copied parameters as part of a configuration."""
    return {
        name: declared.neutral if declared.is_neutral(value) else value
        for name, declared in declarations_of(type(schedule)).items()
        if declared.copied
        for value in (getattr(schedule, name),)
    }


def copied_from(
    configuration: Mapping[str, Any], kind: type, *, resident: bool = False
) -> dict[str, Any]:
    """The copied parameters of a configuration, as fields of a schedule."""
    return {
        name: configuration[name]
        for name, declared in declarations_of(kind).items()
        if declared.copied and name in configuration and (resident or not declared.of_resident)
    }
