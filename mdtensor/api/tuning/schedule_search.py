"""The search for the fastest schedule of a problem, measured on the device itself."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from random import Random
from typing import Any

from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.stored_schedules import with_schedules
from mdtensor.api.tuning.measurer import Measurer, TooLateError
from mdtensor.autotune.deadline import Deadline
from mdtensor.autotune.progress import Progress
from mdtensor.autotune.search.descent import descended
from mdtensor.autotune.search.search import SearchOutcome, search
from mdtensor.autotune.search.surrogate import Learned
from mdtensor.autotune.search.techniques import MEMBERS, Bandit, MakeTechnique
from mdtensor.autotune.space.space import Configuration, Space
from mdtensor.autotune.trial import Measured, Trial
from mdtensor.autotune.worker.worker import WorkerError
from mdtensor.lower.gpu.cost.gpu_cost import least_seconds
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.problem.work import bytes_moved
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import broken_rule, estimated, ranked
from mdtensor.lower.search.schedule_space import configuration_from, parameters_of, schedule_from

# Schedules with an estimate this much above that of the best one are not measured.
HOPELESS = 4.0
_SAMPLES = 600
_REMEMBERED = 1024  # estimates
_RANKED = {"cpu": 6, "gpu": 24}  # of the cost model's favourites, by kind of device
# One of each kind is among them, if its estimate is at most this many times the best.
_NEAR = 2.0
_SEEDS_SAMPLED = 10
_SEEDS_FORESEEN = 12
# Of the cost model's next favourites, those that a technique weighs which learns how far it errs.
_WEIGHED = {"cpu": 0, "gpu": 300}
# Proposals of which the cost model lets the best through.
_DRAWS = {"cpu": 4, "gpu": 1}
# Estimates on the way downhill from the favourites and the best samples, at most so many for each
# second of the budget.
_DESCENT = {"cpu": 1600, "gpu": 0}
_DESCENT_RATE = 80
_BEGINNINGS = 3
_CONFIRMED = 5
# Seconds that kernels have to be ready which calls had compiled in the background.
_SETTLE, _SETTLE_SHARE = 3.0, 0.05
# Seconds from which on there are more than favourites: the space takes a part of them to make.
_WORTH_SPACE = 1.5
_RANKING_SHARE, _MAKING_SHARE, _SAMPLING_SHARE = 0.3, 0.4, 0.1
_CONFIRM_SHARE = 0.12
# On processors no more than it takes: seconds at least, and runs of the best.
_CONFIRM_SECONDS, _CONFIRM_RUNS = 1.5, 50
# Seconds that a rival's turns take at least, and the turns that those of long runs should have.
_TURNS_SECONDS, _TURNS = 0.2, 3
# What the cost model expects counts by this power beside times that are those of memory. In a
# process or a minute in which memory gives little, one thread was as fast as two, and was taken:
# 1.4 ms where two threads need 0.5 at other times.
_TRUST = 0.25


@dataclass(slots=True)
class _Best:
    """The best schedule so far: its seconds, and those that the cost model gives it."""

    seconds: float | None = None
    estimate: float = math.inf


class _Candidates:
    """The schedules of one problem, which are prepared and measured."""

    def __init__(self, engine: Engine, problem: Problem, measurer: Measurer) -> None:
        self.engine = engine
        self.problem = problem
        self.measurer = measurer
        self.key = problem_key(problem)
        self.best = _Best()
        self.space: Space | None = None
        # Two configurations may stand for one schedule, which is measured once.
        self.tried: dict[Schedule, Trial] = {}
        # What is foretold, then compiled and then measured is asked for each time.
        self._estimate = lru_cache(_REMEMBERED)(self._estimate_of)
        measurer.begin(problem)

    def make_space(self) -> None:
        """Makes the space of all schedules, unless that takes too much of the time left."""
        deadline = self.measurer.deadline
        if self.space is not None or deadline.left < _WORTH_SPACE:
            return
        making = deadline.within(_MAKING_SHARE * deadline.left)

        def fail_if_late() -> None:
            if making.is_over:
                raise TooLateError("the space takes too long to make")

        with suppress(TooLateError):
            parameters = parameters_of(self.problem, self.engine.target)
            self.space = Space(parameters, on_node=fail_if_late)

    def can_run(self, schedule: Schedule) -> bool:
        """Whether the device can run a schedule, as far as the rules say."""
        return self._estimate(schedule)[0] < math.inf

    def schedule_of(self, configuration: Configuration) -> Schedule:
        """The schedule that a configuration stands for."""
        return schedule_from(self.problem, self.engine.target, configuration)

    def _estimate_of(self, schedule: Schedule) -> tuple[float, str]:
        """The seconds that the cost model gives a schedule; infinity and why, if it cannot run."""
        if reason := broken_rule(self.problem, schedule, self.engine.target):
            return math.inf, reason
        return estimated(self.problem, schedule, self.engine.target), ""

    def _rejection(self, schedule: Schedule) -> str:
        """Why a schedule is not worth compiling, or an empty string."""
        target = self.engine.target
        expected, reason = self._estimate(schedule)
        if reason or self.best.seconds is None:
            return reason
        if target.kind == "gpu" and not schedule.resident:  # of which the cost model knows little
            least = least_seconds(self.problem, schedule, target)
            return "it cannot be as fast as the best" if least > self.best.seconds else ""
        hopeless = expected > HOPELESS * self.best.estimate
        return "the cost model expects far more than of the best" if hopeless else ""

    def expected(self, configuration: Configuration) -> float:
        """The seconds that the cost model gives a configuration; infinity where it cannot run."""
        return self._estimate(self.schedule_of(configuration))[0]

    def prepare(self, configuration: Configuration) -> Future[Any] | None:
        """Has a configuration compiled while others are measured."""
        return self.prepare_schedule(self.schedule_of(configuration))

    def prepare_schedule(self, schedule: Schedule) -> Future[Any] | None:
        """Has a schedule compiled that is new and not hopeless; None if nothing is to be done."""
        if self.measurer.ahead and schedule not in self.tried and not self._rejection(schedule):
            return self.measurer.prepare(schedule)
        return None

    def place_of(self, space: Space, schedule: Schedule) -> Configuration | None:
        """The configuration that stands for a schedule; None where the space does not hold it."""
        nearest = space.nearest(configuration_from(self.problem, schedule), Random(0))
        if nearest is None or self.schedule_of(nearest) != schedule:
            return None
        return nearest

    def measure(self, configuration: Configuration) -> Trial:
        """Measures a configuration, and keeps what was found."""
        return self.measure_schedule(self.schedule_of(configuration))

    def measure_schedule(self, schedule: Schedule) -> Trial:
        """Measures a schedule, and keeps what was found."""
        if (known := self.tried.get(schedule)) is not None:
            return known
        if reason := self._rejection(schedule):
            return Trial("rejected", detail=reason)
        return self.measure_anyway(schedule)

    def measure_anyway(self, schedule: Schedule) -> Trial:
        """The same without asking whether it can be worth it."""
        trial = self.tried[schedule] = self.measurer.trial(schedule, self.best.seconds)
        text = schedule.to_json()
        self.engine.store.record_trial(self.key, self.engine.environment, text, trial)
        if trial.cost < (math.inf if self.best.seconds is None else self.best.seconds):
            expected = estimated(self.problem, schedule, self.engine.target)
            self.best = _Best(trial.cost, expected)
        return trial


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found: the winner's seconds and, beside it, those of what runs untuned."""

    outcome: SearchOutcome
    seconds: float | None = None
    untuned: float | None = None


