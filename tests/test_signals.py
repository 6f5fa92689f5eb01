"""Work that is not interrupted: results, errors, and a signal that comes while it goes on."""

from __future__ import annotations

import _thread
import signal
import threading
from typing import Any

import pytest

from mdtensor.signals import uninterrupted


class InterruptedWaitError(Exception):
    pass


def test_results_and_errors_are_those_of_the_function() -> None:
    assert uninterrupted(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        uninterrupted(divmod, 7, 0)


@pytest.mark.process
def test_who_waits_is_interrupted_and_the_work_is_done() -> None:
    """The work sends signals until one is handled, and ends when the caller was interrupted.

    One that comes just before the caller begins to wait, Python handles only behind the wait.
    """
    is_handled, may_end, is_done = (threading.Event() for _ in range(3))

    def handle(*_: Any) -> None:
        if not is_handled.is_set():
            is_handled.set()
            raise InterruptedWaitError

    def work() -> None:
        while not is_handled.wait(0.01):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
        if may_end.wait(60):
            is_done.set()

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with pytest.raises(InterruptedWaitError):
            uninterrupted(work)
        assert not is_done.is_set()
        may_end.set()
        assert is_done.wait(60)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_other_threads_work_themselves() -> None:
    names: list[str] = []
    thread = threading.Thread(
        target=lambda: names.append(uninterrupted(lambda: threading.current_thread().name)),
        name="caller",
    )
    thread.start()
    thread.join()
    assert names == ["caller"]


def test_where_no_thread_begins_the_caller_works_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from the end of the interpreter on."""

    def fails(*_: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(_thread, "start_new_thread", fails)
    assert uninterrupted(threading.current_thread) is threading.main_thread()
