"""Tuning of whole calls: the combination of schedules that is fastest together.

Each program was tuned alone, with the device to itself. In a call they run beside each other and
after each other: one that the calling thread ran alone takes a core from another's threads, and
what one left in the caches is what the next one finds.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.stored_schedules import with_schedules
from mdtensor.api.tuning.measurer import Measurer
from mdtensor.autotune.paired_turns import Turns, fastest_by_turns
from mdtensor.autotune.store.rows import WinnerRow
from mdtensor.autotune.worker.worker import WorkerError
from mdtensor.dataclass import dataclass
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.md_hom_program import Step

_RIVALS = 3  # of each program, beside its winner and what it runs untuned
_NEAR = 1.5  # alone they take at most so many times as long as the winner
_MOST = 16
# Seconds that a contender takes at least, and the runs that long calls make.
_TURN, _RUNS = 0.25, 28


@dataclass(frozen=True, slots=True)
class ProgramCandidates:
    """A program of a call: its winner, and rival schedules with their seconds alone."""

    problem: Problem
    winner: WinnerRow
    schedule: Schedule  # the winner's
    rivals: tuple[tuple[Schedule, float], ...]


# The schedules of a call's programs that are not the winners.
Mixture = frozenset[tuple[Problem, Schedule]]
WINNERS: Mixture = frozenset()


def keep_what_is_fastest(
    engine: Engine, steps: Sequence[Step], budget: float, measurer: Measurer
) -> bool:
    """Replaces the winners of a call's programs where that certainly speeds up the whole call.

    Others take turns with them: all programs untuned, and one of them by another schedule that did
    well alone; then all of those together that made the call faster. Whether anything changed in
    the store. Programs without a winner leave all as it is.
    """
    steps = [step for step in steps if 0 not in step.md_hom.extents.values()]
    problems = [engine.problem_of(step.md_hom) for step in steps]
    known = {problem: _known(engine, problem) for problem in problems}
    found = [each for each in known.values() if each is not None]
    if len(steps) < 2 or len(found) < len(known):
        return False
    winners = {each.problem: each.schedule for each in found}

    def by_turns(mixtures: Sequence[Mixture]) -> Turns:
        schedules = [[(winners | dict(m))[problem] for problem in problems] for m in mixtures]
        return measurer.calls_by_turns(steps, schedules)

    def fastest(usual: Mixture, *others: Mixture) -> tuple[Mixture, dict[Mixture, list[float]]]:
        return fastest_by_turns(
            [usual], others, by_turns, is_over=lambda: measurer.deadline.is_over
        )

    alone = sum(each.winner.seconds for each in found)
    most = max(2, min(_MOST, int(budget / max(_TURN, _RUNS * alone))))
    try:
        others = list(dict.fromkeys(_contenders(engine, found)))[: most - 1]
        best, times = fastest(WINNERS, *others)
        if len(together := _together(times)) > 1 and together not in times:
            best, _ = fastest(best, together)
    except (WorkerError, KeyboardInterrupt):
        return False
    for problem, schedule in best:
        _keep(engine, known[problem], schedule)
    return bool(best)


def _known(engine: Engine, problem: Problem) -> ProgramCandidates | None:
    """The candidates of a program from the store; None where it has no winner."""
    found = engine.winner(problem)
    if found is None:
        return None
    winner, own = found
    rows = engine.store.trials(problem_key(problem), engine.environment)
    seconds: dict[Schedule, float] = {}
    for row, schedule in with_schedules(problem, rows):
        if row.status == "ok" and row.seconds is not None and row.detail != "not repeated":
            seconds[schedule] = min(row.seconds, seconds.get(schedule, row.seconds))
    untuned = engine.usual(problem).schedule
    ranking = sorted(seconds, key=lambda schedule: seconds[schedule])
    near = [each for each in ranking if seconds[each] <= _NEAR * winner.seconds]
    spread = {_spread(own)}
    rivals = [(untuned, seconds.get(untuned, winner.seconds))]
    for schedule in near:
        if len(rivals) <= _RIVALS and _spread(schedule) not in spread and schedule != untuned:
            spread.add(_spread(schedule))
            rivals.append((schedule, seconds[schedule]))
    return ProgramCandidates(problem, winner, own, tuple(pair for pair in rivals if pair[0] != own))


def _spread(schedule: Schedule) -> tuple[object, ...]:
    """A schedule's distribution over the device, which affects programs beside it."""
    return schedule.parts, schedule.inline, schedule.streaming


def _contenders(engine: Engine, found: Sequence[ProgramCandidates]) -> Iterator[Mixture]:
    """The combinations to time: all untuned, then one rival program each."""
    untuned = [(each, engine.usual(each.problem).schedule) for each in found]
    if others := frozenset((each.problem, s) for each, s in untuned if s != each.schedule):
        yield others
    longest = sorted(found, key=lambda each: -each.winner.seconds)
    for rank in range(_RIVALS + 1):
        for each in longest:
            if rank < len(each.rivals):
                yield frozenset({(each.problem, each.rivals[rank][0])})


def _together(times: Mapping[Mixture, Sequence[float]]) -> Mixture:
    """For each program, the rival that made the call fastest, if any made it faster."""
    medians = {mixture: statistics.median(found) for mixture, found in times.items() if found}
    usual = medians.get(WINNERS, 0.0)
    found: dict[Problem, Schedule] = {}
    for mixture in sorted(medians, key=lambda mixture: medians[mixture]):
        if len(mixture) == 1 and medians[mixture] < usual:
            ((problem, schedule),) = mixture
            found.setdefault(problem, schedule)
    return frozenset(found.items())


def _keep(engine: Engine, known: ProgramCandidates | None, schedule: Schedule) -> None:
    """Makes a rival the winner in the store, with its seconds alone."""
    assert known is not None
    row, alone = known.winner, dict(known.rivals)
    engine.store.set_winner(
        row.problem,
        row.environment,
        schedule.to_json(),
        seconds=alone.get(schedule, row.seconds),
        trials=row.trials,
        search_seconds=row.search_seconds,
        confirmed=row.confirmed,
    )
