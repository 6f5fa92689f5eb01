"""What the end of a process waits for, together, and what may still compute then."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mdtensor import process_end
from mdtensor.api.engine.background_worker import Background
from mdtensor.backends.llvm.jit_compiler import JitCompiler
from mdtensor.backends.opencl.opencl_device import OpenCLDevice
from tests import children
from tests.api.survival.programs import ended, started


class Clock:
    """A clock that goes on as something is waited for."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wait(self, timeout: float) -> bool:
        """Waits for what never comes."""
        self.now += timeout
        return False

    acquire = join = wait


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of an end that did not begin yet."""
    monkeypatch.setattr(process_end, "_began", [])
    monkeypatch.setattr(process_end, "time", clock := Clock())
    return clock


def test_the_end_begins_with_what_first_asks(clock: Clock) -> None:
    assert process_end.seconds_left(10.0) == 10.0
    clock.now += 50.0
    assert process_end.seconds_left(10.0) == 5.0
    assert process_end.seconds_left() == 5.0
    clock.now += 7.0
    assert process_end.seconds_left() == 0.0
    assert process_end.seconds_left(5.0, spare=0.0) == 3.0
    clock.now += 100.0
    assert process_end.seconds_left(5.0, spare=0.0) == 0.0


def test_all_waits_of_an_end_have_one_deadline(clock: Clock) -> None:
    never: Any = clock
    device, jit = object.__new__(OpenCLDevice), object.__new__(JitCompiler)
    device._building = jit._lock = never
    works = [Background[None](lambda _: None) for _ in range(4)]
    for each in works:
        each._thread, each._process = never, os.getpid()
    ends = [device._end, jit._end, *(each._end for each in works)]
    for order in (ends, ends[::-1]):
        process_end._began.clear()
        began = clock.now
        for end in order:
            end()
        assert clock.now - began == process_end.LONGEST_S - process_end.FOR_KERNELS_S
    for each in works:
        each._thread = None


_LATE = """
import atexit

atexit.register(lambda: (known(), new(), print("computed")))
known()
"""


@pytest.mark.process
@pytest.mark.parametrize("device", ["opencl", "llvm"])
def test_an_exit_handler_computes_what_is_new(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was registered before the device was opened, whose own handlers have run by then."""
    monkeypatch.setenv("MDTENSOR_DEVICE", device)
    process = ended(started(_LATE, tmp_path / "cache"))
    assert process.is_clean(), process
    assert process.shown == "computed\n"


# A daemon thread in a product when the process ends, which OpenBLAS would wait for with no end.
_IN_A_PRODUCT = """
import threading, time
from mdtensor.evaluator import batched_matmul
begun, main = threading.Event(), threading.current_thread()

def product(a, b):
    if threading.current_thread() is not main:
        begun.set()
        while not batched_matmul._ended:
            time.sleep(0.001)
        print("ended", flush=True)
    return a @ b

batched_matmul._matmul = product
square = np.ones((3, 3))
work = lambda: [mdt.einsum("ij,jk->ik", square, square) for _ in range(2)]
threading.Thread(target=work, daemon=True).start()
begun.wait()
"""


@pytest.mark.process
def test_an_end_waits_for_a_product_and_lets_no_other_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDTENSOR_TIER0", "1")
    process = ended(started(_IN_A_PRODUCT, tmp_path / "cache"))
    assert process.is_clean(), process
    assert process.shown == "ended\n"


LAST = """
import builtins
import numpy as np, mdtensor as mdt

class Last:
    def __init__(self, call, array):
        self.call, self.array = call, array

    def __del__(self):
        print(self.call("ij,jk->ik", self.array, self.array)[0, 0])

a = np.ones((3, 3))
mdt.einsum("ij,jk->ik", a, a)
builtins.last = Last(mdt.einsum, a)  # goes after all modules
"""


@pytest.mark.process
def test_a_known_product_runs_when_no_import_does_any_more() -> None:
    end = children.run("-c", LAST, env={"MDTENSOR_TIER0": "1"})
    assert (end.out, end.err) == ("3.0\n", "")
