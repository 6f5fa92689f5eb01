"""Programs that stand in for a shape's own, and when they ask and wait for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mdtensor.api.engine.launch_counter import StandIn
from mdtensor.backends.protocol import CompiledProgram


class Noted:
    """A program that writes down by which of its ways it is launched, and on what."""

    def __init__(self, name: str, seen: list[Any]) -> None:
        self.name, self.seen = name, seen

    def __call__(self, *arrays: Any) -> None:
        self.seen.append((self.name, "call", *arrays))

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> CompiledProgram:
        return Noted("bound", self.seen)

    def launcher(self) -> Callable[..., None]:
        return lambda *arrays: self.seen.append((self.name, "launcher", *arrays))

    def beginner(
        self, *, behind: bool = False
    ) -> tuple[Callable[..., None], Callable[[], None] | None]:
        return lambda *arrays: self.seen.append((self.name, "beginner", *arrays)), None


class Standing:
    """A stand-in with what it did."""

    def __init__(self, launches: int) -> None:
        self.seen: list[Any] = []
        self.captured = False
        self.program = StandIn(
            Noted("general", self.seen),
            launches,
            lambda: self.seen.append("again"),
            self.own,
            lambda: self.captured,
        )

    def own(self) -> CompiledProgram:
        self.seen.append("own")
        return Noted("own", self.seen)


def test_the_second_launch_asks_and_a_later_one_waits_whoever_makes_them() -> None:
    made = Standing(4)
    begin, wait = made.program.beginner()
    assert wait is None
    ways = [made.program.launcher(), begin, made.program]
    for number in range(6):
        ways[number % 3](number)
    names = [("general", way) for way in ("launcher", "beginner", "call")] * 2
    launched = [(*name, number) for number, name in enumerate(names)]
    assert made.seen == [*launched[:2], "again", *launched[2:4], "own", *launched[4:]]


def test_no_launch_waits_before_its_shape_came_again() -> None:
    made = Standing(1)
    for _ in range(4):
        made.program("a")
    assert made.seen.index("again") == 2
    assert made.seen.index("own") == 4


def test_what_is_recorded_runs_the_own_program() -> None:
    made = Standing(100)
    launch = made.program.launcher()
    launch("a")
    made.captured = True
    for each in (launch, made.program.beginner()[0], made.program):
        each("b")
    made.captured = False
    launch("c")
    ways = [seen[1] for seen in made.seen if seen[0] == "own" and seen != "own"]
    assert ways == ["launcher"] * 3
    assert made.seen[-2:] == [("general", "launcher", "c"), "again"], "the second that counts"


def test_a_program_for_other_sizes_stands_for_nothing() -> None:
    made = Standing(3)
    bound = made.program.bound((3, 4))
    for _ in range(5):
        bound("a")
    assert made.seen == [("bound", "call", "a")] * 5
