"""Background work: a queue and a worker thread for each kind of work."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Hashable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from mdtensor.forks import keep_over_forks
from mdtensor.process_end import seconds_left
from mdtensor.stage_timer import Recorder, asked_for, beside

# What waits at most, unless it must be done; callers can do without the rest.
_MOST_WAITING = 256
# Seconds before each piece of work: other threads come first.
_PAUSE = 0.05
# Seconds without work after which what it uses is let go of.
_IDLE = 10.0
_LONGEST_S = 10.0  # for work that is told to end
Work = TypeVar("Work")


class Background(Generic[Work]):
    """A worker thread for one kind of work, started on demand. Safe for threads and forks.

    `rest` lets go of what the work uses, where there was none for a while; `stop` has work end
    that is under way.
    """

    def __init__(
        self,
        do: Callable[[Work], None],
        *,
        rest: Callable[[], None] = lambda: None,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._do, self._rest, self._stop = do, rest, stop
        self._thread: threading.Thread | None = None
        self._process = 0  # the one whose thread that is
        # Work, and the recorder of the call that asked for it.
        self._waiting: dict[Hashable, tuple[Work, Recorder | None]] = {}
        self._asked: SimpleQueue[Hashable] = SimpleQueue()  # keys, and None for the end
        lock = threading.RLock()
        keep_over_forks(lock)
        self._changed = threading.Condition(lock)
        self._closing = threading.Event()
        atexit.register(self._end)

    def ask(self, key: Hashable, work: Work, *, must: bool = False) -> None:
        """Enqueues work unless its key is waiting; a full queue drops it, unless it `must` run."""
        if self._thread is None or self._process != os.getpid():
            self._begin()
        if len(self._waiting) >= _MOST_WAITING and not must:
            return
        # setdefault is atomic: only one of several racing threads enqueues.
        asked = work, asked_for()
        if self._waiting.setdefault(key, asked) is asked:
            self._asked.put(key)

    def _begin(self) -> None:
        """Starts the thread; a forked process has none yet."""
        with self._changed:
            is_known = self._thread is not None and self._process == os.getpid()
            if not is_known and not self._closing.is_set():
                self._waiting, self._asked, self._process = {}, SimpleQueue(), os.getpid()
                self._thread = threading.Thread(target=self._do_all, daemon=True)
                self._thread.start()

    def _do_all(self) -> None:
        """The thread's loop: works off the queue, with a pause before each piece of work."""
        try:
            while (key := self._next()) is not None:
                if self._closing.wait(_PAUSE):
                    return
                self._work_on(key)
        finally:
            self._thread = None

    def _work_on(self, key: Hashable) -> None:
        """Does the work that waits by this key."""
        try:
            work, told = self._waiting[key]
            beside(told, self._do, work)
        finally:
            with self._changed:
                del self._waiting[key]
                self._changed.notify_all()

    def _next(self) -> Hashable:
        """The key of what is to be done next, or None, when there is one."""
        try:
            return self._asked.get(timeout=_IDLE)
        except Empty:
            self._rest()
            return self._asked.get()

    def has(self, key: Hashable) -> bool:
        """Whether work with this key is waiting or under way."""
        return key in self._waiting and not self._is_settled()

    def settle(self, timeout: float) -> None:
        """Waits until the queue is empty, at most `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(self._is_settled, timeout)

    def _is_settled(self) -> bool:
        return not self._waiting or self._thread is None or self._process != os.getpid()

    def _end(self) -> None:
        self.finish(seconds_left(_LONGEST_S))

    def finish(self, timeout: float = _LONGEST_S) -> None:
        """Ends the work, so that no thread outlives what it uses; waits so many seconds at most."""
        self._closing.set()
        self._stop()
        self._asked.put(None)
        thread = self._thread
        if thread is not None and self._process == os.getpid():
            thread.join(timeout)
