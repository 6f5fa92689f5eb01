"""Programs that count their launches, and the kernels that frequent shapes get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mdtensor.api.engine.launch_counter import Counted
from mdtensor.backends.protocol import CompiledProgram


class Noted:
    """A program that writes down what it is launched on."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def __call__(self, *arrays: Any) -> None:
        self.seen.append(arrays)

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> CompiledProgram:
        return Noted([])

    def launcher(self) -> Callable[..., None]:
        return self

    def beginner(
        self, *, behind: bool = False
    ) -> tuple[Callable[..., None], Callable[[], None] | None]:
        return self, lambda: self.seen.append("waited")


def test_the_launch_of_a_number_tells_once_whoever_makes_it() -> None:
    seen: list[Any] = []
    told: list[int] = []
    program = Counted(Noted(seen), 5, lambda: told.append(len(seen)))
    begin, wait = program.beginner()
    assert wait is not None
    ways = [program, program.launcher(), begin]
    for number in range(12):
        ways[number % 3]("a", number)
    wait()
    assert seen == [*(("a", number) for number in range(12)), "waited"]
    assert told == [5], "after the fifth launch, and never again"


def test_a_program_for_other_sizes_counts_nothing() -> None:
    told: list[int] = []
    bound = Counted(Noted([]), 1, lambda: told.append(1)).bound((3, 4))
    bound("a")
    assert not told
