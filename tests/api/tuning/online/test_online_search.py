"""The online search of one computation, on a clock of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from mdtensor.api.tuning.online import online_search
from mdtensor.api.tuning.online.call_trial import TURNS, Candidate
from mdtensor.api.tuning.online.online_search import OnlineSearch, Trusted
from mdtensor.api.tuning.online.time_account import Done
from mdtensor.errors import LaunchError
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.schedule.schedule import Schedule
from tests.hurried import at_once

SHARE = 0.1
SOURCE = KernelSource("", "", (), (), (), sizes_by_value=False)
FIRST = Schedule("cpu", (1,), (0,), (1,), (1,), 0, 1, (0,), (0,), (), ())


def schedule(number: int) -> Schedule:
    return replace(FIRST, tiles=(number,))


class Clock:
    """A clock that goes on when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Kernel:
    """A program that takes so many seconds, and writes a number."""

    clock: Clock
    seconds: float
    value: int = 1
    error: BaseException | None = None

    def launcher(self) -> Callable[..., None]:
        return self

    def __call__(self, *arrays: Any) -> None:
        self.clock.now += self.seconds
        if self.error is not None:
            raise self.error
        arrays[-1][...] = self.value


def trusted_of(kernel: Any, number: int = 0, *, general: bool = False) -> Trusted:
    return Trusted(kernel, replace(SOURCE, text=f"kernel {number}"), schedule(number), general)


@dataclass
class Shop:
    """A workshop that is done at once, with kernels by their numbers."""

    kernels: dict[int, Kernel]
    usual: float  # seconds of a kernel that the model expects as long as the best
    seconds: dict[str, float] = field(
        default_factory=lambda: {
            "propose": 0.15,
            "compile": 0.2,
            "keep": 0.01,
            "explore": 3.0,
            "go on": 0.2,
        }
    )
    kept: list[tuple[int, float, int]] = field(default_factory=list[tuple[int, float, int]])
    late: int = 0  # calls until something is told
    waiting: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    asked: list[str] = field(default_factory=list[str])
    source: KernelSource = SOURCE
    proposes_after: int = 0  # the first of its answers that has something

    def usual_seconds(self, work: str) -> float:
        return self.seconds[work]

    def _tell(self, work: str, told: Callable[[Done], None], result: Any) -> None:
        self.asked.append(work)
        done = Done(self.seconds[work], result)
        self.waiting.append(lambda: told(done))
        if not self.late:
            self.tell()

    def tell(self) -> None:
        while self.waiting:
            self.waiting.pop()()

    def propose(self, trusted: Schedule, told: Callable[[Done], None]) -> None:
        usual = self.usual
        kernels = [pair for pair in self.kernels.items() if pair[0] not in self.space]
        proposals = [(kernel.seconds / usual, schedule(number)) for number, kernel in kernels]
        is_late = self.asked.count("propose") + 1 < self.proposes_after
        self._tell("propose", told, None if is_late else proposals)

    def compile(self, expected: float, schedule: Schedule, told: Callable[[Done], None]) -> None:
        (number,) = schedule.tiles
        source = replace(self.source, text=f"kernel {number}")
        program: Any = self.kernels[number]
        self._tell("compile", told, Candidate(schedule, source, program, expected))

    can_explore: bool = False
    space: list[int] = field(default_factory=list[int])
    told: list[float | None] = field(default_factory=list[float | None])
    busy: bool = False
    known: dict[Any, Any] = field(default_factory=dict[Any, Any])
    ended: int = 0

    def may_explore(self) -> bool:
        return not self.busy

    def explore(self, known: Any, told: Callable[[Done], None]) -> None:
        self.known = {schedule.tiles[0]: cost for schedule, cost in known}
        self._next("explore", told)

    def go_on(self, seconds: float | None, told: Callable[[Done], None]) -> None:
        self.told.append(seconds)
        self._next("go on", told)

    def _next(self, work: str, told: Callable[[Done], None]) -> None:
        if not self.space:
            self._tell(work, told, None)
            return
        number = self.space.pop(0)
        source = replace(self.source, text=f"kernel {number}")
        program: Any = self.kernels[number]
        expected = program.seconds / min(kernel.seconds for kernel in self.kernels.values())
        self._tell(work, told, Candidate(schedule(number), source, program, expected))

    def end(self) -> None:
        self.ended += 1

    def keep(
        self, winner: Candidate, seconds: float, trials: int, told: Callable[[Done], None]
    ) -> None:
        self.kept.append((winner.schedule.tiles[0], seconds, trials))
        self._tell("keep", told, None)


