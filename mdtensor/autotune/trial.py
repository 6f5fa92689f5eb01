"""The result of measuring one configuration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from mdtensor.dataclass import dataclass
from mdtensor.errors import TuningError

if TYPE_CHECKING:
    from mdtensor.autotune.space.space import Configuration

Status: TypeAlias = Literal["ok", "wrong", "crashed", "timeout", "compile_error", "rejected"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of one measurement; only status `"ok"` has valid seconds.

    `seconds` is the time of one execution, `spread` how far its repetitions lie apart (in
    seconds), `detail` a text for people: the compiler's message, the largest error, the signal.
    Raises `TuningError` for an unknown status, or for one that is ok without a time.
    """

    status: Status
    seconds: float | None = None
    spread: float | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise TuningError(f"unknown status {self.status!r}", hint=f"one of {STATUSES}")
        if self.status == "ok" and not (self.seconds is not None and 0 <= self.seconds < math.inf):
            raise TuningError(f"a trial that is ok needs its time, not {self.seconds!r} seconds")

    @property
    def cost(self) -> float:
        """Seconds of a valid trial, else infinity."""
        if self.status != "ok" or self.seconds is None:
            return math.inf
        return self.seconds


@dataclass(frozen=True, slots=True)
class Measured:
    """A configuration, its trial, who proposed it, and when (seconds since the search began)."""

    configuration: Configuration
    trial: Trial
    proposer: str
    elapsed: float
