"""Tuning: what is searched for in a budget, for which arrays, and what came of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from mdtensor.api import pipeline
from mdtensor.api.engine import Engine
from mdtensor.api.measurer import Measurer
from mdtensor.api.modes import Recorded, Recording
from mdtensor.api.schedule_search import searched
from mdtensor.autotune.progress import Progress
from mdtensor.closing import Closing
from mdtensor.errors import TuningError
from mdtensor.lower.key import problem_key
from mdtensor.lower.problem import problem_from_md_hom
from mdtensor.translate.md_hom import MDHom

_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class TuningReport:
    """What tuning one computation did: trials made now, the winner's seconds, the time it took."""

    label: str
    trials: int
    failed: int
    seconds: float | None
    elapsed: float
    cached: bool
    interrupted: bool

    def __str__(self) -> str:
        if self.cached:
            return f"{self.label}: from the cache, 0 trials"
        best = "nothing found" if self.seconds is None else f"{self.seconds * 1e6:.1f} µs"
        note = ", interrupted" if self.interrupted else ""
        return f"{self.label}: {best} after {self.trials} trials in {self.elapsed:.0f} s{note}"


def seconds_of(budget: float | str) -> float:
    """A budget in seconds, from a number or a text such as "90", "30s" or "5min".

    >>> seconds_of("5min"), seconds_of(30)
    (300.0, 30.0)
    """
    if isinstance(budget, int | float):
        return float(budget)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", budget)
    if match is None or match[2] not in _UNITS:
        raise TuningError(f"budget {budget!r} is no time", hint="a number of seconds, or '5min'")
    return float(match[1]) * _UNITS[match[2]]


def tune(
    work: Recording | Recorded | Iterable[Recorded],
    budget: float | str = 60.0,
    *,
    quiet: bool = False,
    again: bool = False,
) -> list[TuningReport]:
    """Tunes what was recorded, within a budget for all of it together.

    `work` is what `with mdtensor.tuning("record") as seen:` gave, or some of it. Each computation
    is tuned for the arrays that it was called with: those of NumPy on the CPU device, those of
    CuPy on the current CUDA device. The budget is seconds or a text such as "5min"; it is shared
    evenly, and what one computation leaves goes to the others. Computations with a confirmed winner
    are skipped unless `again`, which goes on searching where the last search ended. Ctrl-C ends the
    search and keeps what was measured. Results are in the store when this returns.
    """
    items = [work] if isinstance(work, Recorded) else list(work)
    left = seconds_of(budget)
    reports: list[TuningReport] = []
    with Measurers() as measurers:
        for number, item in enumerate(items):
            share = left / (len(items) - number)
            report = _tuned(item, share, measurers, quiet=quiet, again=again)
            reports.append(report)
            left -= report.elapsed
            if report.interrupted:
                break
    return reports


def tune_md_hom(
    md_hom: MDHom,
    budget: float,
    *,
    label: str = "",
    quiet: bool = False,
    again: bool = False,
    arrays: str = "numpy",
) -> TuningReport:
    """Searches for the best schedule of one `md_hom` on the device of NumPy or CuPy arrays."""
    (report,) = tune(
        Recorded(md_hom, label or repr(md_hom), arrays), budget, quiet=quiet, again=again
    )
    return report


class Measurers(Closing):
    """One measurer for each kind of arrays, made when first needed."""

    def __init__(self) -> None:
        self._made: dict[str, Measurer] = {}

    def of(self, engine: Engine, arrays: str) -> Measurer:
        """The measurer of an engine's device."""
        if arrays not in self._made:
            self._made[arrays] = Measurer(engine, pipeline.device_name(arrays))
        return self._made[arrays]

    def close(self) -> None:
        """Ends the processes of all of them."""
        for measurer in self._made.values():
            measurer.close()


def _tuned(
    item: Recorded, budget: float, measurers: Measurers, *, quiet: bool, again: bool
) -> TuningReport:
    engine = pipeline.engine_for(item.arrays)
    problem = problem_from_md_hom(item.md_hom)
    known = engine.store.winner(problem_key(problem), engine.environment)
    if known is not None and known.confirmed and not again:
        return TuningReport(item.label, 0, 0, known.seconds, 0.0, True, False)
    started = time.monotonic()
    with Progress(budget_s=budget, title=item.label, quiet=quiet) as progress:
        measurer = measurers.of(engine, item.arrays)
        outcome, best = searched(engine, problem, budget, progress, measurer)
    pipeline.forget()
    made = [measured for measured in outcome.trials if measured.trial.status != "rejected"]
    failed = sum(measured.trial.status != "ok" for measured in made)
    elapsed = time.monotonic() - started
    return TuningReport(item.label, len(made), failed, best, elapsed, False, outcome.interrupted)
