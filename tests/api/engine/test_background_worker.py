"""Work in the background: done once, bounded, and ended."""

from __future__ import annotations

import threading
import time

import pytest

from mdtensor.api.engine import background_worker
from mdtensor.api.engine.background_worker import Background
from tests.hurried import at_once

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def unpaused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_worker, "_PAUSE", 0.0)


def test_threads_that_ask_together_have_it_done_once() -> None:
    """Asked for twice, the second would be none that waits, and end the thread."""

    class Key(int):
        """One that lets other threads go on whenever it is looked up."""

        def __hash__(self) -> int:
            time.sleep(1e-5)
            return super().__hash__()

    keys, done = [Key(n) for n in range(50)], list[object]()
    made = Background(done.append)
    meeting = threading.Barrier(4, timeout=60)

    def work() -> None:
        for key in keys:
            meeting.wait()
            made.ask(key, object())

    at_once(work, work, work, work)
    made.settle(timeout=600)
    assert made._thread is not None
    assert len(done) >= len(keys)
    assert len({*done}) == len(done)
    assert not made._waiting


def test_what_waits_is_bounded_but_for_what_must_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_worker, "_MOST_WAITING", 5)
    may_go_on, done = threading.Event(), list[int]()

    def do(work: int) -> None:
        may_go_on.wait(timeout=60)
        done.append(work)

    made = Background(do)
    for number in range(20):
        made.ask(number, number)
        assert len(made._waiting) <= 5
    made.ask("frequent", 20, must=True)
    may_go_on.set()
    made.settle(timeout=600)
    assert done == [0, 1, 2, 3, 4, 20]


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
