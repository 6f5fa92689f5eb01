"""Tuning within a budget: the searches of recorded computations, and their reports."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mdtensor.api.arrays.device_scope import at
from mdtensor.api.engine import registry
from mdtensor.api.engine.budget import seconds_of
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.tuning_mode import RecordedCall, Recording, Steps
from mdtensor.api.tuning.call_search import keep_what_is_fastest
from mdtensor.api.tuning.measurer import Measurer
from mdtensor.api.tuning.schedule_search import searched
from mdtensor.api.tuning.search_options import SearchOptions
from mdtensor.api.tuning.tuning_report import TuningReport, TuningReports
from mdtensor.autotune.deadline import Deadline
from mdtensor.autotune.progress import ProgressLine
from mdtensor.autotune.search.abort_conditions import Condition
from mdtensor.autotune.search.techniques import MakeTechnique
from mdtensor.closing import Closing
from mdtensor.errors import TuningError, shown
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.problem.work import bytes_moved, flops
from mdtensor.options import flag, is_iterable

# Of a budget, what is shared evenly, and what confirming calls of several programs may take.
_EVENLY = 0.25
_CALLS_SHARE = 0.12
# Seconds that a search has at least; with less, there is none.
_LEAST, _TOO_LITTLE = 2.0, 0.3
# What the first search waits for processes.
_START = 1.5
# Of a call besides what it computes and moves, about.
_LAUNCH = 5e-6


def tune(
    work: Recording | RecordedCall | Iterable[RecordedCall],
    budget: float | str = 60.0,
    *,
    quiet: bool = False,
    again: bool = False,
    technique: str | MakeTechnique | None = None,
    abort: Condition | None = None,
    fixed: Mapping[str, object] | None = None,
    objective: str | Sequence[str] = "time",
) -> TuningReports:
    """Tunes recorded computations within one budget for all of them.

    `work` is what `with mdtensor.tuning("record") as seen:` gave, or some of it. Each computation
    is tuned for the arrays that it was called with: those of NumPy on the CPU device, those of
    CuPy on the CUDA device where they were; devices of one kind share what is found. The budget is
    seconds or a text such as "5min"; a quarter is shared evenly, the rest by the time that the
    calls of each are expected to take, and what one computation leaves goes to the others. It is
    kept within two seconds and what one trial takes. The ones that take longest come first; where
    it is too short for all, the others are left as they are, and their reports say so. Where a call
    runs several of them, the whole call by what was found takes turns with the call untuned and
    with mixtures, and what is fastest is kept. Computations with a confirmed winner are skipped
    unless `again`, which goes on searching where the last search ended. Ctrl-C ends the search and
    keeps what was measured. Results are in the store when this returns; the reports are in the
    order of what was recorded, and printed with numbers and a summary.

    `technique` is one of `mdtensor.tuner.TECHNIQUES`, `abort` a condition of `mdtensor.tuner` that
    ends the search of each computation before its budget does. `fixed` are values that schedules
    shall have, by the names of their fields. `objective` is what shall be small, or several, the
    most important first: "time", "compile_time", "scratch" (bytes), "energy". With either of these
    two a search is made whether there is a winner or not, and a report's `front` has what was
    found. Where time comes first, calls never take what is slower than before.

    Raises TuningError for what was not recorded, for a budget that is no time, and for names and
    values that searches do not have.

    >>> import mdtensor, numpy as np
    >>> from mdtensor.tuner import evaluations
    >>> with mdtensor.tuning("record") as seen:
    ...     _ = mdtensor.einsum("ij,j->i", np.ones((3, 4), "f4"), np.ones(4, "f4"))
    >>> reports = tune(seen, "1min", quiet=True, abort=evaluations(3))  # for each computation
    >>> [report.label for report in reports]
    ['md_hom[i:3, j:4](mul, (cc, pw(add)))']
    """
    deadline = Deadline(seconds_of(budget), Measurers.clock)
    items, again = recorded_items(work), flag("again", again)
    quiet = flag("quiet", quiet)
    options = SearchOptions.of(technique, abort, fixed, objective)
    if options.narrows:
        again = True
        for item in items:
            with at(item.device):
                engine = registry.engine_for(item.arrays)
            options.check(engine.problem_of(item.md_hom), engine.target)
    # What is there many times is looked up once.
    found = {id(item): _looked_up(item) for item in {id(item): item for item in items}.values()}
    reports = {n: None if again else found[id(item)][0] for n, item in enumerate(items)}
    weights = _weights([found[id(item)][1] for item in items])
    # The heaviest first, which are worth it most if the time is too short for all.
    waiting = sorted(
        (n for n, known in reports.items() if known is None), key=lambda n: -weights[n]
    )
    calls = _whole_calls([items[n] for n in waiting])
    for_calls = _CALLS_SHARE * deadline.left if calls else 0.0
    with Measurers(deadline.left, options.objectives) as measurers:
        for place, number in enumerate(waiting):
            left = deadline.left - for_calls
            share = left * weights[number] / sum(weights[n] for n in waiting[place:])
            progress = ProgressLine(
                budget_s=share,
                title=items[number].label,
                place=(place + 1, len(waiting)) if len(waiting) > 1 else None,
                quiet=quiet,
                clock=deadline.clock,
            )
            least = _LEAST if place else _LEAST + _START
            own = deadline.within(min(left, max(least, share)))
            with at(items[number].device):
                report = reports[number] = _tuned(items[number], own, progress, measurers, options)
            if report.interrupted:
                break
        else:
            _confirm_calls(calls, deadline, measurers)
    return TuningReports(
        report or _left_as_it_is(item) for item, report in zip(items, reports.values(), strict=True)
    )


def _left_as_it_is(item: RecordedCall) -> TuningReport:
    return TuningReport(item.label, 0, 0, None, 0.0, False, False, calls=item.calls)


def _confirm_calls(
    calls: Sequence[tuple[Steps, str, int | None]], deadline: Deadline, measurers: Measurers
) -> None:
    """Selects the fastest combination of programs for whole calls, as time allows."""
    for place, (steps, arrays, device) in enumerate(calls):
        share = deadline.left / (len(calls) - place)
        if share > _TOO_LITTLE:
            with at(device):
                _confirm(steps, arrays, deadline.within(share), measurers)


def _whole_calls(items: Sequence[RecordedCall]) -> list[tuple[Steps, str, int | None]]:
    """The calls of several programs around the tuned ones, with their arrays and devices."""
    found = [(steps, item.arrays, item.device) for item in items for steps in item.within]
    return [*dict.fromkeys(found)]


def _weights(expected: Sequence[float]) -> list[float]:
    """The shares of a budget: a quarter split evenly, the rest by expected time."""
    total = sum(expected) or 1.0
    return [_EVENLY / len(expected) + (1 - _EVENLY) * one / total for one in expected]


def _looked_up(item: RecordedCall) -> tuple[TuningReport | None, float]:
    """The report of a confirmed computation, else None, and its calls' expected seconds."""
    with at(item.device):
        engine = registry.engine_for(item.arrays)
    problem, target = engine.problem_of(item.md_hom), engine.target
    one = flops(problem) / target.rate + bytes_moved(problem) / target.bandwidth
    expected = item.calls * (_LAUNCH + one)
    known = engine.store.winner(problem_key(problem), engine.environment)
    if known is None or not known.confirmed:
        return None, expected
    report = TuningReport(item.label, 0, 0, known.seconds, 0.0, True, False, calls=item.calls)
    return report, expected


