"""Tuning: what is searched for in a budget, for which arrays, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mdtensor.api import pipeline
from mdtensor.api.budget import seconds_of
from mdtensor.api.engine import Engine
from mdtensor.api.measurer import Measurer
from mdtensor.api.modes import Recorded, Recording, Steps
from mdtensor.api.places import at
from mdtensor.api.schedule_search import searched
from mdtensor.api.whole_calls import keep_what_is_fastest
from mdtensor.autotune.progress import Progress
from mdtensor.closing import Closing
from mdtensor.errors import TuningError, count_of, shown
from mdtensor.lower.key import problem_key
from mdtensor.lower.work import bytes_moved, flops
from mdtensor.translate.md_hom import MDHom

# Of a budget, what is shared evenly, and what confirming calls of several programs may take.
_EVENLY = 0.25
_CALLS_SHARE = 0.12


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
        trials = count_of(self.trials, "trial", "trials")
        return f"{self.label}: {best} after {trials} in {self.elapsed:.0f} s{note}"


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
    CuPy on the CUDA device where they were; devices of one kind share what is found. The budget is
    seconds or a text such as "5min"; a quarter is shared evenly, the rest by the time that each is
    expected to take, and what one computation leaves goes to the others. Where a call runs several
    of them, the whole call by what was found takes turns with the call untuned and with mixtures,
    and what is fastest is kept. Computations with a confirmed winner are skipped unless `again`,
    which goes on searching where the last search ended. Ctrl-C ends the search and keeps what was
    measured. Results are in the store when this returns.

    Raises TuningError for what was not recorded, and for a budget that is no time.

    >>> import mdtensor, numpy as np
    >>> with mdtensor.tuning("record") as seen:
    ...     _ = mdtensor.einsum("ij,j->i", np.ones((3, 4), "f4"), np.ones(4, "f4"))
    >>> reports = tune(seen, budget=1, quiet=True)  # one for each computation
    >>> [report.label for report in reports]
    ['md_hom[i:3, j:4](mul, (cc, pw(add)))']
    """
    items = _recorded(work)
    calls = _whole_calls(items)
    for_calls = _CALLS_SHARE * seconds_of(budget) if calls else 0.0
    left = seconds_of(budget) - for_calls
    weights = _weights(items)
    reports: list[TuningReport] = []
    with Measurers(seconds_of(budget)) as measurers:
        for number, item in enumerate(items):
            share = left * weights[number] / sum(weights[number:])
            with at(item.device):
                report = _tuned(item, share, measurers, quiet=quiet, again=again)
            reports.append(report)
            left -= report.elapsed
            if report.interrupted:
                return reports
        found = {item for item, report in zip(items, reports, strict=True) if not report.cached}
        for steps, arrays, device in calls:
            place = arrays, device
            if any(steps in item.within and (item.arrays, item.device) == place for item in found):
                with at(device):
                    _confirm(steps, arrays, for_calls / len(calls), measurers)
    return reports


def _whole_calls(items: Sequence[Recorded]) -> list[tuple[Steps, str, int | None]]:
    """The calls of several programs of which some are to be tuned, and where."""
    found = [(steps, item.arrays, item.device) for item in items for steps in item.within]
    return [*dict.fromkeys(found)]


def _weights(items: Sequence[Recorded]) -> list[float]:
    """The shares of a budget: a quarter of all evenly, the rest by what each has to compute."""
    expected: list[float] = []
    for item in items:
        with at(item.device):
            engine = pipeline.engine_for(item.arrays)
        problem, target = engine.problem_of(item.md_hom), engine.target
        expected.append(flops(problem) / target.rate + bytes_moved(problem) / target.bandwidth)
    total = sum(expected) or 1.0
    return [_EVENLY / len(items) + (1 - _EVENLY) * one / total for one in expected]


def _confirm(steps: Steps, arrays: str, budget: float, measurers: Measurers) -> None:
    """Keeps what makes a call of several programs fastest as a whole."""
    engine = pipeline.engine_for(arrays)
    if keep_what_is_fastest(engine, steps, budget, measurers.of(engine, arrays)):
        pipeline.forget()


def _recorded(work: Any) -> list[Recorded]:
    """What is to be tuned, one by one."""
    items: list[Any] = [*work] if hasattr(work, "__iter__") else [work]
    for item in items:
        if not isinstance(item, Recorded):
            raise TuningError(
                f"{shown(work if isinstance(work, str) else item)} is nothing that was recorded",
                hint="what `with mdtensor.tuning('record') as seen:` gave; "
                "a plan is tuned by plan.tune()",
            )
    return items


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
    """One measurer for each device, made when first needed, for a budget in all."""

    def __init__(self, budget: float) -> None:
        self._budget = budget
        self._made: dict[int, Measurer] = {}  # by their engines

    def of(self, engine: Engine, arrays: str) -> Measurer:
        """The measurer of an engine's device."""
        if id(engine) not in self._made:
            device = pipeline.device_name(arrays)
            self._made[id(engine)] = Measurer(engine, device, self._budget)
        return self._made[id(engine)]

    def close(self) -> None:
        """Ends the processes of all of them."""
        for measurer in self._made.values():
            measurer.close()


def _tuned(
    item: Recorded, budget: float, measurers: Measurers, *, quiet: bool, again: bool
) -> TuningReport:
    engine = pipeline.engine_for(item.arrays)
    problem = engine.problem_of(item.md_hom)
    known = engine.store.winner(problem_key(problem), engine.environment)
    if known is not None and known.confirmed and not again:
        return TuningReport(item.label, 0, 0, known.seconds, 0.0, True, False)
    started = time.monotonic()
    with Progress(budget_s=budget, title=item.label, quiet=quiet) as progress:
        measurer = measurers.of(engine, item.arrays)
        outcome, best = searched(engine, problem, budget, progress, measurer)
    pipeline.forget()
    if not outcome.interrupted:
        engine.tuned(problem)  # which keeps its program for other processes
    made = [measured for measured in outcome.trials if measured.trial.status != "rejected"]
    failed = sum(measured.trial.status != "ok" for measured in made)
    elapsed = time.monotonic() - started
    return TuningReport(item.label, len(made), failed, best, elapsed, False, outcome.interrupted)
