"""Results in memory that is recycled: what calls, processes and users see of it."""

from __future__ import annotations

import gc
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.backends.host.aligned_memory import aligned_empty
from mdtensor.backends.host.memory_pool import POOLED
from mdtensor.errors import DTypeError, MemoryLimitError
from tests import children

LARGE = 1 << 20  # elements


@pytest.fixture(autouse=True)
def empty_pool() -> Any:
    gc.collect()
    before = mdt.memory(free=True).bound
    yield
    mdt.memory(free=True, bound=before)


def run(script: str, *, code: int = 0) -> str:
    """What a program of its own prints; nothing goes to its errors."""
    end = children.run("-W", "ignore", "-c", script, code=code)
    assert end.err == ""
    return end.out


def test_results_of_calls_are_recycled() -> None:
    x = np.arange(LARGE, dtype=np.float32)
    first = mdt.einsum("i,->i", x, 2.0)
    place = first.ctypes.data
    second = mdt.einsum("i,->i", x, 3.0)
    del first
    third = mdt.einsum("i,->i", x, 4.0)
    assert third.ctypes.data == place
    np.testing.assert_array_equal(second, 3 * x)
    np.testing.assert_array_equal(third, 4 * x)


def test_results_look_as_they_did() -> None:
    x = np.ones((1024, 1024))
    result = mdt.einsum("ij,j->ij", x, x[0])
    assert type(result) is np.ndarray
    assert result.ctypes.data % 64 == 0
    assert result.flags.writeable
    assert result.flags.c_contiguous
    assert not result.flags.owndata
    assert result[1:].base is result
    with pytest.raises(ValueError, match="does not own its data"):
        result.resize(3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(result)), x)
    assert result.copy().flags.owndata


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "f2", "f4", "f8", "c8", "c16"])
def test_all_types_of_elements_are_pooled(dtype: str) -> None:
    made = aligned_empty((3, POOLED), dtype)
    assert (made.shape, made.dtype) == ((3, POOLED), np.dtype(dtype))
    assert mdt.memory().live >= made.nbytes
    made.fill(1)
    assert (made == 1).all()


def test_strides_are_those_that_were_asked_for() -> None:
    made = aligned_empty((1024, 1024), "f8", (1, 1024))
    assert made.strides == (8, 8192)
    made[...] = np.arange(1024)
    assert (made[5] == np.arange(1024)).all()


def test_small_results_and_records_are_not_pooled() -> None:
    before = mdt.memory()
    small = mdt.einsum("i,->i", np.ones(1000), 2.0)
    record = aligned_empty((LARGE,), [("a", "f4"), ("b", "i2")])
    assert record.dtype.names == ("a", "b")
    assert small.sum() == 2000
    now = mdt.memory()
    assert (now.hits, now.misses, now.live) == (before.hits, before.misses, before.live)


def test_arrays_too_large_for_any_machine_say_so() -> None:
    with pytest.raises(MemoryError, match=r"1\.\d+ EiB|Unable to allocate"):
        aligned_empty((1 << 60,), "u1")


# Calls, and the same by NumPy; sums of small whole numbers are exact.
CALLS: list[Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]] = [
    lambda a, b: (mdt.einsum("ij,jk->ik", a, b), a @ b),
    lambda a, b: (mdt.einsum("ij,jk->ki", a, b), (a @ b).T),
    lambda a, b: (mdt.einsum("ij,jk->ik", a, b)[7:], (a @ b)[7:]),
    lambda a, b: (mdt.einsum("ij,jk,k->ik", a, b, b[0]), (a @ b) * b[0]),
]


def test_calls_at_random_agree_with_numpy() -> None:
    rng, draw = np.random.default_rng(3), random.Random(3)
    held: list[tuple[np.ndarray, np.ndarray]] = []
    for step in range(150):
        rows = draw.choice((1024, 1100, 2048))
        a = rng.integers(-9, 9, (rows, 8)).astype(np.float32)
        b = rng.integers(-9, 9, (8, 256)).astype(np.float32)
        held.append(draw.choice(CALLS)(a, b))
        if step % 40 == 0:
            mdt.memory(free=True)
        while len(held) > 12:
            np.testing.assert_array_equal(*held.pop(draw.randrange(len(held))))
    for pair in held:
        np.testing.assert_array_equal(*pair)
    assert mdt.memory().hits > 50


