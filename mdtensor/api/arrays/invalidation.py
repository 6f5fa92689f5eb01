"""Invalidation of cached launches: their registry, and the generations of kernels.

Front ends keep launches in tables, plans keep their own. Those that a better kernel replaces are
dropped when it is there, all of them when a device is chosen or something was tuned.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

# Whether a call had tensors of torch.
has_tensors = False


class ContextWatch:
    """A flag that, while alive, sends all calls through the checks of their context.

    No interrupt can come between its end and that of its element of `watchers`.
    """

    __slots__ = ("__weakref__",)


def watch() -> ContextWatch:
    """A new flag; it lives as long as the context holds it."""
    made = ContextWatch()
    try:
        watchers.append(weakref.ref(made, watchers.remove))
        return made
    finally:
        del made  # which the traceback of an interrupt would keep


# One element for each call of any thread that is being recorded, and for each mode of
# tuning that was entered: where there is one, calls ask what is meant for their own context.
watchers: list[weakref.ref[ContextWatch]] = []


# Whether a launch is out of date, by the kernels that serve it; None where nobody knows these.
IsStale = Callable[[Sequence[object] | None], bool]


class Keeper(Protocol):
    """An object with cached launches."""

    def drop(self, is_stale: IsStale) -> object:
        """Drops the launches that are out of date."""
        ...


def all_launches(served_by: Sequence[object] | None) -> bool:
    """True: every launch is out of date."""
    return True


# By their numbers. No WeakSet: other threads may add to this one while it is gone through.
_keepers: dict[int, weakref.ref[Keeper]] = {}
_generations = itertools.count()  # of which no thread takes the number that another one takes
_generation = next(_generations)


def register(keeper: Keeper) -> None:
    """Registers an object, by a weak reference, to be told of launches that are out of date."""
    number = id(keeper)
    _keepers[number] = weakref.ref(keeper, lambda _: _keepers.pop(number, None))


def drop(is_stale: IsStale) -> None:
    """Drops cached launches, and choices of kernels, that are out of date.

    They are dropped twice: whoever sees the new generation finds nothing of the old one, and what
    was kept until then goes, too.
    """
    global _generation
    _drop(is_stale)
    _generation = next(_generations)
    _drop(is_stale)


def _drop(is_stale: IsStale) -> None:
    for reference in list(_keepers.values()):
        if (keeper := reference()) is not None:
            keeper.drop(is_stale)


def clear() -> None:
    """Drops all cached launches and choices of kernels."""
    drop(all_launches)


def generation() -> int:
    """The number of times that launches were dropped; one chosen before that is not cached."""
    return _generation
