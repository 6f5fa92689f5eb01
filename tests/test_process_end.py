"""What the end of a process waits for, together, and what may still compute then."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mdtensor import process_end
from mdtensor.api.engine.background_worker import Background
from mdtensor.backends.opencl.opencl_device import OpenCLDevice
from tests.api.survival.programs import ended, started


@pytest.fixture(autouse=True)
def _not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_end, "_began", [])


def test_the_end_begins_with_what_first_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert process_end.seconds_left(10.0) == 10.0
    now[0] += 50.0
    assert process_end.seconds_left(10.0) == 5.0
    assert process_end.seconds_left() == 5.0
    now[0] += 7.0
    assert process_end.seconds_left() == 0.0
    assert process_end.seconds_left(5.0, spare=0.0) == 3.0
    now[0] += 100.0
    assert process_end.seconds_left(5.0, spare=0.0) == 0.0


@pytest.mark.campaign
def test_all_waits_of_an_end_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_end, "LONGEST_S", 6.0)
    held, is_over = threading.Event(), threading.Event()

    def hold(lock: Any) -> None:
        with lock:
            held.set()
            is_over.wait(60)

    def work(_: None) -> None:
        is_over.wait(60)

    device = object.__new__(OpenCLDevice)
    device._building = threading.Lock()
    made = [Background(work) for _ in range(4)]
    for each in made:
        each.ask("what never ends", None)
    thread = threading.Thread(target=hold, args=(device._building,))
    thread.start()
    assert held.wait(60)
    while not all(each._thread for each in made):
        time.sleep(0.001)
    time.sleep(0.2)  # the pause before work
    began = time.monotonic()
    for each in made:
        each._end()
    device._end()
    seconds = time.monotonic() - began
    is_over.set()
    thread.join()
    assert 0.9 < seconds < 5.0, "1 s: the longest of all, without what is for kernels"


_LATE = """
import atexit

atexit.register(lambda: (known(), new(), print("computed")))
known()
"""


@pytest.mark.parametrize("device", ["opencl", "llvm"])
def test_an_exit_handler_computes_what_is_new(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was registered before the device was opened, whose own handlers have run by then."""
    monkeypatch.setenv("MDTENSOR_DEVICE", device)
    process = ended(started(_LATE, tmp_path / "cache"))
    assert process.is_clean(), process
    assert process.shown == "computed\n"