def test_a_bound_of_nothing_pools_nothing() -> None:
    mdt.memory(bound=0)
    before = mdt.memory()
    result = mdt.einsum("i,->i", np.ones(LARGE), 2.0)
    now = mdt.memory()
    assert (now.bound, now.pooled, now.live, now.misses) == (0, 0, before.live, before.misses)
    assert (result == 2).all()
    assert mdt.memory(bound="64MiB").bound == 64 << 20


def test_what_there_is_is_told_in_words() -> None:
    found = mdt.memory(bound="2GB")
    assert "2 GB bound" in str(found)
    assert "0 B pooled" in str(found)


@pytest.mark.parametrize("bound", [-1, "much", 1.5, [], True, "-3"])
def test_bounds_that_are_none_are_refused(bound: Any) -> None:
    with pytest.raises(MemoryLimitError, match=r"bound is .* no number of bytes"):
        mdt.memory(bound=bound)


def test_flags_that_are_none_are_refused() -> None:
    with pytest.raises(DTypeError, match="free is"):
        mdt.memory(free=np.ones(3))  # pyright: ignore[reportArgumentType]


START = """
import gc, os, signal, sys, threading
import numpy as np
import mdtensor as mdt
from mdtensor.backends.host.aligned_memory import aligned_empty

def filled(value, count=1 << 18):
    array = aligned_empty((count,), "i8")
    array.fill(value)
    return array
"""

FORKS = """
faults, stop = [], []
def work(seed):
    held = []
    while not stop:
        held.append((filled(seed + len(held)), seed + len(held)))
        if len(held) > 3:
            array, value = held.pop(0)
            if not (array == value).all():
                faults.append(value)
threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(1, 4)]
for thread in threads:
    thread.start()
mine = filled(7)
for fork in range(60):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        fresh = [filled(-n) for n in range(6)]
        good = (mine == 7).all() and all((a == -n).all() for n, a in enumerate(fresh))
        mine.fill(8)  # a copy
        del fresh
        pooled = mdt.memory().pooled
        os._exit(0 if good and pooled and not mdt.memory(free=True).pooled else 3)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        faults.append(f"child {code}")
    if not (mine == 7).all():
        faults.append("the parent's array")
stop.append(1)
for thread in threads:
    thread.join()
print(faults)
"""


@pytest.mark.process
def test_forks_beside_threads_have_copies_of_the_pool() -> None:
    assert run(START + FORKS) == "[]\n"


ENDS = """
import atexit
kept = filled(1)
class Late:
    def __init__(self):
        self.me, self.array = self, filled(2)
    def __del__(self):
        sys.stdout.write(str(int(self.array[0] == 2 and kept_here[0] == 1)))
kept_here = kept
late = Late()
atexit.register(lambda: sys.stdout.write(str(filled(3)[0])))
def work(at_work):
    while True:
        filled(4)
        at_work.set()
for at_work in (threading.Event(), threading.Event()):
    threading.Thread(target=work, args=(at_work,), daemon=True).start()
    at_work.wait(60)
sys.modules["kept"] = filled(5)
"""


@pytest.mark.process
def test_processes_end_with_arrays_and_threads_that_are_there() -> None:
    for _ in range(5):
        assert run(START + ENDS).startswith("3")


@pytest.mark.process
def test_a_bad_variable_is_told_by_the_first_call() -> None:
    script = (
        "import os; os.environ['MDTENSOR_POOL'] = 'much'\n"
        "import mdtensor as mdt\n"
        "try:\n    mdt.memory()\n"
        "except mdt.errors.MemoryLimitError as error:\n    print(error)"
    )
    assert run(script).startswith("MDTENSOR_POOL is 'much', which is no number of bytes")