def _confirm(steps: Steps, arrays: str, deadline: Deadline, measurers: Measurers) -> None:
    """Selects the combination of programs that makes a whole call fastest."""
    engine = registry.engine_for(arrays)
    measurer = measurers.of(engine, arrays)
    measurer.deadline = deadline
    if keep_what_is_fastest(engine, steps, deadline.left, measurer):
        registry.forget()


def recorded_items(work: Any) -> list[RecordedCall]:
    """The recorded computations of a tuning task; TuningError for anything else."""
    items: list[RecordedCall] = []
    several: Iterable[Any] = work if is_iterable(work) else [work]
    for item in several:
        if not isinstance(item, RecordedCall):
            raise TuningError(
                f"{shown(work if isinstance(work, str) else item)} is nothing that was recorded",
                hint="what `with mdtensor.tuning('record') as seen:` gave; "
                "a plan is tuned by plan.tune()",
            )
        items.append(item)
    return items


class Measurers(Closing):
    """A measurer per device, opened when first needed, with one budget for all.

    What they measure takes seconds of their `clock`, which all of tuning goes by.
    """

    clock = staticmethod(time.monotonic)

    def __init__(self, budget: float, objectives: Sequence[str] = ("time",)) -> None:
        self._budget, self._objectives = budget, objectives
        self._made: dict[int, Measurer] = {}  # by their engines

    def of(self, engine: Engine, arrays: str) -> Measurer:
        """The measurer of an engine's device."""
        if id(engine) not in self._made:
            device = registry.device_name(arrays)
            self._made[id(engine)] = Measurer(engine, device, self._budget, self._objectives)
        return self._made[id(engine)]

    def close(self) -> None:
        """Ends the processes of all of them."""
        for measurer in self._made.values():
            measurer.close()


def _tuned(
    item: RecordedCall,
    deadline: Deadline,
    progress: ProgressLine,
    measurers: Measurers,
    options: SearchOptions,
) -> TuningReport:
    if deadline.left < _TOO_LITTLE:
        return _left_as_it_is(item)
    engine = registry.engine_for(item.arrays)
    problem = engine.problem_of(item.md_hom)
    started = deadline.clock()
    with progress:
        measurer = measurers.of(engine, item.arrays)
        found = searched(engine, problem, deadline, progress, measurer, options)
    registry.forget()
    if not found.outcome.interrupted:
        engine.tuned(problem)  # which keeps its program for other processes
    made = [each for each in found.outcome.trials if each.trial.status != "rejected"]
    return TuningReport(
        item.label,
        len(made),
        sum(each.trial.status != "ok" for each in made),
        found.seconds,
        deadline.clock() - started,
        False,
        found.outcome.interrupted,
        found.untuned,
        item.calls,
        found.front,
    )
