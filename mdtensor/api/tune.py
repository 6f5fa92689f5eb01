"""Tuning: a search over schedules whose measurements run in a worker process."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from mdtensor.api import pipeline
from mdtensor.api.engine import Engine
from mdtensor.api.modes import Recorded, Recording
from mdtensor.api.trial import payload_of
from mdtensor.autotune.progress import Progress
from mdtensor.autotune.search import SearchOutcome, search
from mdtensor.autotune.space import Configuration, Space
from mdtensor.autotune.trial import Trial
from mdtensor.autotune.worker import Worker, WorkerError, WorkerTimeout
from mdtensor.errors import LoweringError, TuningError
from mdtensor.lower.candidates import ranked
from mdtensor.lower.cost import estimate
from mdtensor.lower.key import problem_key
from mdtensor.lower.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule import Schedule, validate
from mdtensor.lower.space import configuration_from, parameters_of, schedule_from
from mdtensor.translate.md_hom import MDHom

# What the worker process loads to measure schedules.
BENCH = "mdtensor.api.trial:open_bench"
TRIAL_SECONDS = 20.0
# Schedules with an estimate this much above that of the best one are not measured.
HOPELESS = 4.0
_SAMPLES = 600
_SEEDS_RANKED = 6
_SEEDS_SAMPLED = 10
_CONFIRMED = 5
_CONFIRM_SHARE = 0.12
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

    `work` is what `with mdtensor.tuning("record") as seen:` gave, or some of it. The budget is
    seconds or a text such as "5min"; it is shared evenly, and what one computation leaves goes to
    the others. Computations with a confirmed winner are skipped unless `again`, which goes on
    searching where the last search ended. Ctrl-C ends the
    search and keeps what was measured. Results are in the store when this returns.
    """
    items = [work] if isinstance(work, Recorded) else list(work)
    left = seconds_of(budget)
    reports: list[TuningReport] = []
    for number, item in enumerate(items):
        share = left / (len(items) - number)
        report = tune_md_hom(item.md_hom, share, label=item.label, quiet=quiet, again=again)
        reports.append(report)
        left -= report.elapsed
        if report.interrupted:
            break
    return reports


def tune_md_hom(
    md_hom: MDHom, budget: float, *, label: str = "", quiet: bool = False, again: bool = False
) -> TuningReport:
    """Searches for the best schedule of one `md_hom` on the device of NumPy arrays."""
    engine = pipeline.engine_for()
    problem = problem_from_md_hom(md_hom)
    title = label or repr(md_hom)
    known = engine.store.winner(problem_key(problem), engine.environment)
    if known is not None and known.confirmed and not again:
        return TuningReport(title, 0, 0, known.seconds, 0.0, True, False)
    started = time.monotonic()
    with Progress(budget_s=budget, title=title, quiet=quiet) as progress:
        outcome, best = _searched(engine, problem, budget, progress)
    pipeline.forget()
    made = [measured for measured in outcome.trials if measured.trial.status != "rejected"]
    failed = sum(measured.trial.status != "ok" for measured in made)
    elapsed = time.monotonic() - started
    return TuningReport(title, len(made), failed, best, elapsed, False, outcome.interrupted)


