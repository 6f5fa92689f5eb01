"""Devices that do nothing until they are waited for, and then in any order that events allow.

Memory has what nobody should read where nothing was written.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.errors import LaunchError

POISON = 0xA5


class Event:
    """A command, the ones before it, and whether it is done."""

    def __init__(self, work: Callable[[], None], after: Sequence[Event]) -> None:
        self.work, self.after = work, list(after)
        self.is_done = False
        self.times = (0.0, 0.0)
        self.error: Exception | None = None


class World:
    """All commands of all devices, and a clock that counts them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.waiting: list[Event] = []
        self.clock = itertools.count()

    def run_until(self, event: Event) -> None:
        while not event.is_done:
            ready = [e for e in self.waiting if all(before.is_done for before in e.after)]
            assert ready, "every command waits for another one"
            chosen = self.random.choice(ready)
            self.waiting.remove(chosen)
            chosen.work()
            chosen.is_done = True
            now = float(next(self.clock))
            chosen.times = (now, now + 0.5)


class LateDevice:
    """A device whose kernels are functions of NumPy arrays, by their names."""

    language = "opencl"

    def __init__(
        self, name: str, world: World, family: object, kernels: dict[str, Callable[..., None]]
    ) -> None:
        self.name, self.world, self.kernels = name, world, kernels
        self.family = family
        self.moved = 0
        self.refuses = False

    def compiled(self, text: str, name: str, options: Sequence[str]) -> Any:
        return self.kernels[name]

    def empty(self, nbytes: int) -> np.ndarray:
        return np.full(nbytes, POISON, np.uint8)

    def part(self, memory: np.ndarray, begin: int, nbytes: int) -> np.ndarray:
        assert 0 <= begin <= begin + nbytes <= memory.size
        return memory[begin : begin + nbytes]

    def put(self, memory: Any, begin: int, source: Any, after: Sequence[Event]) -> Event:
        return self._copied(memory[begin : begin + source.nbytes], source, after)

    def get(self, target: Any, memory: Any, begin: int, after: Sequence[Event]) -> Event:
        return self._copied(target, memory[begin : begin + target.nbytes], after)

    def copy(
        self, target: Any, to: int, source: Any, begin: int, nbytes: int, after: Sequence[Event]
    ) -> Event:
        return self._copied(target[to : to + nbytes], source[begin : begin + nbytes], after)

    def _copied(self, target: np.ndarray, source: np.ndarray, after: Sequence[Event]) -> Event:
        assert target.size == source.size
        self.moved += target.size
        return self.enqueued(lambda: np.copyto(target, source), after)

    def launch(
        self, kernel: Any, whole: Any, group: Any, arguments: Sequence[Any], after: Sequence[Event]
    ) -> Event:
        if self.refuses:
            raise LaunchError(f"{self.name} refused a launch")
        return self.enqueued(lambda: kernel(*arguments), after)

    def enqueued(self, work: Callable[[], None], after: Sequence[Event]) -> Event:
        event = Event(work, after)
        self.world.waiting.append(event)
        return event

    def wait(self, event: Event) -> None:
        self.world.run_until(event)

    def finish(self) -> None:
        while self.world.waiting:
            self.world.run_until(self.world.waiting[0])

    def is_done(self, event: Event) -> bool:
        return event.is_done

    def times(self, event: Event) -> tuple[float, float]:
        return event.times
