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


def keep_over_forks(lock: Lock) -> None:
    """Lets no fork happen while another thread holds a lock, which the child could never take.

    Where several are kept, the latest is taken first: what is kept later may be held while
    one that was kept earlier is taken, and not the other way round.
    """
    taken: list[Lock] = []

    def take() -> None:
        lock.acquire()
        taken.append(lock)

    def give_back() -> None:
        # A fork that began before the lock was kept, and waited for another one, did not take it.
        if taken:
            taken.pop().release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=take, after_in_parent=give_back, after_in_child=give_back)
