"""Invalidation of call caches: their registry, and the generations of kernels.

Front ends keep launches in tables, plans keep their own. All are dropped when better kernels may
exist.
"""

from __future__ import annotations

import itertools
import weakref
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


class Clearable(Protocol):
    """A table of launches that `clear` empties."""

    def clear(self) -> None:
        """Drops all entries."""
        ...


# The launches of the calls of each front end.
tables: list[Clearable] = []
_generations = itertools.count()  # of which no thread takes the number that another one takes
_generation = next(_generations)


class Forgetful(Protocol):
    """An object with cached launches of its own."""

    def forget(self) -> None:
        """Drops the launches; better ones may exist."""
        ...


# By their numbers. No WeakSet: other threads may add to this one while it is gone through.
_listeners: dict[int, weakref.ref[Forgetful]] = {}


def when_cleared(keeper: Forgetful) -> None:
    """Registers an object, by a weak reference, to drop its launches when caches are cleared."""
    number = id(keeper)
    _listeners[number] = weakref.ref(keeper, lambda _: _listeners.pop(number, None))


def clear() -> None:
    """Clears all call caches, and the choices of plans and engines.

    They do so twice: whoever sees the new generation finds nothing of the old one, and what was
    kept until then goes, too.
    """
    global _generation
    _forget()
    _generation = next(_generations)
    for table in tables:
        table.clear()
    _forget()


def _forget() -> None:
    for reference in list(_listeners.values()):
        keeper = reference()
        if keeper is not None:
            keeper.forget()


def generation() -> int:
    """The current generation of kernels; launches of an older one are not cached."""
    return _generation
