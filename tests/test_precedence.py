"""Precedence: background threads wait while calls are prepared, and not for ever."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec
from types import SimpleNamespace
from typing import Any

import pytest


def _loaded_again(name: str) -> Any:
    """A module of its own, which no background thread of this process knows."""
    spec: Any = find_spec(name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


precedence = _loaded_again("mdtensor.precedence")


class Clock:
    """A clock that goes on while somebody sleeps, and calls what is `due` by then."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.due: dict[float, object] = {}

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for moment in [moment for moment in self.due if moment <= self.now]:
            self.due.pop(moment)()  # type: ignore[operator]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(
        precedence, "time", SimpleNamespace(monotonic=clock.read, sleep=clock.sleep)
    )
    for name in ("_first", "_begun", "_ended"):
        monkeypatch.setattr(precedence, name, float("-inf"))
    return clock


def waited(clock: Clock) -> float:
    begin = clock.now
    precedence.give_way()
    return clock.now - begin


def test_nobody_waits_where_no_call_is_prepared(clock: Clock) -> None:
    assert waited(clock) < 0.001
    precedence.preparing()
    precedence.prepared()
    clock.sleep(0.1)
    assert waited(clock) < 0.001


def test_a_call_that_is_prepared_comes_first(clock: Clock) -> None:
    precedence.preparing()
    clock.due[clock.now + 0.1] = precedence.prepared
    assert 0.11 <= waited(clock) <= 0.15


def test_calls_that_never_stop_are_waited_for_once(clock: Clock) -> None:
    begin = clock.now
    for number in range(1000):
        clock.due[begin + 0.02 * number] = precedence.preparing
        clock.due[begin + 0.02 * number + 0.01] = precedence.prepared
    clock.sleep(0.0)
    assert 0.25 <= waited(clock) <= 0.35
    assert waited(clock) < 0.001
    clock.sleep(0.1)
    precedence.preparing()
    assert waited(clock) < 0.001, "it goes on, after pauses that are longer than most"


def test_a_call_that_does_not_end_is_waited_for_once(clock: Clock) -> None:
    precedence.preparing()
    assert 0.25 <= waited(clock) <= 0.35
    assert waited(clock) < 0.001


def test_who_evaluates_takes_turns_with_work_and_with_nothing_else(clock: Clock) -> None:
    slept: list[float] = []
    precedence.time.sleep = slept.append
    precedence.take_turns()
    assert not slept
    with precedence.working():
        precedence.take_turns()
    assert slept == [0]
    precedence.take_turns()
    assert slept == [0]
