"""A pool that recycles the memory of large arrays.

Memory that the system gives is touched for the first time page by page, which took longer than
many kernels do (ADR 50). The pool has no array: it knows by weak references which of those that it
made are there, and takes the memory of one when that is gone. Arrays of NumPy itself are no
containers, so no garbage collection ends a reference before its array cannot be reached.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from mdtensor.backends.host.memory_blocks import MemoryMap, PooledMemory, size_class
from mdtensor.byte_counts import in_words
from mdtensor.dataclass import dataclass

# Bytes from which arrays are pooled: C libraries recycle smaller ones themselves.
POOLED = 1 << 20
# What any program may have lying in the pool, within the bound.
FLOOR = 64 << 20
# Times of what was live at once lately that may lie in the pool.
SHARE_OF_LIVE = 2
IDLE_S = 10.0
_NUMPYS_DOMAIN = 389047  # of tracemalloc
_track: Any = ctypes.pythonapi.PyTraceMalloc_Track
_track.argtypes = (ctypes.c_uint, ctypes.c_size_t, ctypes.c_size_t)
_untrack: Any = ctypes.pythonapi.PyTraceMalloc_Untrack
_untrack.argtypes = (ctypes.c_uint, ctypes.c_size_t)

Changed = TypeVar("Changed")


class Lease(weakref.ref[np.ndarray]):
    """A weak reference to a pooled array, with its block until that is taken back.

    It has none once that was taken back: a thread that was handed the lease, and does not run yet,
    would keep memory that the pool gives up.
    """

    __slots__ = ("block",)

    block: MemoryMap | None


@dataclass(frozen=True, slots=True)
class Memory:
    """Statistics of the pool in bytes, and its hits and misses.

    `live` is memory of arrays that are there, `pooled` of those that are gone, `peak` the most that
    was live at once, `bound` the most that may be pooled. `launches` keep so much for what lies
    between their steps.
    """

    live: int
    pooled: int
    peak: int
    bound: int
    hits: int
    misses: int
    launches: int = 0

    def __str__(self) -> str:
        sizes = ("live", "pooled", "peak", "bound")
        told = [f"{in_words(getattr(self, name))} {name}" for name in sizes]
        kept = f"{in_words(self.launches)} of launches"
        return ", ".join([*told, f"{self.hits} hits, {self.misses} misses", kept])


class MemoryPool:
    """A pool of blocks by size class; the block freed last is reused first.

    At most `bound()` bytes are pooled, and at most SHARE_OF_LIVE times what was live at once
    lately (or FLOOR). What nothing took for `idle_s` seconds goes back to the system, at the latest
    after twice that. All threads may ask and free at any time, also within garbage collections and
    handlers of signals. In the child of a fork, memory is a copy, and so is the pool. `clock` gives
    seconds.
    """

    def __init__(
        self,
        bound: Callable[[], int],
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bound = bound
        self._clock = clock
        self.lock = threading.RLock()
        self._idle_s = idle_s
        self._is_changing = False
        self._is_closed = False
        self._watched_by = 0  # the process whose thread returns idle blocks
        # Its `put` may run where arrays end, which is anywhere, and runs no Python there.
        self._ended: queue.SimpleQueue[Lease] = queue.SimpleQueue()
        self._leases: dict[int, Lease] = {}  # by address
        self._free: dict[int, deque[MemoryMap]] = {}  # by size, the oldest first; some have none
        self._live = self._pooled = self._peak = 0
        self._lately = self._before = 0  # most that was live at once, now and in the period before
        self._hits = self._misses = 0
        # What tells how much launches keep, and what gives that back.
        self.launches: list[tuple[Callable[[], int], Callable[[], object]]] = []

    def array(self, nbytes: int, layout: Mapping[str, Any]) -> np.ndarray | None:
        """An array of `nbytes` bytes with a layout, a part of NumPy's array interface.

        None where nothing may be pooled, and where the system has no memory.
        """
        if self._is_closed or not self.bound():
            return None
        size = size_class(nbytes)
        self.settle()
        block = self._alone(self._recycled, size) or self._fresh(size)
        if block is None:
            return None
        array = PooledMemory(block).array(layout)
        self._alone(self._lend, block, array, nbytes)
        if self._watched_by != os.getpid():
            self._watch()
        return array

    def now(self) -> Memory:
        """The current statistics."""
        self._alone(self._took_all_back)
        kept = sum(nbytes() for nbytes, _ in self.launches)
        counts = self._hits, self._misses, kept
        return Memory(self._live, self._pooled, self._peak, self.bound(), *counts)

    def free(self) -> None:
        """Unmap all idle blocks, and the memory that launches keep."""
        self._alone(self._emptied)
        for _, give_back in self.launches:
            give_back()

    def trim(self, idle_s: float) -> None:
        """Unmap blocks idle for `idle_s` seconds, and begin a new period."""
        self.settle()
        self._alone(self._trimmed, idle_s)

    def settle(self, *ended: Lease) -> None:
        """Reclaim the memory of arrays known to be gone, and of the given leases."""
        if ended or not self._ended.empty():
            self._alone(self._took_back, *ended)

    def close(self) -> None:
        """Hand out no more memory, at process exit; existing arrays stay valid."""
        self._is_closed = True
        self._alone(self._leases.clear)
        self.free()

    def _alone(self, change: Callable[..., Changed], *given: Any) -> Changed | None:
        """Run a change of the tables under the lock; None if this thread is inside one.

        The handler of a signal or a garbage collection may come at any time, and goes without the
        pool.
        """
        with self.lock:
            if self._is_changing:
                return None
            try:
                self._is_changing = True
                return change(*given)
            finally:
                self._is_changing = False

    def _recycled(self, size: int) -> MemoryMap | None:
        if not self._free.get(size):
            self._take_all_back()
        if not (blocks := self._free.get(size)):
            self._misses += 1
            return None
        block = blocks.pop()
        self._pooled -= size
        self._hits += 1
        return block

    def _fresh(self, size: int) -> MemoryMap | None:
        for _ in range(2):
            try:
                return MemoryMap(size)
            except (OSError, ValueError, OverflowError, MemoryError):
                self.free()  # and so there may be enough
        return None

    def _lend(self, block: MemoryMap, array: np.ndarray, nbytes: int) -> None:
        lease = Lease(array, self._ended.put)
        lease.block = block
        self._leases[block.address] = lease
        self._live += block.nbytes
        self._lately = max(self._lately, self._live)
        self._peak = max(self._peak, self._live)
        _track(_NUMPYS_DOMAIN, block.address, nbytes)

    def _took_back(self, *ended: Lease) -> list[MemoryMap]:
        for lease in ended:
            self._take_back(lease)
        while not self._ended.empty():
            with contextlib.suppress(queue.Empty):
                self._take_back(self._ended.get_nowait())
        return self._evicted(self._allowed())

    def _take_back(self, lease: Lease) -> None:
        block = lease.block
        if block is None or self._leases.get(block.address) is not lease:
            return
        del self._leases[block.address]
        self._live -= block.nbytes
        _untrack(_NUMPYS_DOMAIN, block.address)
        block.since = self._clock()
        self._free.setdefault(block.nbytes, deque()).append(block)
        self._pooled += block.nbytes
        lease.block = None

    def _took_all_back(self) -> list[MemoryMap]:
        self._take_all_back()
        return self._evicted(self._allowed())

    def _emptied(self) -> list[MemoryMap]:
        self._take_all_back()
        return self._evicted(0)

    def _take_all_back(self) -> None:
        """Reclaim the memory of all arrays that are gone, by a scan of the leases.

        An interrupt may have kept it from being settled; or the thread that waits for ends was
        handed one, which nobody else finds in the queue, and does not run yet.
        """
        for lease in [lease for lease in self._leases.values() if lease() is None]:
            self._take_back(lease)

    def _allowed(self) -> int:
        """The limit on pooled bytes."""
        of_live = SHARE_OF_LIVE * max(self._lately, self._before)
        return min(self.bound(), max(FLOOR, of_live))

    def _evicted(self, most: int) -> list[MemoryMap]:
        """Remove the oldest blocks until at most `most` bytes are pooled; returns them.

        Whoever asked lets them go where nobody waits for the tables.
        """
        found: list[MemoryMap] = []
        while self._pooled > most and (sizes := self._sizes()):
            found.append(self._oldest(min(sizes, key=lambda size: self._free[size][0].since)))
        return found

    def _sizes(self) -> list[int]:
        """The size classes with idle blocks."""
        return [size for size, blocks in [*self._free.items()] if blocks]

    def _oldest(self, size: int) -> MemoryMap:
        block = self._free[size].popleft()
        self._pooled -= size
        return block

    def _trimmed(self, idle_s: float) -> list[MemoryMap]:
        self._take_all_back()
        self._live = sum(lease.block.nbytes for lease in self._leases.values() if lease.block)
        self._pooled = sum(size * len(blocks) for size, blocks in self._free.items())
        self._before, self._lately = self._lately, self._live
        since = self._clock() - idle_s
        found: list[MemoryMap] = []
        for size in self._sizes():
            while (blocks := self._free[size]) and blocks[0].since <= since:
                found.append(self._oldest(size))
        return found + self._evicted(self._allowed())

    def _watch(self) -> None:
        """Start a thread that settles and trims the pool until it is empty."""
        try:
            self._watched_by = os.getpid()
            threading.Thread(target=self._watch_over, name="mdtensor-pool", daemon=True).start()
        except BaseException as interrupted:
            self._watched_by = 0
            if not isinstance(interrupted, RuntimeError):  # the process ends, has too many threads
                raise

    def _watch_over(self) -> None:
        due = self._clock() + self._idle_s
        try:
            while self._leases or self._sizes():
                with contextlib.suppress(queue.Empty):
                    self.settle(self._ended.get(timeout=max(0.0, due - self._clock())))
                if self._clock() >= due:
                    self.trim(self._idle_s)
                    due = self._clock() + self._idle_s
        finally:
            self._watched_by = 0
        if self._leases or self._sizes():  # by now: who made these saw this thread
            self._watch()
