"""Launch counters: programs that call back, once, after a number of launches.

A general kernel serves all shapes; one whose launches have taken as long as a compiler does is
worth a kernel with its own constants. Launches count until tables are emptied for that one.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mdtensor.precedence import take_turns

if TYPE_CHECKING:
    from mdtensor.backends.protocol import CompiledProgram

Array = Any
Launch = Callable[..., None]
AGAIN = 2  # the launch with which a shape comes again
LONG_RUN = 3.0  # seconds of launches without kernels, after which a process gets them for all


class LaunchNumbers:
    """A thread-safe launch counter with a single callback.

    `elsewhere` are functions that tell how many launches others counted.
    """

    def __init__(self, last: int, tell: Callable[[], object]) -> None:
        self.last = last
        self.elsewhere: list[Callable[[], int]] = []
        self._own, self._tells = itertools.count(1), [tell]

    @property
    def is_waited_for(self) -> bool:
        """Whether the callback is still pending."""
        return bool(self._tells)

    def count(self) -> None:
        """Counts a launch; the callback runs at launch `last`, or at the first one after it."""
        number = next(self._own)
        if self.elsewhere:
            number += sum([count() for count in self.elsewhere])
        if number >= self.last and self._tells:
            with suppress(IndexError):  # another thread does
                self._tells.pop()()


class AroundProgram(ABC):
    """A program whose launches are wrapped by `_around`, except when `bound` to other sizes."""

    def __init__(self, program: CompiledProgram) -> None:
        self.program = program

    def __call__(self, *arrays: Array) -> None:
        """Runs the program."""
        self._around(self.program)(*arrays)

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> CompiledProgram:
        """The program bound to other sizes, without the wrapper."""
        return self.program.bound(sizes, inline)

    def launcher(self) -> Launch:
        """A wrapped launcher of the program."""
        return self._around(self.program.launcher())

    def beginner(self, *, behind: bool = False) -> tuple[Launch, Callable[[], None] | None]:
        """A wrapped beginner of the program."""
        launch, wait = self.program.beginner(behind=behind)
        return self._around(launch), wait

    @abstractmethod
    def _around(self, launch: Launch) -> Launch:
        """Wrap a launch of the program."""


class Counted(AroundProgram):
    """A counted program; `tell` is called once, in the thread of launch number `launches`.

    All launchers of it count together, those of programs that are `bound` to other sizes do not.
    """

    def __init__(self, program: CompiledProgram, launches: int, tell: Callable[[], object]) -> None:
        super().__init__(program)
        self._numbers = LaunchNumbers(launches, tell)

    def _around(self, launch: Launch) -> Launch:
        return counting(launch, self._numbers)


class TimeSpent:
    """The number of launches that await a kernel, and the seconds that they took."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.is_asked = False  # for a kernel, since these took long enough
        self.numbers = itertools.count(1)


class Repeated(AroundProgram):
    """A counted program that calls `tell` on repeated launches, those of its account.

    That is at launch 2, and with `often=True` once they took `worth` seconds, and at powers of two:
    so a request that came to nothing is repeated. Launches of all such programs, of `seconds` each,
    count as frequent once they took `LONG_RUN`.
    """

    spent = 0.0

    def __init__(
        self,
        program: CompiledProgram,
        tell: Callable[..., object],
        account: TimeSpent,
        worth: float,
        seconds: float,
    ) -> None:
        super().__init__(program)
        self._account, self._tell, self._worth, self._seconds = account, tell, worth, seconds

    def _around(self, launch: Launch) -> Launch:
        account, tell, worth, seconds = self._account, self._tell, self._worth, self._seconds

        def counted(*arrays: Array) -> None:
            launch(*arrays)
            number = next(account.numbers)
            account.seconds += seconds
            Repeated.spent += seconds
            if number >= AGAIN:
                is_worth, is_next = account.seconds >= worth, not number & (number - 1)
                is_often = is_worth or (is_next and Repeated.spent >= LONG_RUN)
                if number == AGAIN or (is_often and (is_next or not account.is_asked)):
                    account.is_asked = is_often
                    tell(often=is_often)
            take_turns()

        return counted


class StandIn(AroundProgram):
    """A fallback until a better program is compiled; `own` waits for that one and returns it.

    A general kernel serves a shape at once. By its second launch the shape comes again, and
    `again` is called. Launches that take as long as compiling does wait: `own` is called by number
    `launches`, and where launches are recorded, as `is_captured` says, since that work runs for
    long; it gets the shape's own kernel.
    """

    def __init__(
        self,
        program: CompiledProgram,
        launches: int,
        again: Callable[[], None],
        own: Callable[[], CompiledProgram],
        is_captured: Callable[[], bool],
    ) -> None:
        super().__init__(program)
        self._last, self._again, self._own = max(launches, AGAIN + 1), again, own
        self._is_captured, self._of = is_captured, itertools.count(1)

    def _around(self, launch: Launch) -> Launch:
        last, again = self._last, self._again
        numbers, own, is_captured = self._of, self._own, self._is_captured

        def counted(*arrays: Array) -> None:
            if is_captured():
                own().launcher()(*arrays)
                return
            launch(*arrays)
            number = next(numbers)
            if number == AGAIN:
                again()
            elif number == last:
                own()

        return counted


def counting(launch: Launch, numbers: LaunchNumbers) -> Launch:
    """Wrap a launch so that it is counted."""

    def counted(*arrays: Array) -> None:
        launch(*arrays)
        numbers.count()

    # For whoever launches and counts otherwise.
    counted.counted, counted.numbers = launch, numbers  # pyright: ignore
    return counted
