"""Deferred release: objects are freed at the compiler's next safe point, not by destructors."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

Held = TypeVar("Held")


class Owner(Generic[Held]):
    """The handle of an object, which is kept until a release after the handle's end."""

    __slots__ = ("__weakref__", "held")

    def __init__(self, held: Held) -> None:
        self.held = held


class DeferredRelease(Generic[Held]):
    """Objects that only `release` frees, once their owners are gone.

    Owners end wherever the last reference to them is dropped: in any thread, beside a compilation,
    and where an interrupt may come. None of Python's code runs there.
    """

    def __init__(self) -> None:
        self._held: dict[weakref.ref[Owner[Held]], Held] = {}
        self._ended: list[weakref.ref[Owner[Held]]] = []

    def __len__(self) -> int:
        """The number of objects that wait for a release."""
        return len(self._ended)

    def owner(self, held: Held) -> Owner[Held]:
        """The handle of an object; there may be one only."""
        owner = Owner(held)
        self._held[weakref.ref(owner, self._ended.append)] = held
        return owner

    def release(self) -> None:
        """Free the objects without an owner."""
        for owner in tuple(self._ended):
            self._held.pop(owner, None)
            self._ended.remove(owner)
