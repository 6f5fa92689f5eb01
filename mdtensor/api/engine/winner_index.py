"""An index of the problems with winners in the store, which saves queries for others."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from mdtensor.api.engine.stored_schedules import (
    Neighbour,
    Shaped,
    near_schedule,
    nearest_first,
    of_structure,
    within_reach,
)
from mdtensor.autotune.store.rows import TrialRow, WinnerRow
from mdtensor.autotune.store.store import Store
from mdtensor.bounded import Bounded
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

_MOST_STRUCTURES = 512
# Seconds after which winners are read again where the store cannot tell that they have changed.
_FRESH = 30.0


class WinnerIndex:
    """The winners of one environment, as of the last look at the store.

    `defaults` are winners that are read once, when they are first needed.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        environment: str,
        defaults: Callable[[], list[WinnerRow]] = list,
    ) -> None:
        self._store, self._environment, self._defaults = store, environment, defaults
        self._default_rows: list[WinnerRow] | None = None
        # The problems that had winners when the store was in some state.
        self._seen: tuple[object, frozenset[str]] = None, frozenset()
        # Those of each structure, by its form, that the store had in some state.
        self._alike: tuple[object, Bounded[str, list[Shaped]]] = None, Bounded(_MOST_STRUCTURES)

    def winner(self, key: str) -> WinnerRow | None:
        """The winner of a problem; problems that the index lacks are not queried."""
        store, (state, keys) = self._store(), self._seen
        if state is not None and state == store.state() and key not in keys:
            return None
        return store.winner(key, self._environment)

    def may_have(self, form: re.Pattern[str]) -> bool:
        """Whether a problem may have a winner whose key matches a pattern."""
        state, keys = self._seen
        if state is None or state != self._store().state():
            return True
        return any(form.fullmatch(key) for key in keys)

    def near(
        self,
        form: re.Pattern[str],
        problem: Problem,
        favourite: Schedule,
        seconds: float,
        target: Target,
    ) -> Schedule | None:
        """The adapted winner of a near shape, if it is expected to beat the favourite.

        Keys of the shapes have this form. Those of the store come first. See `near_schedule`.
        """

        def trials(row: WinnerRow) -> list[TrialRow]:
            return self._store().trials(row.problem, row.environment)

        near = within_reach(self.neighbours(form, problem))
        near.sort(key=lambda each: each.row.environment != self._environment)
        return near_schedule(problem, near, favourite, seconds, target, trials)

    def neighbours(self, form: re.Pattern[str], problem: Problem) -> list[Neighbour]:
        """The winners of other shapes in the store and the defaults, the nearest first.

        Of the problem itself, defaults alone are among them.
        """
        key, dims = problem_key(problem), len(problem.extents)
        own = [each for each in self.alike(form, dims) if each[0].problem != key]
        return nearest_first(problem, [*own, *self._defaults_alike(form, dims)])

    def _defaults_alike(self, form: re.Pattern[str], dims: int) -> list[Shaped]:
        """The default winners of a structure's shapes, with their extents."""
        if self._default_rows is None:
            self._default_rows = self._defaults()
        return of_structure(form, dims, self._default_rows)

    def alike(self, form: re.Pattern[str], dims: int) -> list[Shaped]:
        """The winners of a structure's shapes, by the form of their keys, with their extents."""
        store = self._store()
        state = store.state() or time.monotonic() // _FRESH
        if state != self._alike[0]:
            self._alike = state, Bounded(_MOST_STRUCTURES)
        return self._alike[1].made(
            form.pattern, lambda: of_structure(form, dims, store.winners(self._environment))
        )

    def look(self) -> None:
        """Refreshes the index of problems with winners from the store."""
        store = self._store()
        state = store.state()
        if state is not None and state != self._seen[0]:
            self._seen = state, store.problems(self._environment)
