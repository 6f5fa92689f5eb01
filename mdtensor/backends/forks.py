"""Locks over forks of the process."""

from __future__ import annotations

import os
from typing import Protocol


class Lock(Protocol):
    """What can be taken and given back: any of `threading`'s locks."""

    def acquire(self) -> object:
        """Wait for the lock and take it."""

    def release(self) -> None:
        """Give it back."""


# In the order in which they were kept.
_kept: list[Lock] = []
_taken: list[Lock] = []  # by the fork that is under way


def keep_over_forks(lock: Lock) -> None:
    """Lets no fork happen while another thread holds a lock, which the child could never take.

    Where several are kept, the latest is taken first: what is kept later may be held while
    one that was kept earlier is taken, and not the other way round.
    """
    _kept.append(lock)


def _take() -> None:
    taken: list[Lock] = []
    # Until a lock was taken, whoever held it may have kept others.
    while left := [lock for lock in _kept if not any(lock is each for each in taken)]:
        for lock in reversed(left):
            lock.acquire()
            taken.append(lock)
    _taken[:] = taken


def _give_back() -> None:
    taken = list(_taken)
    _taken.clear()
    for lock in reversed(taken):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_give_back, after_in_child=_give_back)
