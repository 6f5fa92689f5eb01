"""Fork safety: locks that a forked child never inherits locked, and imports it can redo."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

_Value_co = TypeVar("_Value_co", covariant=True)


class cached_property(functools.cached_property[_Value_co]):  # noqa: N801, TID251
    """`functools.cached_property` without a lock.

    Python 3.11 has a lock there, one for all objects of a class: whoever computes the attribute
    of one lets all others wait, and the child of a fork for ever. Two threads that ask for the
    same at once may both compute it.
    """

    def __init__(self, compute: Callable[[Any], _Value_co]) -> None:
        super().__init__(compute)
        self.lock = contextlib.nullcontext()


class Lock(Protocol):
    """Protocol of `threading`'s locks."""

    def acquire(self) -> object:
        """Blocks until the lock is acquired."""

    def release(self) -> None:
        """Releases the lock."""


# They take locks in forks, too, and must not begin to while one of them waits: what a module gives
# back after a fork that began before the module was imported, nobody has taken.
importlib.import_module("logging")
importlib.import_module("concurrent.futures.thread")

_LONGEST_IMPORT_S = 10.0
_UNTIL_FORKED_S = 0.5
_forking = threading.Lock()  # one fork after the other
_interval = sys.getswitchinterval()
# In the order in which they were kept.
_kept: list[Lock] = []
_taken: list[Lock] = []  # by the fork that is under way


def keep_over_forks(lock: Lock, *, innermost: bool = False) -> None:
    """Register a lock that `os.fork` acquires first, so that no child inherits it locked.

    Where several are kept, the latest is taken first: what is kept later may be held while
    one that was kept earlier is taken, and not the other way round. While any of them is held, one
    that is `innermost` may be taken.
    """
    _kept.insert(0 if innermost else len(_kept), lock)


def _take() -> None:
    """The handler before a fork: acquire all registered locks while no other thread imports."""
    global _interval
    _forking.acquire()
    _interval = sys.getswitchinterval()
    end = time.monotonic() + _LONGEST_IMPORT_S
    while True:
        sys.setswitchinterval(_UNTIL_FORKED_S)  # so that no other thread goes on until the fork
        _take_all()
        if not _is_importing() or time.monotonic() >= end:
            return
        _release()
        sys.setswitchinterval(_interval)
        time.sleep(0.001)


def _take_all() -> None:
    """Acquire all locks, latest first; restart if one was registered meanwhile.

    Whoever has that one may wait for an earlier one, which this would otherwise have by then.
    """
    known: list[Lock] = []
    while len(known) < len(_kept):
        _release()
        known = _kept[:]
        for lock in reversed(known):
            lock.acquire()
            _taken.append(lock)


# Locks of Python's import system, which has no public way to ask for them, by names of modules.
_module_locks: dict[str, Any] = vars(sys.modules["_frozen_importlib"]).get("_module_locks", {})


def _imported_by_others() -> list[str]:
    """Names of the modules whose import lock another thread holds."""
    locks = [(name, reference()) for name, reference in tuple(_module_locks.items())]
    free = None, threading.get_ident()
    return [name for name, lock in locks if getattr(lock, "owner", None) not in free]


def _is_importing() -> bool:
    """Whether another thread imports a module."""
    return bool(_imported_by_others())


def _begin_imports_anew() -> None:
    """In a child, drop import locks and half-initialised modules of threads that are gone."""
    for name in _imported_by_others():
        del _module_locks[name]
        if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
            del sys.modules[name]


def _give_back() -> None:
    _release()
    sys.setswitchinterval(_interval)
    _forking.release()


def _give_back_in_child() -> None:
    _begin_imports_anew()
    _give_back()


def _release() -> None:
    taken = list(_taken)
    _taken.clear()
    for lock in reversed(taken):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_take, after_in_parent=_give_back, after_in_child=_give_back_in_child
    )
