"""Threads that take turns as often as they can, so that what they share is seen half changed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable


def at_once(*works: Callable[[], object]) -> None:
    """Does all of it at the same time, each in a thread; raises what one of them raised."""
    failed: list[BaseException] = []

    def done(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=done, args=(work,)) for work in works]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if failed:
        raise failed[0]
