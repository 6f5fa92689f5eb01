"""Watched programs: launches that an online search may extend by its own work."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from mdtensor.api.engine.launch_counter import AroundProgram
from mdtensor.api.tuning.online.online_search import OnlineSearch, Trusted
from mdtensor.backends.protocol import CompiledProgram

Array = Any
Launch = Callable[..., None]
# What is watched: the kernel as it is trusted, and the search for better ones.
Watch = tuple[Trusted, OnlineSearch]


class WatchedProgram(AroundProgram):
    """A program whose launches go through an online search, which `watch` gives.

    `watch` is called at launch number `first`, since it takes a look at the problem. The search
    gets such a `share` of the launches' seconds.
    """

    def __init__(
        self,
        program: CompiledProgram,
        watch: Callable[[], Watch | None],
        share: float,
        first: int = 1,
    ) -> None:
        super().__init__(program)
        self._ask, self._share, self._first = watch, share, first
        self._numbers = itertools.count(1)  # of which no two threads get the same one
        self._watch: Watch | None = None

    def beginner(self, *, behind: bool = False) -> tuple[Launch, Callable[[], None] | None]:
        """A beginner of the program; asynchronous launches are not watched."""
        launch, wait = self.program.beginner(behind=behind)
        return (launch, wait) if wait is not None else (self._around(launch), None)

    def _around(self, launch: Launch) -> Launch:
        share = self._share

        def watched(*arrays: Array) -> None:
            watch = self._watch
            if watch is None:
                if next(self._numbers) == self._first:
                    self._watch = self._ask()
                launch(*arrays)
            else:
                trusted, search = watch
                search.call(trusted, launch, arrays, share)

        return watched
