"""The search for the fastest schedule of a problem, measured on the device itself."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from random import Random
from types import MappingProxyType
from typing import Any

from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.stored_schedules import with_schedules
from mdtensor.api.tuning.favourites import favourites
from mdtensor.api.tuning.first_schedules import RANKED, first_schedules
from mdtensor.api.tuning.measurer import Measurer, Measuring, TooLateError
from mdtensor.api.tuning.search_options import (
    TIME_ONLY,
    SearchOptions,
    Tradeoff,
    front_of,
    scalar_cost,
)
from mdtensor.autotune.deadline import Deadline
from mdtensor.autotune.paired_turns import fastest_by_turns
from mdtensor.autotune.progress import ProgressLine
from mdtensor.autotune.search import abort_conditions as conditions
from mdtensor.autotune.search.abort_conditions import Condition
from mdtensor.autotune.search.descent import descended
from mdtensor.autotune.search.search import SearchOutcome, search
from mdtensor.autotune.search.surrogate import SurrogateModel
from mdtensor.autotune.search.techniques import MEMBERS, Bandit, MakeTechnique
from mdtensor.autotune.space.space import Configuration, Space
from mdtensor.autotune.trial import Measured, Trial
from mdtensor.autotune.worker.worker import WorkerError
from mdtensor.dataclass import dataclass
from mdtensor.lower.gpu.base.gpu_cost import least_seconds
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.problem.work import bytes_moved
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import broken_rule, estimated, ranked
from mdtensor.lower.search.fixed_values import Fixed
from mdtensor.lower.search.schedule_space import configuration_from, parameters_of, schedule_from

USUAL = SearchOptions()
# Schedules with an estimate this much above that of the best one are not measured.
HOPELESS = 4.0
_SAMPLES = 600
_REMEMBERED = 1024  # estimates
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
_TURNS_SECONDS, _TURNS = 0.2, 4
# What the cost model expects counts by this power beside times that are those of memory. In a
# process or a minute in which memory gives little, one thread was as fast as two, and was taken:
# 1.4 ms where two threads need 0.5 at other times.
_TRUST = 0.25


@dataclass(slots=True)
class _Best:
    """The best schedule so far, by its measured seconds and its estimate."""

    seconds: float | None = None
    estimate: float = math.inf


class Candidates:
    """The candidate schedules of one problem, with their compilations and trials."""

    def __init__(
        self, engine: Engine, problem: Problem, measurer: Measuring, options: SearchOptions
    ) -> None:
        self.engine = engine
        self.problem = problem
        self.measurer = measurer
        self.options = options
        self.fixed = Fixed.of(problem, options.fixed)
        # How far the search has come, for conditions to end it.
        self.reached = conditions.Progress(0)
        self._clock = measurer.deadline.clock
        self._began = self._clock()
        self.key = problem_key(problem)
        self.best = _Best()
        self._seconds: list[float] = []  # that each trial took
        self.space: Space | None = None
        # Two configurations may stand for one schedule, which is measured once.
        self.tried: dict[Schedule, Trial] = {}
        # What is foretold, then compiled and then measured is asked for each time.
        self._estimate = lru_cache(_REMEMBERED)(self._estimate_of)
        measurer.begin(problem)

    def make_space(self) -> None:
        """Builds the space of all schedules, unless that takes too much of the time left."""
        deadline = self.measurer.deadline
        if self.space is not None or (deadline.left < _WORTH_SPACE and not self.fixed):
            return
        making = deadline.within(_MAKING_SHARE * deadline.left)

        def fail_if_late() -> None:
            if making.is_over:
                raise TooLateError("the space takes too long to make")

        with suppress(TooLateError):
            parameters = self.fixed.narrowed(parameters_of(self.problem, self.engine.target))
            self.space = Space(parameters, on_node=fail_if_late)
            self.reached.space_size = self.space.size

    @property
    def is_enough(self) -> bool:
        """Whether the abort condition of the search holds."""
        self.reached.elapsed = self._clock() - self._began
        return self.options.abort is not None and self.options.abort.holds(self.reached)

    @property
    def trial_seconds(self) -> float:
        """The median seconds of a trial; the first ones include the worker's start."""
        return statistics.median_low(self._seconds) if self._seconds else 0.0

    def cost_of(self, configuration: Configuration, trial: Trial) -> float:
        """A trial's cost for search techniques: its time, unless there are other objectives."""
        if self.options.by_time or trial.cost == math.inf:
            return trial.cost
        costs = self.measurer.costs(self.schedule_of(configuration))
        return scalar_cost(costs, self.options.objectives)

    def tradeoff(self, schedule: Schedule, seconds: float | None = None) -> Tradeoff:
        """The measured costs of a schedule; `seconds` replace those of its trial."""
        known = self.tried.get(schedule)
        time = {} if known is None or known.cost == math.inf else {"time": known.cost}
        better = {} if seconds is None else {"time": seconds}
        costs = {**time, **self.measurer.costs(schedule), **better}
        return Tradeoff(schedule.describe(self.problem), costs)

    def can_run(self, schedule: Schedule) -> bool:
        """Whether a schedule obeys the device's rules."""
        return self._estimate(schedule)[0] < math.inf

    def schedule_of(self, configuration: Configuration) -> Schedule:
        """The schedule of a configuration."""
        return schedule_from(self.problem, self.engine.target, configuration)

    def _estimate_of(self, schedule: Schedule) -> tuple[float, str]:
        """The cost model's seconds for a schedule; infinity and the reason if it cannot run."""
        if reason := broken_rule(self.problem, schedule, self.engine.target):
            return math.inf, reason
        return estimated(self.problem, schedule, self.engine.target), ""

    def _rejection(self, schedule: Schedule) -> str:
        """The reason not to compile a schedule, or an empty string."""
        target = self.engine.target
        expected, reason = self._estimate(schedule)
        if not reason and not self.fixed.hold(schedule):
            return f"it does not have {self.fixed}"
        if reason or self.best.seconds is None or not self.options.by_time:
            return reason
        if target.kind == "gpu" and not schedule.resident:  # of which the cost model knows little
            least = least_seconds(self.problem, schedule, target)
            return "it cannot be as fast as the best" if least > self.best.seconds else ""
        hopeless = expected > HOPELESS * self.best.estimate
        return "the cost model expects far more than of the best" if hopeless else ""

    def expected(self, configuration: Configuration) -> float:
        """The cost model's seconds for a configuration; infinity where it cannot run."""
        return self._estimate(self.schedule_of(configuration))[0]

    def prepare(self, configuration: Configuration) -> Future[Any] | None:
        """Compiles a configuration while others are measured."""
        return self.prepare_schedule(self.schedule_of(configuration))

    def prepare_schedule(self, schedule: Schedule) -> Future[Any] | None:
        """Compiles a schedule ahead if it is new and worth it; None if nothing is compiled."""
        if self.measurer.ahead and schedule not in self.tried and not self._rejection(schedule):
            return self.measurer.prepare(schedule)
        return None

    def place_of(self, space: Space, schedule: Schedule) -> Configuration | None:
        """The configuration of a schedule; None where the space does not contain it."""
        nearest = space.nearest(configuration_from(self.problem, schedule), Random(0))
        if nearest is None or self.schedule_of(nearest) != schedule:
            return None
        return nearest

    def measure(self, configuration: Configuration) -> Trial:
        """Measures a configuration, and records the trial."""
        return self.measure_schedule(self.schedule_of(configuration))

    def measure_schedule(self, schedule: Schedule) -> Trial:
        """Measures a schedule, unless it is known or rejected, and records the trial."""
        if (known := self.tried.get(schedule)) is not None:
            return known
        if reason := self._rejection(schedule):
            return Trial("rejected", detail=reason)
        return self.measure_anyway(schedule)

    def measure_anyway(self, schedule: Schedule) -> Trial:
        """Measures a schedule without a check for rejection, and records the trial."""
        best = self.best.seconds if self.options.by_time else None
        began = self._clock()
        trial = self.measurer.trial(schedule, best)
        self._seconds.append(self._clock() - began)
        text = schedule.to_json()
        self.engine.store.record_trial(self.key, self.engine.environment, text, trial)
        self.take(schedule, trial)
        return trial

    def take(self, schedule: Schedule, trial: Trial) -> None:
        """Adds a trial, measured here or elsewhere, and updates the best schedule."""
        self.tried[schedule] = trial
        self.reached.add(trial.cost, self._clock() - self._began)
        slower = self.best.seconds is not None and trial.cost >= self.best.seconds
        if trial.cost < math.inf and not slower and self.fixed.hold(schedule):
            expected = estimated(self.problem, schedule, self.engine.target)
            self.best = _Best(trial.cost, expected)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search: the seconds of the winner, and of the untuned kernel beside it.

    `front` is the best of what was asked for, and what others are better in.
    """

    outcome: SearchOutcome
    seconds: float | None = None
    untuned: float | None = None
    front: tuple[Tradeoff, ...] = ()


def searched(
    engine: Engine,
    problem: Problem,
    deadline: Deadline,
    progress: ProgressLine,
    measurer: Measurer,
    options: SearchOptions = USUAL,
) -> SearchResult:
    """Searches for the fastest schedule of a problem until a deadline; the store keeps it.

    What calls come to run untuned is measured, however late it is; then what they run meanwhile,
    and what the cost model favours; where time is left, the space of all schedules is searched.
    Where `options` fix values, what has others is measured only as what a winner has to beat.
    """
    clock, started = deadline.clock, deadline.clock()
    measurer.deadline = deadline
    candidates = Candidates(engine, problem, measurer, options)
    now = engine.usual(problem).schedule
    untuned = engine.untuned(problem).schedule
    ranking_time = deadline.within(_RANKING_SHARE * deadline.left)
    ranking = ranked(problem, engine.target, enough=lambda: ranking_time.is_over)
    if candidates.fixed:
        candidates.make_space()
    usual = [*dict.fromkeys((untuned, now))]
    nearest = first_candidates(candidates, ranking)
    first = list(dict.fromkeys((*usual, *nearest)))
    for schedule in (*first[1 : measurer.ahead + 1], untuned):
        candidates.prepare_schedule(schedule)
    before = _trials_before(candidates)
    if options.by_time:  # the store keeps nothing else of them
        candidates.tried.update(before)
    if not measurer.is_open:
        candidates.make_space()
    budget = deadline.left
    made: list[Measured] = []
    try:
        _measure_first(candidates, first, made, progress)
    except TooLateError:
        return SearchResult(SearchOutcome((), "budget", clock() - started))
    except KeyboardInterrupt:
        return SearchResult(SearchOutcome(tuple(made), "interrupted", clock() - started))
    tried = dict(candidates.tried)
    outcome = SearchOutcome((), "budget", 0.0)
    kept = _kept_for_confirming(candidates, budget)
    if deadline.left > kept:
        candidates.make_space()
    if candidates.space is not None and deadline.left > kept:
        outcome = searched_space(
            candidates, candidates.space, ranking, first, tried, kept, progress
        )
    new = _by_schedule(candidates, outcome.trials, tried)
    outcome = replace(outcome, trials=(*made, *new.values()))
    trials = tried | {schedule: each.trial for schedule, each in new.items()}
    if options.objectives[0] != "time":
        return _kept_by_objective(
            candidates, trials, untuned, SearchResult(outcome), clock() - started
        )
    effort, incumbents = len(before) + len(outcome.trials), usual
    if (known := engine.winner(problem)) is not None and candidates.can_run(known[1]):
        row, winner = known
        trials.setdefault(winner, Trial("ok", row.seconds))
        effort, incumbents = max(effort, row.trials), [winner]  # or the store keeps what it has
    expected = favourites(ranking, RANKED[engine.target.kind])
    favoured = [schedule for schedule in expected if schedule not in usual][:1]
    rivals = _rivals(candidates, trials, {*incumbents, *usual, *nearest[:1], *favoured})
    if not rivals:
        return SearchResult(outcome)
    running = [each for each in incumbents if each in rivals] or rivals[:1]
    schedule, times = _confirmed(candidates, rivals, running)
    confirmed = {each: statistics.median(found) for each, found in times.items() if found}
    seconds = confirmed.get(schedule, trials[schedule].cost)
    of_usual = {each: confirmed.get(each, trials[each].seconds) for each in usual if each in trials}
    taken = [(taken_s, each) for each, taken_s in of_usual.items() if taken_s is not None]
    usual_s, untuned = min(taken, key=lambda pair: pair[0], default=(None, untuned))
    engine.store.set_winner(
        candidates.key,
        engine.environment,
        schedule.to_json(),
        seconds=seconds,
        trials=effort,
        search_seconds=clock() - started,
        confirmed=not outcome.interrupted and len(confirmed) > 1,
    )
    if usual_s is not None:
        text = untuned.to_json()
        engine.store.keep_untuned(candidates.key, engine.environment, text, usual_s)
    return SearchResult(outcome, seconds, usual_s, _front(candidates, trials, confirmed))


def _front(
    candidates: Candidates,
    trials: Mapping[Schedule, Trial],
    confirmed: Mapping[Schedule, float] = MappingProxyType({}),
) -> tuple[Tradeoff, ...]:
    """The Pareto front of the schedules that have the fixed values."""
    asked = [schedule for schedule in trials if candidates.fixed.hold(schedule)]
    if (objectives := candidates.options.objectives) == TIME_ONLY and confirmed:
        asked = [schedule for schedule in asked if schedule in confirmed] or asked
    points = (candidates.tradeoff(schedule, confirmed.get(schedule)) for schedule in asked)
    return front_of(points, objectives)


def _kept_by_objective(
    candidates: Candidates,
    trials: Mapping[Schedule, Trial],
    untuned: Schedule,
    found: SearchResult,
    elapsed: float,
) -> SearchResult:
    """Keeps the best schedule by the objectives in order, with ties broken by time."""
    objectives = (*candidates.options.objectives, "time")
    ranking: list[tuple[tuple[float, ...], Schedule]] = []
    for schedule, trial in trials.items():
        costs = candidates.measurer.costs(schedule)
        if trial.status == "ok" and candidates.fixed.hold(schedule):
            ranking.append((tuple(costs.get(name, math.inf) for name in objectives), schedule))
    if not ranking:
        return found
    costs, schedule = min(ranking, key=lambda pair: pair[0])
    candidates.engine.store.set_winner(
        candidates.key,
        candidates.engine.environment,
        schedule.to_json(),
        seconds=costs[-1],
        trials=len(trials),
        search_seconds=elapsed,
        confirmed=False,
    )
    usual = trials[untuned].seconds if untuned in trials else None
    return replace(found, seconds=costs[-1], untuned=usual, front=_front(candidates, trials))


def _measure_first(
    candidates: Candidates,
    first: Sequence[Schedule],
    made: list[Measured],
    progress: ProgressLine,
) -> None:
    """Measures the untuned schedule, and as many of the other first ones as time allows."""
    deadline = candidates.measurer.deadline
    budget, began = deadline.left, deadline.clock()
    candidates.engine.settle(min(_SETTLE, _SETTLE_SHARE * budget))
    candidates.measurer.opened()
    for number, schedule in enumerate(first):
        if number and (
            candidates.is_enough or deadline.left <= _kept_for_confirming(candidates, budget)
        ):
            return
        if number and schedule in candidates.tried:
            continue
        measure = candidates.measure_schedule if number else candidates.measure_anyway
        configuration = configuration_from(candidates.problem, schedule)
        trial = measure(schedule)
        made.append(Measured(configuration, trial, "first", deadline.clock() - began))
        progress(made[-1])


def searched_space(
    candidates: Candidates,
    space: Space,
    ranking: Sequence[tuple[float, Schedule]],
    first: Sequence[Schedule],
    tried: Mapping[Schedule, Trial],
    kept: float,
    progress: ProgressLine,
) -> SearchOutcome:
    """Search the space of all schedules, with `kept` seconds of the time left over."""
    measurer, options = candidates.measurer, candidates.options
    seeds = [configuration_from(candidates.problem, schedule) for schedule in first]
    seeds += _foreseen(candidates, space, seeds)
    return search(
        space,
        candidates.measure,
        seeds=seeds,
        known=_placed(candidates, space, tried.items()),
        budget_s=measurer.deadline.left - kept,
        on_trial=progress,
        abort=Condition("enough", lambda _: candidates.is_enough),
        cost=candidates.cost_of,
        prepare=candidates.prepare,
        ahead=measurer.ahead,
        apart=measurer.apart,
        expected=candidates.expected,
        draws=_DRAWS[candidates.engine.target.kind] if options.technique is None else 1,
        technique=options.technique or _technique(candidates, ranking),
        clock=measurer.deadline.clock,
    )


def _by_schedule(
    candidates: Candidates, trials: Iterable[Measured], earlier: Collection[Schedule]
) -> dict[Schedule, Measured]:
    """The new trials by schedule, which may have several configurations in the space."""
    new: dict[Schedule, Measured] = {}
    for each in trials:
        schedule = candidates.schedule_of(each.configuration)
        if schedule not in earlier:
            new.setdefault(schedule, each)
    return new


def _rivals(
    candidates: Candidates, trials: Mapping[Schedule, Trial], always: Collection[Schedule]
) -> list[Schedule]:
    """The fastest few distinct schedules, the best first, and those that are `always` compared.

    These are what ran before, so that nothing becomes slower, and what is taken for the best by a
    near shape's winner and by the model, whose one trial may have met a slow moment.
    """
    found = [(schedule, trial) for schedule, trial in trials.items() if trial.status == "ok"]
    found.sort(key=lambda pair: pair[1].cost)
    if not found:
        return []
    turns = max(_TURNS_SECONDS, _TURNS * found[0][1].cost)
    fitting = min(_CONFIRMED, int(candidates.measurer.deadline.left / turns) - len(always))
    different = candidates.measurer.different(schedule for schedule, _ in found)
    fastest = different[: max(1, fitting)]
    return [schedule for schedule, _ in found if schedule in always or schedule in fastest]


def _technique(candidates: Candidates, ranking: Sequence[tuple[float, Schedule]]) -> MakeTechnique:
    """A bandit over all techniques, with a surrogate model where a minute has many trials."""
    count = _WEIGHED[candidates.engine.target.kind]
    if not count:
        return Bandit

    def learned(space: Space, rng: Random) -> SurrogateModel:
        placed = (candidates.place_of(space, schedule) for _, schedule in ranking[:count])
        others = [place for place in placed if place is not None]
        return SurrogateModel(space, rng, candidates.expected, others)

    return lambda space, rng: Bandit(space, rng, {"learned": learned, **MEMBERS})


def _kept_for_confirming(candidates: Candidates, budget: float) -> float:
    """The seconds of a budget that are reserved to confirm the best few, after a last trial."""
    share, best = budget * _CONFIRM_SHARE, candidates.best.seconds
    if candidates.engine.target.kind != "gpu" and best is not None:
        share = min(share, max(_CONFIRM_SECONDS, _CONFIRM_RUNS * best))
    return share + candidates.trial_seconds


def _trials_before(candidates: Candidates) -> dict[Schedule, Trial]:
    """The trials of earlier searches on this device, to resume from."""
    engine = candidates.engine
    rows = engine.store.trials(candidates.key, engine.environment)
    found = {
        schedule: Trial(row.status, row.seconds, row.spread, row.detail)
        for row, schedule in with_schedules(candidates.problem, rows)
    }
    return {
        schedule: trial
        for schedule, trial in found.items()
        if candidates.can_run(schedule) and candidates.fixed.hold(schedule)
    }


def _placed(
    candidates: Candidates, space: Space, trials: Iterable[tuple[Schedule, Trial]]
) -> list[tuple[Configuration, Trial]]:
    """The trials whose schedules the space contains, with their configurations."""
    placed = ((candidates.place_of(space, schedule), trial) for schedule, trial in trials)
    return [(place, trial) for place, trial in placed if place is not None]


def first_candidates(
    candidates: Candidates, ranking: Sequence[tuple[float, Schedule]]
) -> list[Schedule]:
    """The first schedules of a search, moved to the nearest ones with the fixed values."""
    schedules = first_schedules(candidates.engine, candidates.problem, ranking)
    if not candidates.fixed:
        return schedules
    return [fitting for each in schedules if (fitting := _fitted(candidates, each)) is not None]


def _fitted(candidates: Candidates, schedule: Schedule) -> Schedule | None:
    """The schedule nearest to another that has the fixed values; None where none was found."""
    if candidates.fixed.hold(schedule):
        return schedule
    if candidates.space is None or not candidates.space:
        return None
    wanted = configuration_from(candidates.problem, schedule)
    nearest = candidates.space.nearest(wanted, Random(0))
    found = None if nearest is None else candidates.schedule_of(nearest)
    return found if found is not None and candidates.fixed.hold(found) else None


def _foreseen(
    candidates: Candidates, space: Space, favourites: Sequence[Configuration]
) -> list[Configuration]:
    """The best configurations by the cost model: sampled ones, and descents from favourites."""
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
    starts = [*favourites[-RANKED[kind] :][:_BEGINNINGS], *sampled[:_BEGINNINGS]]

    def tile(configuration: Configuration) -> object:
        schedule = candidates.schedule_of(configuration)
        kept = [schedule.registers[d] for d in candidates.problem.kept]
        return schedule.lane, tuple(kept), schedule.staged

    best = descended(space, candidates.expected, starts, rng, evaluations=evaluations, kind=tile)
    return best[:_SEEDS_FORESEEN]


def _confirmed(
    candidates: Candidates, rivals: Sequence[Schedule], incumbents: Sequence[Schedule]
) -> tuple[Schedule, Mapping[Schedule, Sequence[float]]]:
    """The best rival that is certainly faster than the incumbents, else the incumbent; and times.

    What cannot be compared in time changes nothing. Where memory bounds, the cost model has a
    say in which of the faster ones is best.
    """
    measurer, deadline = candidates.measurer, candidates.measurer.deadline
    problem, target = candidates.problem, candidates.engine.target
    in_memory = target.kind == "cpu" and bytes_moved(problem) > target.l3_bytes

    def cost(schedule: Schedule, seconds: float) -> float:
        expected = estimated(problem, schedule, target) if in_memory else 1.0
        return seconds * expected**_TRUST

    if deadline.is_over:
        return incumbents[0], {}
    try:
        return fastest_by_turns(
            incumbents, rivals, measurer.by_turns, is_over=lambda: deadline.is_over, cost=cost
        )
    except (WorkerError, KeyboardInterrupt):
        return incumbents[0], {}
