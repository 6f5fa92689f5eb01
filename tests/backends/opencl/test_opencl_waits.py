"""Waits for OpenCL when the process ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from mdtensor import process_end
from mdtensor.backends.opencl import opencl_waits
from mdtensor.backends.opencl.opencl_waits import enqueuing, returning

LIMIT_S = 60


class Clock:
    """A clock that goes on as something sleeps; `then` happens after so many seconds."""

    def __init__(self) -> None:
        self.now, self.due = 0.0, 1.0
        self.then: Callable[[], object] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self.due:
            self.due = float("inf")
            self.then()


class Held:
    """A thread that waits as it is told to, until it may go on."""

    def __init__(self, told: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        self._begins, self._may_end = threading.Event(), threading.Event()
        self.has_waited = False
        self._thread = threading.Thread(target=told(self._wait))
        self._thread.start()
        assert self._begins.wait(LIMIT_S)

    def _wait(self) -> None:  # PyOpenCL's copies are functions of Python, too, around the call
        self._begins.set()
        self.has_waited = self._may_end.wait(LIMIT_S)

    def go_on(self) -> None:
        self._may_end.set()
        self._thread.join(LIMIT_S)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """The clock of an end, which is undone, and before which no wait is under way."""
    clock = Clock()
    for module in (opencl_waits, process_end):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(process_end, "_began", [])
    monkeypatch.setattr(opencl_waits, "_queues", [])
    assert not opencl_waits._is_waiting()
    yield clock
    opencl_waits._ended.clear()


@pytest.mark.parametrize("told", [returning, enqueuing])
def test_an_end_lets_waits_and_what_is_enqueued_return(told: Any, clock: Clock) -> None:
    held = Held(told)
    assert opencl_waits._is_waiting()
    clock.then = held.go_on
    opencl_waits._end()
    assert held.has_waited
    assert not opencl_waits._is_waiting()
    assert 1.0 <= clock.now < 1.1


def test_an_end_does_not_wait_for_ever(clock: Clock) -> None:
    held = Held(returning)
    opencl_waits._end()
    assert opencl_waits._is_waiting()
    held.go_on()
    assert clock.now == pytest.approx(process_end.FOR_KERNELS_S, abs=0.1)
    assert not opencl_waits._is_waiting()


@pytest.mark.parametrize(("due", "seconds"), [(1.0, 1.0), (99.0, process_end.FOR_KERNELS_S)])
def test_a_fork_waits_for_commands_under_way(
    due: float, seconds: float, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps Python's lock, and does not wait for ever."""
    under_way = [None]
    clock.due, clock.then = due, under_way.clear
    monkeypatch.setattr(
        opencl_waits, "_markers", lambda *, inherited: [lambda: inherited and not under_way]
    )
    waits = SimpleNamespace(usleep=lambda us: clock.sleep(us / 1e6))
    monkeypatch.setattr(opencl_waits, "_c", waits)
    monkeypatch.setattr(opencl_waits, "_stat_files", list)
    opencl_waits._Commands().acquire()
    assert clock.now == pytest.approx(seconds, abs=0.01)


def test_behind_an_end_the_main_thread_alone_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    stays, may_end = threading.Event(), threading.Event()

    class ForEver:
        def wait(self) -> None:
            stays.set()
            may_end.wait(LIMIT_S)
            raise SystemExit

    like = {**vars(threading), "Event": ForEver}
    monkeypatch.setattr(process_end, "threading", SimpleNamespace(**like))
    seen: list[threading.Thread] = []
    wait = returning(lambda: seen.append(threading.current_thread()))
    opencl_waits._end()

    def late() -> None:
        with suppress(SystemExit):
            wait()

    thread = threading.Thread(target=late)
    thread.start()
    assert stays.wait(LIMIT_S)
    assert not opencl_waits._is_waiting()
    wait()
    may_end.set()
    thread.join(LIMIT_S)
    assert seen == [threading.main_thread()]


def test_behind_an_end_the_main_thread_alone_enqueues() -> None:
    opencl_waits._end()
    seen: list[str] = []
    enqueue = enqueuing(lambda: seen.append("enqueued"))

    def late() -> None:
        with pytest.raises(SystemExit):
            enqueue()
        seen.append("ended")

    thread = threading.Thread(target=late)
    thread.start()
    thread.join(LIMIT_S)
    enqueue()
    assert seen == ["ended", "enqueued"]
