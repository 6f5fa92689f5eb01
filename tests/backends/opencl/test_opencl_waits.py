"""Waits for OpenCL when the process ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mdtensor import process_end
from mdtensor.backends.opencl import opencl_waits
from mdtensor.backends.opencl.opencl_waits import enqueuing, returning


@pytest.fixture(autouse=True)
def _goes_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undoes an end, before which no wait is under way."""
    monkeypatch.setattr(opencl_waits, "FOR_KERNELS_S", 0.3)
    monkeypatch.setattr(process_end, "_began", [])
    assert not opencl_waits._is_waiting()
    yield
    opencl_waits._ended.clear()


def begun(wait) -> threading.Thread:
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


@pytest.mark.campaign
def test_an_end_lets_waits_return() -> None:
    held = threading.Lock()
    held.acquire()
    wait: Any = held.acquire
    thread = begun(returning(wait))
    while not opencl_waits._is_waiting():
        time.sleep(0.001)
    threading.Timer(0.1, held.release).start()
    opencl_waits._end()
    assert not opencl_waits._is_waiting()
    assert not held.acquire(blocking=False), "it was taken by the wait"
    thread.join(10)


@pytest.mark.campaign
def test_an_end_does_not_wait_for_ever() -> None:
    held = threading.Lock()
    held.acquire()
    wait: Any = held.acquire
    thread = begun(returning(wait))
    while not opencl_waits._is_waiting():
        time.sleep(0.001)
    start = time.monotonic()
    opencl_waits._end()
    assert 0.25 < time.monotonic() - start < 10
    held.release()
    thread.join(10)
    assert not thread.is_alive()
    assert not opencl_waits._is_waiting()


def test_behind_an_end_the_main_thread_alone_waits() -> None:
    seen: list[int] = []
    wait = returning(lambda: seen.append(threading.get_ident()))
    opencl_waits._end()
    thread = begun(wait)
    wait()
    thread.join(0.2)
    assert thread.is_alive()
    assert seen == [threading.get_ident()]
    assert not opencl_waits._is_waiting()


@pytest.mark.campaign
def test_what_is_enqueued_is_waited_for_and_begins_no_more() -> None:
    held = threading.Lock()
    held.acquire()

    def copy() -> None:  # PyOpenCL's is a function of Python, too, around the call
        held.acquire()

    thread = begun(enqueuing(copy))
    while not opencl_waits._is_waiting():
        time.sleep(0.001)
    threading.Timer(0.1, held.release).start()
    opencl_waits._end()
    assert not opencl_waits._is_waiting()
    thread.join(10)
    seen: list[str] = []
    enqueue = enqueuing(lambda: seen.append("enqueued"))

    def late() -> None:
        try:
            enqueue()
        except SystemExit:
            seen.append("ended")

    begun(late).join(10)
    enqueue()
    assert seen == ["ended", "enqueued"]