def searched(
    engine: Engine, problem: Problem, deadline: Deadline, progress: Progress, measurer: Measurer
) -> Found:
    """Looks for the fastest schedule of a problem until a deadline, and keeps it in the store.

    What is taken untuned is measured, however late it is; then what the cost model favours; where
    time is left, the space of all schedules is searched.
    """
    started = time.monotonic()
    measurer.deadline = deadline
    candidates = _Candidates(engine, problem, measurer)
    untuned = engine.untuned(problem).schedule
    ranking_time = deadline.within(_RANKING_SHARE * deadline.left)
    ranking = ranked(problem, engine.target, enough=lambda: ranking_time.is_over)
    first = list(dict.fromkeys((untuned, *_first_schedules(engine, problem, ranking))))
    for schedule in (*first[1 : measurer.ahead + 1], untuned):
        candidates.prepare_schedule(schedule)
    before = _trials_before(candidates)
    candidates.tried.update(before)
    if not measurer.is_open:
        candidates.make_space()
    budget = deadline.left
    made: list[Measured] = []
    try:
        _measure_first(candidates, first, made, progress)
    except TooLateError:
        return Found(SearchOutcome((), "budget", time.monotonic() - started))
    except KeyboardInterrupt:
        return Found(SearchOutcome(tuple(made), "interrupted", time.monotonic() - started))
    tried = dict(candidates.tried)
    outcome = SearchOutcome((), "budget", 0.0)
    kept = _kept_for_confirming(candidates, budget)
    if deadline.left > kept:
        candidates.make_space()
    if candidates.space is not None and deadline.left > kept:
        outcome = _searched_space(
            candidates, candidates.space, ranking, first, tried, kept, progress
        )
    new = _by_schedule(candidates, outcome.trials, tried)
    outcome = replace(outcome, trials=(*made, *new.values()))
    trials = tried | {schedule: each.trial for schedule, each in new.items()}
    rivals = _rivals(candidates, trials, {untuned, *first[1:2]})
    if not rivals:
        return Found(outcome)
    schedule, seconds, usual = _confirmed(candidates, rivals, untuned)
    engine.store.set_winner(
        candidates.key,
        engine.environment,
        schedule.to_json(),
        seconds=seconds,
        trials=len(before) + len(outcome.trials),
        search_seconds=time.monotonic() - started,
        confirmed=not outcome.interrupted and len(rivals) > 1,
    )
    return Found(outcome, seconds, usual)


