"""Schedules of the store's rows, which may be anybody's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from mdtensor.autotune.store.rows import TrialRow, WinnerRow
from mdtensor.errors import LoweringError
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule

R = TypeVar("R", TrialRow, WinnerRow)


def with_schedules(problem: Problem, rows: Iterable[R]) -> Iterator[tuple[R, Schedule]]:
    """The rows whose schedules fit a problem, and these; others are passed over."""
    for row in rows:
        try:
            schedule = Schedule.from_json(row.schedule)
            validate(problem, schedule)
        except LoweringError:
            continue
        yield row, schedule