@dataclass
class Compared:
    """Checks candidates by what they write."""

    def run(self, candidate: Any, arrays: Sequence[Any], /) -> None:
        candidate(*arrays[:-1], np.zeros_like(arrays[-1]))

    def wrong(self, trusted: Any, candidate: Any, arrays: Sequence[Any], /) -> str:
        ours, theirs = np.zeros_like(arrays[-1]), np.zeros_like(arrays[-1])
        trusted(*arrays[:-1], theirs)
        candidate(*arrays[:-1], ours)
        return "" if (ours == theirs).all() else "wrong"


class Program:
    """A program of a user's: calls of one computation, on a clock."""

    def __init__(self, seconds: float, kernels: dict[int, tuple[float, int]], **options: Any):
        self.clock = Clock()
        found = {n: Kernel(self.clock, *each) for n, each in kernels.items()}
        self.shop = Shop(found, seconds, **options)
        self.kernel = Kernel(self.clock, seconds)
        self.trusted = trusted_of(self.kernel)
        self.search = OnlineSearch(self.shop, Compared, 0.0, self.clock)
        self.seconds = 0.0  # of the kernels that were asked for

    def call(self) -> None:
        out = np.zeros(3)
        kernel: Any = self.trusted.program
        self.search.call(self.trusted, kernel, (np.ones(3), out), SHARE)
        assert (out == 1).all()
        self.seconds += kernel.seconds
        account = self.search.account
        assert account.spent + account.reserved <= SHARE * self.seconds + 1e-9

    def run(self, most: int = 100_000) -> int:
        """Calls until the search is over."""
        for number in range(most):
            if self.search.is_over:
                return number
            self.call()
        return most


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look at a call takes nothing."""
    monkeypatch.setattr(online_search, "LOOKING_S", 0.0)


@pytest.mark.usefixtures("free")
def test_all_that_takes_time_is_a_share_of_it() -> None:
    program = Program(0.01, {n: (0.01 + 0.001 * n, 1) for n in range(1, 9)})
    for _ in range(1000):
        program.call()
        work = sum(program.shop.seconds[work] for work in program.shop.asked)
        beside = program.clock.now - program.seconds
        assert work + beside <= SHARE * program.seconds + 1e-9
    assert program.shop.asked.count("compile") >= 3


@pytest.mark.parametrize("seed", range(20))
def test_whatever_kernels_take_no_more_than_the_share_is_spent(seed: int) -> None:
    rng = random.Random(seed)
    seconds = 10 ** rng.uniform(-4, 0)
    kernels = {n: (seconds * rng.uniform(0.5, 1.4), 1) for n in range(1, 9)}
    program = Program(seconds, kernels)  # each call looks
    program.run(5000)


def test_the_best_is_kept_and_the_search_ends() -> None:
    program = Program(0.01, {1: (0.012, 1), 2: (0.007, 1), 3: (0.009, 1), 4: (0.02, 1)})
    assert program.run() < 100_000
    assert [kept[0] for kept in program.shop.kept] == [2, 3, 0]  # nobody took the first two
    assert program.shop.kept[0][1:] == (pytest.approx(0.007), 2)
    calls = len(program.shop.asked)
    program.call()
    assert len(program.shop.asked) == calls


def test_a_winner_is_what_others_are_compared_with_once_calls_take_it() -> None:
    program = Program(0.01, {1: (0.007, 1), 2: (0.008, 1), 3: (0.005, 1)})
    while not program.search.is_over:
        program.call()
        if program.shop.kept and (number := program.shop.kept[-1][0]):
            kernel: Any = program.shop.kernels[number]
            program.trusted = replace(trusted_of(kernel, number), is_winner=True)
    assert [kept[0] for kept in program.shop.kept] == [1, 3]


def test_a_general_kernel_is_no_winner() -> None:
    program = Program(0.01, {1: (0.02, 1)})
    program.trusted = replace(program.trusted, is_general=True)
    program.run()
    assert not program.shop.kept


def test_what_is_wrong_is_never_kept_however_fast() -> None:
    program = Program(0.01, {1: (0.001, 7), 2: (0.009, 1)})
    program.run()
    assert [kept[0] for kept in program.shop.kept] == [2, 0]


def test_what_becomes_wrong_later_is_not_kept() -> None:
    program = Program(0.01, {1: (0.001, 1)})
    while program.search.trials == 0 or len(program.search.times) < TURNS // 2:
        program.call()
    program.shop.kernels[1].value = 7
    program.run()
    assert [kept[0] for kept in program.shop.kept] == [0]


@pytest.mark.parametrize("error", [LaunchError("no"), MemoryError()])
@pytest.mark.parametrize("turns", [0, 3])
def test_a_candidate_that_fails_is_left_out(error: Exception, turns: int) -> None:
    program = Program(0.01, {1: (0.001, 1), 2: (0.009, 1)})
    while program.search.trials == 0 or len(program.search.times) < turns:
        program.call()
    program.shop.kernels[1].error = error
    program.run()
    assert [kept[0] for kept in program.shop.kept] == [2, 0]


@pytest.mark.parametrize("turns", [0, 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_what_a_signal_raises_reaches_the_caller(turns: int, error: type[BaseException]) -> None:
    program = Program(0.01, {1: (0.001, 1)})
    while program.search.trials == 0 or len(program.search.times) < turns:
        program.call()
    program.shop.kernels[1].error = error()
    with pytest.raises(error):
        program.run()
    program.run()  # without that candidate
    assert program.search.is_over


def test_an_error_of_the_callers_kernel_is_the_callers() -> None:
    program = Program(0.01, {})
    program.kernel.error = LaunchError("no")
    with pytest.raises(LaunchError):
        program.call()
    program.kernel.error = None
    program.call()
    assert program.search.account.earned == pytest.approx(SHARE * 0.01)


def test_calls_that_are_too_short_end_the_search() -> None:
    program = Program(1e-5, {1: (1e-6, 1)})
    for _ in range(1001):
        out = np.zeros(3)
        program.search.call(program.trusted, program.kernel, (out,), SHARE)
    assert program.search.is_over
    assert not program.shop.asked


def test_without_proposals_it_ends() -> None:
    program = Program(0.01, {})
    assert program.run() < 200
    assert not program.shop.kept


def test_what_calls_run_anyway_is_not_tried() -> None:
    program = Program(0.01, {0: (0.01, 1), 1: (0.009, 1)})
    program.run()
    assert program.search.trials == 1


def test_another_kernel_is_compared_anew() -> None:
    program = Program(0.01, {1: (0.009, 1)})
    while program.search.trials == 0 or len(program.search.times) < TURNS - 2:
        program.call()
    program.trusted = trusted_of(Kernel(program.clock, 0.008), 5)
    program.run()
    assert [kept[0] for kept in program.shop.kept] == [5]


def test_the_same_kernel_that_was_chosen_again_goes_on() -> None:
    program = Program(0.01, {1: (0.009, 1)})
    while program.search.trials == 0 or len(program.search.times) < 3:
        program.call()
    program.trusted = trusted_of(program.kernel)
    program.call()
    assert len(program.search.times) >= 3


def test_a_candidate_for_aligned_arrays_is_not_tried_on_others() -> None:
    program = Program(0.01, {1: (0.001, 1)}, source=replace(SOURCE, unaligned=SOURCE))
    memory = np.zeros(100, np.uint8)
    start = -memory.ctypes.data % 64
    out = memory[start + 4 : start + 4 + 24].view(np.float64)
    for _ in range(5000):
        program.search.call(program.trusted, program.kernel, (out,), SHARE)
    assert program.search.is_over
    assert [kept[0] for kept in program.shop.kept] == [0]


def test_work_that_was_never_told_keeps_nobody_waiting() -> None:
    program = Program(0.01, {1: (0.001, 1)}, late=1)
    for _ in range(2000):
        program.call()
    assert program.shop.asked == ["propose"]
    program.shop.tell()
    for _ in range(2000):
        program.call()
    assert program.shop.asked == ["propose", "compile"]


def test_calls_within_a_call_just_run() -> None:
    program = Program(0.01, {})
    depth: list[int] = []

    def launch(*arrays: Any) -> None:
        depth.append(len(depth))
        if len(depth) < 3:
            program.search.call(program.trusted, launch, arrays, SHARE)
        program.kernel(*arrays)

    program.search.call(program.trusted, launch, (np.zeros(3),), SHARE)
    assert depth == [0, 1, 2]
    assert program.search.account.earned == pytest.approx(SHARE * 0.03)  # of one call


def test_threads_get_their_results() -> None:
    program = Program(1e-3, dict.fromkeys(range(1, 9), (1e-3, 1)))

    def calls() -> None:
        for _ in range(3000):
            out = np.zeros(3)
            program.search.call(program.trusted, program.kernel, (out,), SHARE)
            assert (out == 1).all()

    at_once(*[calls] * 4)


def test_what_took_longer_than_was_foretold_is_earned_back() -> None:
    program = Program(0.01, {1: (0.01, 1), 2: (0.01, 1)})
    program.shop.kernels[1].seconds = 1.0
    with pytest.raises(AssertionError):
        program.run()
    search, asked = program.search, list(program.shop.asked)
    debt = search.account.spent - search.account.earned
    while search.account.left < 0:
        search.call(program.trusted, program.kernel, (np.zeros(3),), SHARE)
        assert program.shop.asked == asked
    assert 0.9 < debt < 1.0


def test_proposals_are_asked_for_again_a_few_times() -> None:
    program = Program(0.01, {1: (0.009, 1)})
    program.shop.proposes_after = 2
    program.run()
    assert program.shop.asked.count("propose") == 2
    assert program.search.trials == 1
    program = Program(0.01, {1: (0.009, 1)})
    program.shop.proposes_after = 9
    program.run()
    assert program.shop.asked == ["propose"] * 5


def test_behind_the_favourites_the_space_is_searched() -> None:
    kernels = {1: (0.009, 1), 2: (0.02, 7), 3: (0.011, 1), 4: (0.006, 1), 5: (0.007, 1)}
    program = Program(0.01, kernels, can_explore=True, space=[3, 4, 0, 5])
    program.shop.kernels[0] = program.kernel
    while not program.search.is_over:
        program.call()
        if program.shop.kept and (number := program.shop.kept[-1][0]):
            kernel: Any = program.shop.kernels[number]
            program.trusted = replace(trusted_of(kernel, number), is_winner=True)
    shop = program.shop
    assert shop.known == {1: pytest.approx(0.009), 2: None}
    assert shop.told == [pytest.approx(each) for each in (0.011, 0.006, 0.01, 0.007)]
    assert [kept[0] for kept in shop.kept] == [1, 4]
    assert shop.ended == 1


def test_while_another_space_is_searched_calls_go_on() -> None:
    program = Program(0.01, {1: (0.02, 1), 2: (0.006, 1)}, can_explore=True, space=[2], busy=True)
    program.run(6000)
    assert not program.search.is_over
    assert "explore" not in program.shop.asked
    program.shop.busy = False
    program.run()
    assert [kept[0] for kept in program.shop.kept] == [2, 0]


def test_a_space_without_candidates_ends_the_search() -> None:
    program = Program(0.01, {1: (0.02, 1)}, can_explore=True)
    program.run()
    assert program.shop.asked == ["propose", "compile", "explore", "keep"]
