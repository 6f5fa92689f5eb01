"""The subject of a report: a computation, its kernel, and its rows in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from mdtensor.api.arrays.device_scope import at
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import KernelChoice
from mdtensor.api.engine.tuning_mode import RecordedCall
from mdtensor.dataclass import dataclass
from mdtensor.errors import ArgumentError, shown
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.translate.md_hom import MDHom

if TYPE_CHECKING:
    from mdtensor.autotune.store.rows import ChoiceRow, TrialRow, WinnerRow
    from mdtensor.specs import Target

_LONGEST_S = 1e9  # seconds that a call of another library may take


@dataclass(frozen=True, slots=True)
class ReportSubject:
    """A computation's `md_hom`, its chosen kernel, and the device."""

    md_hom: MDHom
    choice: KernelChoice
    target: Target


@dataclass(frozen=True, slots=True)
class Subject:
    """A computation to report on: its label, its rows in the store, and its kernel.

    `problem` and `environment` are the store's keys. `kernel` is None where the store alone is
    asked. `before` is what the winner was compared with by turns, `calls` tells how often it was
    called while it was recorded, `peers` the seconds of others by name.
    """

    label: str
    problem: str
    environment: str
    trials: Sequence[TrialRow] = ()
    winner: WinnerRow | None = None
    kernel: ReportSubject | None = None
    before: ChoiceRow | None = None
    calls: int = 1
    peers: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def tuned(self) -> float | None:
        """The winner's seconds."""
        return None if self.winner is None else self.winner.seconds

    @property
    def untuned(self) -> float | None:
        """The seconds of the untuned kernel: timed against the winner, else the first trial's.

        Searches begin with it.
        """
        if self.before is not None:
            return self.before.seconds
        return next((row.seconds for row in self.trials if row.status == "ok"), None)

    @property
    def gain(self) -> float | None:
        """The winner's speed-up over the untuned kernel; None where either time is missing."""
        return self.untuned / self.tuned if self.untuned and self.tuned else None


def subjects_in_store() -> list[Subject]:
    """All subjects of the store, the last updated first."""
    store = registry.store()
    return [
        Subject(
            entry.problem,
            entry.problem,
            entry.environment,
            store.trials(entry.problem, entry.environment),
            entry.winner,
            before=store.untuned(entry.problem, entry.environment),
        )
        for entry in reversed(store.ls())
    ]


def subject_of_recorded(item: RecordedCall, peers: Mapping[str, float]) -> Subject:
    """The subject of a recorded computation, with the kernel that its calls run."""
    with at(item.device):
        engine = registry.engine_for(item.arrays)
        choice = registry.choice_for(item.md_hom, item.arrays)
    return subject_of(item.label, item.md_hom, choice, engine, peers, item.calls)


def subject_of(
    label: str,
    md_hom: MDHom,
    choice: KernelChoice,
    engine: Engine,
    peers: Mapping[str, float] | None = None,
    calls: int = 1,
) -> Subject:
    """The subject of a computation, from its chosen kernel and the store."""
    problem = engine.problem_of(md_hom)
    key, environment = problem_key(problem), engine.environment
    return Subject(
        label,
        key,
        environment,
        engine.store.trials(key, environment),
        engine.store.winner(key, environment),
        ReportSubject(md_hom, choice, engine.target),
        engine.store.untuned(key, environment),
        calls,
        peers or {},
    )


def checked_peers(given: object, count: int) -> dict[str, float]:
    """The seconds of other libraries by name, checked, for a report on `count` computations.

    Raises ArgumentError where they are none, or are for several computations together.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ArgumentError(f"peers is {shown(given)}", hint='{"numpy.einsum": 2e-6}')
    if count != 1:
        raise ArgumentError(f"peers are for one computation, and the report is on {count}")
    found: dict[str, float] = {}
    pairs: Mapping[Any, Any] = given  # pyright: ignore[reportUnknownVariableType]
    for name, seconds in pairs.items():
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not isinstance(name, str) or not is_number or not 0 < seconds <= _LONGEST_S:
            raise ArgumentError(
                f"peers has {shown(name)}: {shown(seconds)}",
                hint="a name, and the seconds that a call takes, such as 2e-6",
            )
        found[name] = float(seconds)
    return found
