"""Work in the background: done once, bounded, and ended."""

from __future__ import annotations

import itertools
import threading

import pytest

from mdtensor.api.engine import background_worker
from mdtensor.api.engine.background_worker import Background
from tests.api.told_background import ToldBackground
from tests.hurried import at_once
from tests.interrupts import comes_at, interrupt


def test_threads_that_ask_together_have_it_done_once() -> None:
    """Asked for twice, the second would be none that waits, and end the thread."""
    asking = threading.local()
    meeting = threading.Barrier(2, timeout=60)

    class Key:
        """One by which two threads that ask go on together, whenever they look it up."""

        def __hash__(self) -> int:
            if hasattr(asking, "is_one"):
                meeting.wait()
            return 7

    key, done = Key(), list[str]()
    made = ToldBackground(done.append)

    def ask() -> None:
        asking.is_one = True
        made.ask(key, "work")

    at_once(ask, ask)
    assert made._asked.qsize() == 1
    made.settle(timeout=600)
    assert done == ["work"]


def test_what_is_worth_most_is_done_first() -> None:
    done = list[str]()
    made = ToldBackground(done.append)
    for work, worth in (("a", 0.0), ("b", 1e-3), ("c", 2e-3), ("d", 1e-3)):
        made.ask(work, work, worth=worth)
    made.settle(timeout=600)
    assert done == ["c", "b", "d", "a"]


def test_threads_that_ask_first_together_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting, may_end = threading.Barrier(2, timeout=60), threading.Event()
    done: list[object] = []

    def do(work: object) -> None:
        may_end.wait(timeout=60)
        done.append(work)

    made = Background(do)
    begin = made._begin

    def begun_together() -> None:
        meeting.wait()
        begin()

    monkeypatch.setattr(made, "_begin", begun_together)
    at_once(lambda: made.ask(1, 1), lambda: made.ask(2, 2))
    threads = [t for t in threading.enumerate() if getattr(t, "_target", None) == made._do_all]
    assert threads == [made._thread]
    may_end.set()
    made.settle(timeout=600)
    assert sorted(map(str, done)) == ["1", "2"]
    made.finish()


def test_what_waits_is_bounded_but_for_what_must_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_worker, "_MOST_WAITING", 5)
    done: list[int] = []
    made = ToldBackground(done.append)
    for number in range(20):
        made.ask(number, number)
    made.ask("frequent", 20, must=True)
    made.settle(timeout=600)
    assert done == [0, 1, 2, 3, 4, 20]


def test_work_is_there_until_it_is_done() -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def do(_: object) -> None:
        has_begun.set()
        may_end.wait(timeout=60)

    made = Background(do)
    made.ask("work", None)
    assert has_begun.wait(timeout=60)
    made.settle(timeout=0)
    assert made.has("work")
    may_end.set()
    made.settle(timeout=600)
    assert not made.has("work")
    made.finish()


def test_it_rests_where_there_is_no_work_and_goes_on_with_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background_worker, "_IDLE", 0.0)
    done: list[int] = []
    rested = threading.Event(), threading.Event()

    def rest() -> None:
        if done:
            rested[done[-1]].set()

    made = Background(done.append, rest=rest)
    for number, event in enumerate(rested):
        made.ask(number, number)
        assert event.wait(timeout=60)
    made.finish()


def test_nothing_is_done_once_it_is_finished() -> None:
    done: list[int] = []
    made = Background(done.append)
    made.ask("before", 1)
    made.settle(timeout=600)
    made.finish()
    made.ask("after", 2)
    made.settle(timeout=600)
    assert done == [1]
    assert made._thread is None


class OddError(BaseException):
    pass


@pytest.mark.parametrize("kind", [ValueError, OddError])
def test_what_work_raises_is_told_once_and_the_rest_is_done(
    kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    monkeypatch.setattr(background_worker, "_PAUSE", 0.0)
    done, may_fail = list[int](), threading.Event()

    def do(number: int) -> None:
        may_fail.wait(timeout=60)
        if number % 2:
            raise kind(number)
        done.append(number)

    made = Background(do)
    for number in range(6):
        made.ask(number, number)
    thread = made._thread
    may_fail.set()
    made.settle(timeout=600)
    assert done == [0, 2, 4]
    assert thread is made._thread is not None
    made.finish()
    assert [(each.exc_type, str(each.exc_value), each.thread) for each in told] == [
        (kind, "1", thread)
    ]


def test_what_work_raises_that_is_told_to_end_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a compiler does whose process is ended: nobody at the end of a program can use it."""
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    has_begun, is_stopped = threading.Event(), threading.Event()

    def do(_: object) -> None:
        has_begun.set()
        assert is_stopped.wait(timeout=60)
        raise ValueError

    made = Background(do, stop=is_stopped.set)
    made.ask("work", None)
    assert has_begun.wait(timeout=60)
    made.finish()
    assert made._thread is None
    assert not told


def test_what_waits_as_a_thread_ends_is_done_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilers end threads that would compile when the process has ended."""
    monkeypatch.setattr(background_worker, "_PAUSE", 0.0)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # pytest tells of such ends
    done, may_end = list[str](), threading.Event()

    def do(work: str) -> None:
        may_end.wait(timeout=60)
        if work == "last":
            raise SystemExit
        done.append(work)

    made = Background(do)
    made.ask(1, "last")
    made.ask(2, "waiting")
    ends = made._thread
    assert ends is not None
    may_end.set()
    ends.join(60)
    made.settle(timeout=600)
    assert done == []
    made.ask(3, "new")
    made.settle(timeout=600)
    assert done == ["waiting", "new"]
    made.finish()


def test_an_interrupt_as_work_is_asked_for_leaves_a_thread_that_works() -> None:
    for places in itertools.count():
        done: list[int] = []
        made = Background(done.append)

        def asks(made: Background[int] = made) -> None:
            made.ask(1, 1)
            made.settle(timeout=600)

        is_over = not comes_at(
            places, interrupt, asks, background_worker.__file__, threading.__file__
        )
        made.ask(2, 2)
        made.settle(timeout=600)
        assert done in ([1, 2], [2]), places
        made.finish()
        if is_over:
            break
    assert places > 10


def test_where_no_thread_begins_calls_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Background[int](lambda _: None)

    def fails(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as failing:
        failing.setattr(threading.Thread, "start", fails)
        made.ask(1, 1)
    assert made._thread is None
    made.ask(2, 2)
    made.settle(timeout=600)
    assert not made.has(1)
    made.finish()
