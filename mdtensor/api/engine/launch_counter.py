"""Launch counters: programs that tell, once, that they were launched often.

A general kernel serves all shapes; one whose launches have taken as long as a compiler does is
worth a kernel with its own constants. Launches count until tables are emptied for that one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mdtensor.backends.protocol import Program

Array = Any


class Counted:
    """A counted program; `tell` is called once, by the thread of launch number `launches`.

    All launchers of it count together, those of programs that are `bound` to other sizes do not.
    """

    def __init__(self, program: Program, launches: int, tell: Callable[[], None]) -> None:
        self.program = program
        self._launches, self._tell = launches, tell
        self._numbers = itertools.count(1)  # of which no two threads get the same one

    def __call__(self, *arrays: Array) -> None:
        """Runs the program."""
        self.program(*arrays)
        if next(self._numbers) == self._launches:
            self._tell()

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> Program:
        """The program for other sizes."""
        return self.program.bound(sizes, inline)

    def launcher(self) -> Callable[..., None]:
        """A launcher of the program that counts its launches."""
        return self._counting(self.program.launcher())

    def beginner(
        self, *, behind: bool = False
    ) -> tuple[Callable[..., None], Callable[[], None] | None]:
        """A beginner of the program that counts its launches."""
        launch, wait = self.program.beginner(behind=behind)
        return self._counting(launch), wait

    def remembering_launcher(self, check: Callable[..., None]) -> Callable[..., None]:
        """A remembering launcher of the program that counts its launches."""
        return self._counting(self.program.remembering_launcher(check))

    def _counting(self, launch: Callable[..., None]) -> Callable[..., None]:
        return counting(launch, self._numbers, self._launches, self._tell)


def counting(
    launch: Callable[..., None], numbers: Iterator[int], last: int, tell: Callable[[], None]
) -> Callable[..., None]:
    """The same launch with a counter; it calls `tell` after launch number `last`."""

    def counted(*arrays: Array) -> None:
        launch(*arrays)
        if next(numbers) == last:
            tell()

    return counted
