"""Searches under watch: when each trial was made, what it found, and what the search waited for."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mdtensor.api.engine.engine import Engine
from mdtensor.api.tuning.bench_worker import Benches
from mdtensor.api.tuning.measurer import Measurer
from mdtensor.api.tuning.schedule_search import searched
from mdtensor.autotune.paired_turns import Turns
from mdtensor.autotune.progress import ProgressLine
from mdtensor.autotune.search import search as search_module
from mdtensor.autotune.trial import Trial
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.md_hom import MDHom


class Watched(Measurer):
    """A measurer that notes when it made which trial, and how long it waited for compilers."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.began = time.monotonic()
        self.trials: list[tuple[float, Schedule, Trial]] = []
        self.spent: Counter[str] = Counter()

    def trial(self, schedule: Schedule, best: float | None) -> Trial:
        begun = time.monotonic()
        if not self.trials:
            self.spent["start"] = begun - self.began - self.spent["opening"]
        waited = self._waited()
        trial = super().trial(schedule, best)
        now = time.monotonic()
        self.spent["measuring"] += now - begun - (self._waited() - waited)
        self.trials.append((now - self.began, schedule, trial))
        return trial

    def opened(self) -> None:
        begun = time.monotonic()
        super().opened()
        self.spent["opening"] += time.monotonic() - begun

    def by_turns(self, schedules: Sequence[Schedule]) -> Turns:
        begun, waited = time.monotonic(), self._waited()
        try:
            return super().by_turns(schedules)
        finally:
            self.spent["confirming"] += time.monotonic() - begun - (self._waited() - waited)

    def _waited(self) -> float:
        return self.spent["compiling"] + self.spent["opening"]

    def _candidate(self, schedule: Schedule) -> dict[str, Any]:
        begun = time.monotonic()
        try:
            return super()._candidate(schedule)
        finally:
            self.spent["compiling"] += time.monotonic() - begun


@contextmanager
def waits_noted(spent: Counter[str]) -> Iterator[None]:
    """Adds up how long searches wait until something is compiled."""
    wait = search_module.wait

    def noted(*arguments: Any, **options: Any) -> Any:
        begun = time.monotonic()
        try:
            return wait(*arguments, **options)
        finally:
            spent["compiling"] += time.monotonic() - begun

    search_module.wait = noted
    try:
        yield
    finally:
        search_module.wait = wait


def watched_search(
    engine: Engine, device: str | None, md_homs: Sequence[MDHom], seconds: float
) -> list[dict[str, Any]]:
    """Searches for schedules of programs one after the other, each with its part of a budget."""
    found: list[dict[str, Any]] = []
    for md_hom in md_homs:
        problem, share = engine.problem_of(md_hom), seconds / len(md_homs)
        with Watched(engine, device, share) as measurer:
            with ProgressLine(budget_s=share, quiet=True) as progress, waits_noted(measurer.spent):
                outcome, best = searched(engine, problem, share, progress, measurer)
            elapsed = time.monotonic() - measurer.began
            trials, spent = measurer.trials, measurer.spent
        winner = engine.store.winner(problem_key(problem), engine.environment)
        found.append(
            {
                "winner": winner and winner.schedule,
                "best": best,
                "seconds": elapsed,
                "spent": {**spent, "other": elapsed - sum(spent.values())},
                "statuses": Counter(trial.status for _, _, trial in trials),
                "proposers": Counter(each.proposer for each in outcome.trials),
                "trials": [
                    [round(at, 3), trial.status, trial.seconds, trial.detail[:80], s.to_json()]
                    for at, s, trial in trials
                ],
            }
        )
    return found


def seconds_by_turns(
    engine: Engine, md_hom: MDHom, schedules: Sequence[str], rounds: int, times: int
) -> list[float]:
    """Median seconds of a program by several schedules, which take turns so many rounds."""
    problem, benches = engine.problem_of(md_hom), Benches(engine)
    bench = benches.made(problem)
    runs = [
        bench.arena.run_of(
            engine.specialised(problem, Schedule.from_json(text), "compared", 0.0).program
        )
        for text in schedules
    ]
    for run in runs:
        bench.arena.poison()
        run()
        if wrong := bench.arena.wrong():
            raise AssertionError(wrong)
    found = [bench.clock.by_turns(runs) for _ in range(times)]
    return [
        statistics.median(seconds for times in each for seconds in times or (0.0,))
        for each in zip(*found, strict=True)
    ]
