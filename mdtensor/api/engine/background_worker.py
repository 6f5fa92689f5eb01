"""Background work: a queue and a worker thread for each kind of work."""

from __future__ import annotations

import atexit
import os
import threading
import time
import traceback
from collections.abc import Callable, Hashable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from mdtensor.forks import keep_over_forks
from mdtensor.precedence import give_way, working
from mdtensor.process_end import seconds_left
from mdtensor.signals import uninterrupted
from mdtensor.stage_timer import StageRecorder, asked_for, beside

# What waits at most, unless it must be done; callers can do without the rest.
_MOST_WAITING = 256
# Seconds at most before each piece of work, and no more than this thread computed for the last one:
# other threads come first, and what other processes compute is not in their way.
_PAUSE = 0.05
# Seconds without work after which what it uses is let go of.
_IDLE = 10.0
_LONGEST_S = 10.0  # for work that is told to end
_NAME = "mdtensor-background"
Work = TypeVar("Work")


class Background(Generic[Work]):
    """A worker thread for one kind of work, started on demand. Safe for threads, forks, interrupts.

    What a piece of work raises is reported, and the next one is done. `rest` lets go of what the
    work uses, where there was none for a while; `stop` has work end that is under way, which may
    raise, and is not reported.
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
        # In the order of asking: work, the recorder of the call that asked for it, and its worth.
        self._waiting: dict[Hashable, tuple[Work, StageRecorder | None, float]] = {}
        self._asked: SimpleQueue[None] = SimpleQueue()  # wakes the thread
        self._last_s = _PAUSE  # that this thread computed for the last piece of work
        self._told: set[object] = set()  # places of errors
        self._lock = threading.RLock()
        keep_over_forks(self._lock)
        self._changed = threading.Condition(self._lock)
        self._is_closing = False
        atexit.register(self._end)

    def ask(self, key: Hashable, work: Work, *, must: bool = False, worth: float = 0.0) -> None:
        """Enqueues work unless its key is waiting; a full queue drops it, unless it `must` run.

        What is worth most is done first: the seconds of a launch that it may save.
        """
        if self._thread is None or self._process != os.getpid():
            self._begin()
        if len(self._waiting) >= _MOST_WAITING and not must:
            return
        # setdefault is atomic: only one of several racing threads enqueues.
        asked = work, asked_for(), worth
        if self._waiting.setdefault(key, asked) is asked:
            self._asked.put(None)

    def _begin(self) -> None:
        """Starts the thread, unless it runs; a forked child has neither a thread nor work yet."""
        uninterrupted(self._start)

    def _start(self) -> None:
        with self._lock:
            if self._process != os.getpid():
                self._waiting, self._asked = {}, SimpleQueue()
                self._thread, self._process = None, os.getpid()
            if self._thread is None and not self._is_closing:
                thread = threading.Thread(target=self._do_all, name=_NAME, daemon=True)
                with suppress(RuntimeError):  # there are too many, or the interpreter ends
                    thread.start()
                    self._thread = thread

    def _do_all(self) -> None:
        """The thread's loop: drains the queue, with a pause before each piece of work."""
        try:
            while not self._pause():
                try:
                    if not self._do_next():
                        self._wait()
                except SystemExit:  # of a compiler, at the end of the process
                    raise
                except BaseException as error:
                    if not self._is_closing:  # else `stop` had it raise
                        self._tell(error)
        finally:
            with self._lock:
                self._thread = None
                self._changed.notify_all()

    def _pause(self) -> bool:
        """Sleeps briefly, and while calls are being prepared; whether the thread should end."""
        give_way()
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closing, min(_PAUSE, self._last_s))

    def _do_next(self) -> bool:
        """Runs the pending work of greatest worth, the oldest of equals; False where none is."""
        waiting = {key: worth for key, (_, _, worth) in tuple(self._waiting.items())}
        if waiting:
            key = max(waiting, key=waiting.__getitem__)
            work, told, _ = self._waiting[key]
            begun = time.thread_time()
            try:
                with working():
                    beside(told, self._do, work)
            finally:
                self._last_s = time.thread_time() - begun
                with self._lock:
                    del self._waiting[key]
                    self._changed.notify_all()
            return True
        return False

    def _wait(self) -> None:
        """Waits for work to be enqueued; after an idle period, releases the work's resources."""
        try:
            self._asked.get(timeout=_IDLE)
        except Empty:
            self._rest()
            self._asked.get()

    def _tell(self, error: BaseException) -> None:
        """Reports an error through `threading.excepthook`, once for each place."""
        *_, (frame, line) = traceback.walk_tb(error.__traceback__)
        if (place := (type(error), frame.f_code, line)) not in self._told:
            self._told.add(place)
            raised = type(error), error, error.__traceback__, threading.current_thread()
            threading.excepthook(threading.ExceptHookArgs(raised))

    def has(self, key: Hashable) -> bool:
        """Whether work with a key is pending or running."""
        return key in self._waiting and not self._is_settled()

    def settle(self, timeout: float) -> None:
        """Waits until the queue is empty, at most `timeout` seconds."""
        uninterrupted(self._wait_for_all, timeout)

    def _wait_for_all(self, timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(self._is_settled, timeout)

    def _is_settled(self) -> bool:
        return not self._waiting or self._thread is None or self._process != os.getpid()

    def _end(self) -> None:
        self.finish(seconds_left(_LONGEST_S))

    def finish(self, timeout: float = _LONGEST_S) -> None:
        """Ends the thread, before what its work uses goes; waits at most `timeout` seconds."""
        with self._lock:
            self._is_closing = True
            self._changed.notify_all()
        self._stop()
        self._asked.put(None)
        thread = self._thread
        if thread is not None and self._process == os.getpid():
            thread.join(timeout)
