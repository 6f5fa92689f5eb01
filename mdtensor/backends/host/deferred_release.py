"""Deferred release: what destructors would free, a compiler frees when it next works."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

Held = TypeVar("Held")


class Owner(Generic[Held]):
    """Keeps an object for as long as this one lives, and until the next release at least."""

    __slots__ = ("__weakref__", "held")

    def __init__(self, held: Held) -> None:
        self.held = held


class DeferredRelease(Generic[Held]):
    """Objects that are freed by `release` alone, once their owners are gone.

    Owners end wherever the last reference to them is dropped: in any thread, beside a compilation,
    and where an interrupt may come. None of Python's code runs there.
    """

    def __init__(self) -> None:
        self._held: dict[weakref.ref[Owner[Held]], Held] = {}
        self._ended: list[weakref.ref[Owner[Held]]] = []

    def __len__(self) -> int:
        """How many objects wait for a release."""
        return len(self._ended)

    def owner(self, held: Held) -> Owner[Held]:
        """The one owner of an object."""
        owner = Owner(held)
        self._held[weakref.ref(owner, self._ended.append)] = held
        return owner

    def release(self) -> None:
        """Frees what has no owner any more, here and now."""
        for owner in tuple(self._ended):
            self._held.pop(owner, None)
            self._ended.remove(owner)