def _measure_first(
    candidates: _Candidates,
    first: Sequence[Schedule],
    made: list[Measured],
    progress: Progress,
) -> None:
    """Measures the first schedule, which is taken untuned, and as many of the others as fit."""
    deadline, began = candidates.measurer.deadline, time.monotonic()
    budget = deadline.left
    candidates.engine.settle(min(_SETTLE, _SETTLE_SHARE * budget))
    candidates.measurer.opened()
    for number, schedule in enumerate(first):
        if number and deadline.left <= _kept_for_confirming(candidates, budget):
            return
        if number and schedule in candidates.tried:
            continue
        measure = candidates.measure_schedule if number else candidates.measure_anyway
        configuration = configuration_from(candidates.problem, schedule)
        trial = measure(schedule)
        made.append(Measured(configuration, trial, "first", time.monotonic() - began))
        progress(made[-1])


def _searched_space(
    candidates: _Candidates,
    space: Space,
    ranking: Sequence[tuple[float, Schedule]],
    first: Sequence[Schedule],
    tried: Mapping[Schedule, Trial],
    kept: float,
    progress: Progress,
) -> SearchOutcome:
    """What a search finds among all schedules, in the time but for what is `kept`."""
    measurer = candidates.measurer
    seeds = [configuration_from(candidates.problem, schedule) for schedule in first]
    seeds += _foreseen(candidates, space, seeds)
    return search(
        space,
        candidates.measure,
        seeds=seeds,
        known=_placed(candidates, space, tried.items()),
        budget_s=measurer.deadline.left - kept,
        on_trial=progress,
        prepare=candidates.prepare,
        ahead=measurer.ahead,
        apart=measurer.apart,
        expected=candidates.expected,
        draws=_DRAWS[candidates.engine.target.kind],
        technique=_technique(candidates, ranking),
    )


