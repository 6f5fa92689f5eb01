"""A pool of threads that run the groups of kernels."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class WorkerThreads:
    """Threads that sleep between kernels; the caller is one of those that work."""

    def __init__(self, count: int) -> None:
        self.count = count
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        # It takes a lock in forks, and must not begin to while devices are looked for.
        from concurrent.futures import ThreadPoolExecutor

        return ThreadPoolExecutor(self.count - 1, thread_name_prefix="mdtensor")

    def _forget(self) -> None:
        """A child of a fork has none of its parent's threads."""
        self.__dict__.pop("_pool", None)

    def run(self, work: Callable[[int, int], None], groups: int) -> None:
        """Runs `work(begin, end)` on parts of the groups at one time, and waits for all."""
        parts = min(groups, self.count)
        if parts <= 1:
            work(0, groups)
            return
        bounds = [groups * n // parts for n in range(parts + 1)]
        begun = [self._pool.submit(work, *part) for part in pairwise(bounds[1:])]
        try:
            work(0, bounds[1])
        finally:  # also where an interrupt comes: the kernel has the arrays' memory
            for each in begun:
                each.result()
