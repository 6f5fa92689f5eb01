"""Fallback programs: they run until a better program is compiled.

A general kernel serves a shape at once. When the shape comes again, one with its own constants is
asked for; when launches have taken as long as its compilation does, they wait for it. Work that is
recorded runs for long: it gets the shape's own kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from mdtensor.backends.protocol import Program

Array = Any
AGAIN = 2  # the launch with which a shape comes again


class StandIn:
    """A fallback: it runs a program; `own` gives the better one, and waits for its compiler.

    `again` is called once, by the second launch; `own` by launch number `launches` and where
    launches are recorded, as `is_captured` says. All launchers of it count together.
    """

    def __init__(
        self,
        program: Program,
        launches: int,
        again: Callable[[], None],
        own: Callable[[], Program],
        is_captured: Callable[[], bool],
    ) -> None:
        self.program = program
        self._launches, self._again, self._own = max(launches, AGAIN + 1), again, own
        self._is_captured = is_captured
        self._numbers = itertools.count(1)  # of which no two threads get the same one

    def __call__(self, *arrays: Array) -> None:
        """Runs the program."""
        self._counting(self.program, lambda own: own)(*arrays)

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> Program:
        """The program for other sizes."""
        return self.program.bound(sizes, inline)

    def launcher(self) -> Callable[..., None]:
        """A launcher of the program that counts its launches."""
        return self._counting(self.program.launcher(), lambda own: own.launcher())

    def beginner(
        self, *, behind: bool = False
    ) -> tuple[Callable[..., None], Callable[[], None] | None]:
        """A beginner of the program that counts its launches."""
        launch, wait = self.program.beginner(behind=behind)
        return self._counting(launch, lambda own: own.launcher()), wait

    def remembering_launcher(self, check: Callable[..., None]) -> Callable[..., None]:
        """A remembering launcher of the program that counts its launches."""
        launch = self.program.remembering_launcher(check)
        return self._counting(launch, lambda own: own.remembering_launcher(check))

    def _counting(
        self, launch: Callable[..., None], launcher_of: Callable[[Program], Callable[..., None]]
    ) -> Callable[..., None]:
        numbers, last, is_captured = self._numbers, self._launches, self._is_captured

        def counted(*arrays: Array) -> None:
            if is_captured():
                launcher_of(self._own())(*arrays)
                return
            launch(*arrays)
            number = next(numbers)
            if number == AGAIN:
                self._again()
            elif number == last:
                self._own()

        return counted