def _by_schedule(
    candidates: _Candidates, trials: Iterable[Measured], earlier: Collection[Schedule]
) -> dict[Schedule, Measured]:
    """New trials, each schedule once, even if it is in several places of the space."""
    new: dict[Schedule, Measured] = {}
    for each in trials:
        schedule = candidates.schedule_of(each.configuration)
        if schedule not in earlier:
            new.setdefault(schedule, each)
    return new


def _rivals(
    candidates: _Candidates, trials: Mapping[Schedule, Trial], always: Collection[Schedule]
) -> list[tuple[Schedule, Trial]]:
    """The fastest few that differ, the best first, and those that are compared `always`.

    These are what is taken untuned, so that nothing becomes slower, and what the model takes for
    the best, whose one trial may have met a slow moment.
    """
    found = [(schedule, trial) for schedule, trial in trials.items() if trial.status == "ok"]
    found.sort(key=lambda pair: pair[1].cost)
    if not found:
        return []
    turns = max(_TURNS_SECONDS, _TURNS * found[0][1].cost)
    fitting = min(_CONFIRMED, int(candidates.measurer.deadline.left / turns) - len(always))
    different = candidates.measurer.different(schedule for schedule, _ in found)
    fastest = different[: max(1, fitting)]
    return [pair for pair in found if pair[0] in always or pair[0] in fastest]


def _technique(candidates: _Candidates, ranking: Sequence[tuple[float, Schedule]]) -> MakeTechnique:
    """All techniques by turns; where a minute has many trials, one that learns is among them."""
    count = _WEIGHED[candidates.engine.target.kind]
    if not count:
        return Bandit

    def learned(space: Space, rng: Random) -> Learned:
        placed = (candidates.place_of(space, schedule) for _, schedule in ranking[:count])
        others = [place for place in placed if place is not None]
        return Learned(space, rng, candidates.expected, others)

    return lambda space, rng: Bandit(space, rng, {"learned": learned, **MEMBERS})


def _kept_for_confirming(candidates: _Candidates, budget: float) -> float:
    """The seconds of a budget in which the best few take turns."""
    share, best = budget * _CONFIRM_SHARE, candidates.best.seconds
    if candidates.engine.target.kind == "gpu" or best is None:
        return share
    return min(share, max(_CONFIRM_SECONDS, _CONFIRM_RUNS * best))


def _trials_before(candidates: _Candidates) -> dict[Schedule, Trial]:
    """Trials of earlier searches on this device, from which this one goes on."""
    engine = candidates.engine
    rows = engine.store.trials(candidates.key, engine.environment)
    found = {
        schedule: Trial(row.status, row.seconds, row.spread, row.detail)
        for row, schedule in with_schedules(candidates.problem, rows)
    }
    return {schedule: trial for schedule, trial in found.items() if candidates.can_run(schedule)}


def _placed(
    candidates: _Candidates, space: Space, trials: Iterable[tuple[Schedule, Trial]]
) -> list[tuple[Configuration, Trial]]:
    """The trials of schedules that the space holds, and where."""
    placed = ((candidates.place_of(space, schedule), trial) for schedule, trial in trials)
    return [(place, trial) for place, trial in placed if place is not None]


def _first_schedules(
    engine: Engine, problem: Problem, ranking: Sequence[tuple[float, Schedule]]
) -> list[Schedule]:
    """Where the search starts: other environments' winners, and what the cost model favours."""
    hints = engine.store.hints(problem_key(problem), engine.environment)[:3]
    schedules = [schedule for _, schedule in with_schedules(problem, hints)]
    return [*schedules, *_favourites(ranking, _RANKED[engine.target.kind])]