def _searched(
    engine: Engine, problem: Problem, budget: float, progress: Progress
) -> tuple[SearchOutcome, float | None]:
    key, environment, target = problem_key(problem), engine.environment, engine.target
    space = Space(parameters_of(problem, target))
    started = time.monotonic()
    payload = payload_of(problem, pipeline.device_name())
    environment_of_worker = {"PYOPENCL_NO_CACHE": "1"}
    with Worker(BENCH, payload, environment=environment_of_worker) as worker:
        best: list[float] = []

        def measure(configuration: Configuration) -> Trial:
            schedule = schedule_from(problem, target, configuration)
            expected = estimate(problem, schedule, target)
            if best and expected > HOPELESS * best[1]:
                return Trial("rejected", detail="the cost model expects far more than of the best")
            trial = _measured(worker, problem, schedule, best[0] if best else None)
            engine.store.record_trial(key, environment, schedule.to_json(), trial)
            if trial.cost < (best[0] if best else math.inf):
                best[:] = [trial.cost, expected]
            return trial

        before = _trials_before(engine, problem, space)
        outcome = search(
            space,
            measure,
            seeds=_seeds(engine, problem, space),
            known=[(configuration, trial) for configuration, _, trial in before],
            budget_s=max(0.5, budget * (1 - _CONFIRM_SHARE)),
            on_trial=progress,
        )
        found = [(schedule, trial) for _, schedule, trial in before if trial.status == "ok"]
        found += [
            (schedule_from(problem, target, measured.configuration), measured.trial)
            for measured in outcome.ranked()
        ]
        if not found:
            return outcome, None
        found.sort(key=lambda pair: pair[1].cost)
        schedule, seconds = _confirmed(worker, found[:_CONFIRMED])
    engine.store.set_winner(
        key,
        environment,
        schedule.to_json(),
        seconds=seconds,
        trials=len(before) + len(outcome.trials),
        search_seconds=time.monotonic() - started,
        confirmed=not outcome.interrupted,
    )
    return outcome, seconds


def _trials_before(
    engine: Engine, problem: Problem, space: Space
) -> list[tuple[Configuration, Schedule, Trial]]:
    """Trials of earlier searches on this device, from which this one goes on."""
    rng = Random(0)
    found: list[tuple[Configuration, Schedule, Trial]] = []
    for row in engine.store.trials(problem_key(problem), engine.environment):
        schedule = Schedule.from_json(row.schedule)
        configuration = space.nearest(configuration_from(problem, schedule), rng)
        if configuration is None:
            continue
        if schedule_from(problem, engine.target, configuration) == schedule:
            trial = Trial(row.status, row.seconds, row.spread, row.detail)
            found.append((configuration, schedule, trial))
    return found


def _seeds(engine: Engine, problem: Problem, space: Space) -> list[Configuration]:
    """Where the search starts: other environments' winners, candidates, and the best of many."""
    target = engine.target
    hints = engine.store.hints(problem_key(problem), engine.environment)[:3]
    schedules = [Schedule.from_json(row.schedule) for row in hints]
    schedules.append(engine.untuned(problem).schedule)
    schedules += [schedule for _, schedule in ranked(problem, target)[:_SEEDS_RANKED]]
    rng = Random(0)
    estimates: list[tuple[float, int]] = []
    sampled: list[Configuration] = []
    for _ in range(min(_SAMPLES, space.size)):
        configuration = space.sample(rng)
        schedule = schedule_from(problem, target, configuration)
        try:
            validate(problem, schedule)
        except LoweringError:
            continue
        estimates.append((estimate(problem, schedule, target), len(sampled)))
        sampled.append(configuration)
    chosen = [sampled[index] for _, index in sorted(estimates)[:_SEEDS_SAMPLED]]
    return [*(configuration_from(problem, each) for each in schedules), *chosen]


def _measured(worker: Worker, problem: Problem, schedule: Schedule, best: float | None) -> Trial:
    try:
        validate(problem, schedule)
    except LoweringError as error:
        return Trial("rejected", detail=str(error))
    try:
        reply = worker.call({"schedule": schedule.to_json(), "best": best}, TRIAL_SECONDS)
    except WorkerTimeout as error:
        return Trial("timeout", detail=str(error))
    except WorkerError as error:
        return Trial("crashed", detail=str(error))
    return Trial(
        reply["status"], reply.get("seconds"), reply.get("spread"), reply.get("detail", "")
    )


def _confirmed(worker: Worker, ranking: Sequence[tuple[Schedule, Trial]]) -> tuple[Schedule, float]:
    """The best of the first few when they take turns; the first where that cannot be done."""
    first, trial = ranking[0]
    try:
        texts = [schedule.to_json() for schedule, _ in ranking]
        times = worker.call({"confirm": texts}, TRIAL_SECONDS * len(ranking))["seconds"]
    except (WorkerError, KeyboardInterrupt):
        return first, trial.cost
    pairs = [
        (seconds, number) for number, seconds in enumerate(times) if isinstance(seconds, float)
    ]
    if not pairs:
        return first, trial.cost
    seconds, number = min(pairs)
    return ranking[number][0], seconds
