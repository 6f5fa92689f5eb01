"""An index of the problems that have winners in the store, so that other calls skip it."""

from __future__ import annotations

import re
from collections.abc import Callable

from mdtensor.autotune.store.rows import WinnerRow
from mdtensor.autotune.store.store import Store


class SeenWinners:
    """The winners of one environment in a store, as they were when somebody last looked."""

    def __init__(self, store: Callable[[], Store], environment: str) -> None:
        self._store, self._environment = store, environment
        # The problems that had winners when the store was in some state.
        self._seen: tuple[object, frozenset[str]] = None, frozenset()

    def winner(self, key: str) -> WinnerRow | None:
        """The winner of a problem; the store is not asked for those it was seen not to have."""
        store, (state, keys) = self._store(), self._seen
        if state is not None and state == store.state() and key not in keys:
            return None
        return store.winner(key, self._environment)

    def may_have(self, form: re.Pattern[str]) -> bool:
        """Whether a problem whose key has this form may have a winner."""
        state, keys = self._seen
        if state is None or state != self._store().state():
            return True
        return any(form.fullmatch(key) for key in keys)

    def look(self) -> None:
        """Reads from the store which problems have winners."""
        store = self._store()
        state = store.state()
        if state is not None and state != self._seen[0]:
            self._seen = state, store.problems(self._environment)