def _favourites(ranking: Sequence[tuple[float, Schedule]], count: int) -> list[Schedule]:
    """The cost model's best schedules, the first of every kind before others of the same.

    What the model thinks of kinds, such as stores that bypass the caches, may be wrong by a
    constant; a search that met none of a kind among its first schedules seldom came to it later.
    """
    kinds: dict[tuple[object, ...], Schedule] = {}
    for seconds, schedule in ranking:
        if seconds <= _NEAR * ranking[0][0]:
            rows = (
                schedule.peel and math.prod(schedule.registers) > schedule.registers[schedule.lane]
            )
            past = schedule.streaming, schedule.peel, rows, schedule.ahead > 0, schedule.results
            shared = any(schedule.threads[d] > 1 for d in schedule.reduce_order)
            kinds.setdefault((schedule.lane, *past, any(schedule.staged), shared), schedule)
    first = list(kinds.values())[: count // 2]
    others = (schedule for _, schedule in ranking if schedule not in first)
    return [*first, *islice(others, count - len(first))]


def _foreseen(
    candidates: _Candidates, space: Space, favourites: Sequence[Configuration]
) -> list[Configuration]:
    """The best by the cost model: of many configurations, and downhill from some favourites."""
    rng, kind = Random(0), candidates.engine.target.kind
    budget = candidates.measurer.deadline.left
    sampling = candidates.measurer.deadline.within(_SAMPLING_SHARE * budget)
    drawn: list[Configuration] = []
    costs: list[float] = []
    while len(drawn) < min(_SAMPLES, space.size) and not sampling.is_over:
        drawn.append(space.sample(rng))
        costs.append(candidates.expected(drawn[-1]))
    order = sorted(range(len(drawn)), key=lambda n: costs[n])[:_SEEDS_SAMPLED]
    sampled = [drawn[n] for n in order if costs[n] < math.inf]
    evaluations = min(_DESCENT[kind], int(_DESCENT_RATE * budget))
    if not evaluations or not space:
        return sampled
    starts = [*favourites[-_RANKED[kind] :][:_BEGINNINGS], *sampled[:_BEGINNINGS]]

    def tile(configuration: Configuration) -> object:
        schedule = candidates.schedule_of(configuration)
        kept = [schedule.registers[d] for d in candidates.problem.kept]
        return schedule.lane, tuple(kept), schedule.staged

    best = descended(space, candidates.expected, starts, rng, evaluations=evaluations, kind=tile)
    return best[:_SEEDS_FORESEEN]


def _confirmed(
    candidates: _Candidates, ranking: Sequence[tuple[Schedule, Trial]], untuned: Schedule
) -> tuple[Schedule, float, float | None]:
    """The best of the first few when they take turns; the first where that cannot be done.

    Its seconds, and those of what is taken untuned. Whatever the cost model expects, none that is
    slower than that.
    """
    first, trial = ranking[0]
    schedules = [schedule for schedule, _ in ranking]
    usual = next((other.seconds for schedule, other in ranking if schedule == untuned), None)
    if candidates.measurer.deadline.is_over:
        return first, trial.cost, usual
    try:
        times = candidates.measurer.by_turns(schedules)
    except (WorkerError, KeyboardInterrupt):
        return first, trial.cost, usual
    problem, target = candidates.problem, candidates.engine.target
    in_memory = target.kind == "cpu" and bytes_moved(problem) > target.l3_bytes
    confirmed = dict(zip(schedules, times, strict=True))
    usual = confirmed.get(untuned) or usual
    found: list[tuple[float, float, Schedule]] = []
    for schedule, seconds in confirmed.items():
        if seconds is not None and seconds <= (confirmed.get(untuned) or math.inf):
            expected = estimated(problem, schedule, target) if in_memory else 1.0
            found.append((seconds * expected**_TRUST, seconds, schedule))
    if not found:
        return first, trial.cost, usual
    _, seconds, schedule = min(found, key=lambda entry: entry[0])
    return schedule, seconds, usual
