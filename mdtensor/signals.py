"""Calls that signal handlers cannot interrupt."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def uninterrupted(function: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
    """Calls a function to its end, from the main thread in a thread of its own.

    Python runs handlers of signals in the main thread alone. Where one raises, as Ctrl-C does, the
    caller stops waiting, and the function goes on: nothing that it makes is left half made. Locks
    in C do the waiting: those written in Python, of which events and futures are made, may stay
    locked for ever where a handler raises as they are taken.
    """
    # Threads that begin as the interpreter ends do not run.
    if threading.current_thread() is not threading.main_thread() or sys.is_finalizing():
        return function(*args, **options)
    results: list[R] = []
    errors: list[BaseException] = []
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            results.append(function(*args, **options))
        except BaseException as error:
            errors.append(error)
        finally:
            done.release()

    try:
        _thread.start_new_thread(work, ())
    except RuntimeError:  # there are too many, or the interpreter ends
        work()
    done.acquire()
    if errors:
        raise errors.pop()  # so that its traceback has no reference to it
    return results.pop()
