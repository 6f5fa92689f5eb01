"""Memory that is recycled: never while anything can read it, and never more than the bound."""

from __future__ import annotations

import errno
import gc
import itertools
import pickle
import queue
import random
import threading
import time
import tracemalloc
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdtensor.backends.host import memory_pool
from mdtensor.backends.host.memory_blocks import MemoryMap, size_class
from mdtensor.backends.host.memory_pool import FLOOR, Lease, MemoryPool
from mdtensor.backends.host.result_pool import PoolBound, usable_memory
from mdtensor.errors import MemoryLimitError
from tests.interrupts import comes_at, interrupt

BOUND = 1 << 30
COUNT = 2048  # elements of int64: 16 KB
HERE: str = memory_pool.__file__


class Unwatched(MemoryPool):
    """A pool whose thread ends as it begins: nothing comes between what a test does."""

    def _watch_over(self) -> None:
        pass


def pool_of(bound: int = BOUND) -> MemoryPool:
    return Unwatched(lambda: bound)


def new(pool: MemoryPool, *shape: int, dtype: str = "<i8") -> np.ndarray:
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    layout = {"version": 3, "shape": shape, "typestr": dtype, "strides": None}
    array = pool.array(nbytes, layout)
    assert array is not None
    return array


def filled(pool: MemoryPool, value: int, count: int = COUNT) -> np.ndarray:
    array = new(pool, count)
    array.fill(value)
    return array


def test_memory_of_an_array_that_is_gone_is_handed_out_again() -> None:
    pool = pool_of()
    first = filled(pool, 1)
    place = first.ctypes.data
    second = filled(pool, 2)
    assert not np.shares_memory(first, second)
    del first
    third = filled(pool, 3)
    assert third.ctypes.data == place
    assert (second == 2).all()
    found = pool.now()
    assert (found.hits, found.misses, found.pooled) == (1, 2, 0)
    assert found.live == found.peak == 2 * size_class(8 * COUNT)


class Subclass(np.ndarray):
    pass


class HasStruct:
    def __init__(self, array: np.ndarray) -> None:
        self.__array_struct__ = array.__array_struct__


# What may read an array's memory when its name is gone.
READERS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda a: a[5:],
    "slice of a slice": lambda a: a[5:][1:],
    "reversed": lambda a: a[::-1],
    "transposed": lambda a: a.reshape(2, -1).T,
    "another type": lambda a: a.view("u1"),
    "subclass": lambda a: a.view(Subclass),
    "slice of a subclass": lambda a: a.view(Subclass)[3:],
    "masked": lambda a: np.ma.array(a, copy=False),
    "memoryview": memoryview,
    "array of a memoryview": lambda a: np.asarray(memoryview(a)),
    "frombuffer": lambda a: np.frombuffer(a, "i8"),
    "strided": lambda a: np.lib.stride_tricks.as_strided(a, (3,), (16,)),
    "broadcast": lambda a: np.broadcast_to(a, (2, len(a))),
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a, 4),
    "real part": lambda a: a.view("c16").imag,
    "iterator": lambda a: a.flat,
    "nditer": np.nditer,
    "dlpack": np.from_dlpack,
    "capsule of dlpack": lambda a: a.__dlpack__(),
    "struct": HasStruct,
    "pointer": lambda a: a.ctypes,
    "buffer of pickle": pickle.PickleBuffer,
    "bound method": lambda a: a.sum,
    "list": lambda a: [a],
    "base of a slice": lambda a: a[1:].base,
}


class _Capsule:
    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: object) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def array_behind(reader: Any) -> np.ndarray:
    """An array on what a reader reads."""
    ways: dict[str, Callable[[Any], np.ndarray]] = {
        "list": lambda found: found[0],
        "flatiter": lambda found: found.base,
        "nditer": lambda found: found.operands[0],
        "builtin_function_or_method": lambda found: found.__self__,
        "_ctypes": lambda found: found._arr,
        "PyCapsule": lambda found: np.from_dlpack(_Capsule(found)),
    }
    return ways.get(type(reader).__name__, np.asarray)(reader)


@pytest.mark.parametrize("name", READERS)
def test_memory_stays_as_long_as_anything_reads_it(name: str) -> None:
    pool = pool_of()
    array = filled(pool, 0x0101010101010101)
    place = array.ctypes.data
    reader = READERS[name](array)
    del array
    others = [filled(pool, 2) for _ in range(4)]
    assert place not in [other.ctypes.data for other in others]
    behind = array_behind(reader)
    assert set(behind.tobytes()) == {1}
    del reader, behind
    assert filled(pool, 3).ctypes.data == place


def test_what_lies_below_an_array_gives_nobody_its_memory() -> None:
    array = filled(pool_of(), 1)
    below: Any = array.base
    with pytest.raises(TypeError, match="bytes-like"):
        memoryview(below)
    assert np.asarray(below).dtype == object
    assert not hasattr(below, "__array_interface__")
    assert "16384 bytes" in repr(below)
    assert array[1:].base is array
    assert array.flags.writeable
    assert array.flags.aligned


class Comes:
    """An object in a circle that lives on after its end."""

    back: list[Any]

    def __init__(self, array: np.ndarray, back: list[Any]) -> None:
        self.held = [array, array[3:], array.base]
        self.me = self
        self.back = back

    def __del__(self) -> None:
        self.back.append(self.held)


def test_arrays_that_a_destructor_brings_back_keep_their_memory() -> None:
    pool, back = pool_of(), list[Any]()
    Comes(filled(pool, 7), back)
    gc.collect()
    ((array, part, _),) = back
    others = [filled(pool, 8) for _ in range(4)]
    assert not any(np.shares_memory(array, other) for other in others)
    assert (array == 7).all()
    assert (part == 7).all()


def test_circles_are_collected_before_their_memory_is_recycled() -> None:
    pool = pool_of()
    circle: list[Any] = [filled(pool, 1)]
    circle.append(circle)
    place = circle[0].ctypes.data
    del circle
    gc.collect()
    assert place in [array.ctypes.data for array in [filled(pool, 3), filled(pool, 4)]]


def test_arrays_are_no_containers_so_references_end_with_them() -> None:
    # Of containers, garbage collections end weak references before destructors run.
    assert not gc.is_tracked(filled(pool_of(), 1))


def test_exceptions_pass_the_end_of_arrays_unharmed() -> None:
    pool = pool_of()
    with pytest.raises(ValueError, match="invalid literal"):
        print(filled(pool, 1), int("x"))
    beyond = 1
    with pytest.raises(IndexError, match="out of range"):
        print([filled(pool, 1)][beyond])
    assert pool.now().pooled > 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 200)), max_size=120))
def test_any_order_of_making_keeping_and_dropping(steps: list[tuple[int, int]]) -> None:
    pool = pool_of()
    held: list[tuple[np.ndarray, int]] = []
    for number, (what, size) in enumerate(steps):
        if what <= 2:
            held.append((filled(pool, number, 1 + 17 * size), number))
        elif held and what == 3:
            array, value = held.pop(size % len(held))
            held.append((array[len(array) // 2 :], value))
        elif held and what == 4:
            del held[size % len(held)]
        elif what == 5:
            pool.trim(float(size % 2))
        assert all((array == value).all() for array, value in held)
        assert pool.now().live >= sum(8 * len(array) for array, _ in held if array.base is None)


KEPT: list[Callable[[Any], Any]] = [lambda a: a, lambda a: a[7:], memoryview]


def stressed(pool: MemoryPool, seed: int, steps: int, faults: list[str]) -> None:
    """Makes, checks and drops arrays, each full of a number that no other one has."""
    rng = random.Random(seed)
    held: list[tuple[Any, int]] = []
    for step in range(steps):
        value = seed * 1_000_000 + step
        array = filled(pool, value, rng.choice((100, 1000, 1001, 4096)))
        held.append((rng.choice(KEPT)(array), value))
        del array
        if rng.random() < 0.02:
            gc.collect(0)
        if rng.random() < 0.3:
            circle: list[Any] = [held.pop(rng.randrange(len(held)))[0]]
            circle.append(circle)
        while len(held) > 20:
            reader, found = held.pop(rng.randrange(len(held)))
            if not (np.asarray(reader) == found).all():
                faults.append(f"{found} was overwritten")
    faults += [str(value) for reader, value in held if not (np.asarray(reader) == value).all()]


def test_no_array_is_overwritten_in_thousands_of_steps() -> None:
    faults: list[str] = []
    stressed(pool_of(), 1, 4000, faults)
    assert not faults


@pytest.mark.campaign
def test_threads_share_the_pool_and_no_memory() -> None:
    """Threads take turns as the system lets them, which is another order each time."""
    pool, faults = MemoryPool(lambda: BOUND), list[str]()
    threads = [
        threading.Thread(target=stressed, args=(pool, seed, 800, faults)) for seed in range(8)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        pool.trim(0.0)
        time.sleep(0.002)
    assert not faults
    gc.collect()
    found = pool.now()
    assert found.live == 0
    assert found.hits > 0


def test_arrays_are_freed_by_threads_other_than_their_makers() -> None:
    pool = pool_of()
    arrays = [filled(pool, n) for n in range(50)]
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    thread.join()
    assert pool.now().live == 0
    assert pool.now().pooled == 50 * size_class(8 * COUNT)


def used(pool: MemoryPool) -> None:
    """Everything that a pool does, with arrays that end with it, wherever it is interrupted."""
    for value in range(3):
        array, other = filled(pool, value, 300), filled(pool, value, 900 * value + 1)
        assert (array == value).all()
        del array
        pool.now()
        del other
    pool.trim(0.0)
    filled(pool, 3, 300)
    pool.free()


NEXT: list[Callable[[MemoryPool], None]] = [MemoryPool.free, lambda pool: pool.trim(0.0), used]


@pytest.mark.parametrize("goes_on", NEXT)
def test_interrupts_at_any_place_leave_a_pool_that_works(
    goes_on: Callable[[MemoryPool], None],
) -> None:
    places = 0
    while comes_at(places, interrupt, partial(used, pool := pool_of()), HERE):
        goes_on(pool)
        pool.trim(0.0)  # counts anew
        assert (pool.now().live, pool.now().pooled) == (0, 0), places
        first, second = filled(pool, 1), filled(pool, 2)
        assert not np.shares_memory(first, second)
        places += 1
    assert places > 300


def test_handlers_of_signals_may_ask_for_memory_at_any_place() -> None:
    for place in itertools.count():
        pool, made = pool_of(), list[np.ndarray]()

        def handle(pool: MemoryPool = pool, made: list[np.ndarray] = made) -> None:
            made += [filled(pool, -value, 300) for value in range(1, 4)]
            filled(pool, -4, 300)

        if not comes_at(place, handle, partial(used, pool), HERE):
            break
        kept = [filled(pool, value, 300) for value in range(4)]
        assert all((array == value).all() for value, array in enumerate(kept)), place
        assert all((array == -value).all() for value, array in enumerate(made, 1)), place
    assert place > 300


class Met:
    """The pool's lock, which tells when one thread waits for another."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.is_met = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.is_met.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_another_thread_may_come_at_any_place() -> None:
    """It goes as far as the first one lets it, which then goes on."""
    for place in itertools.count():
        pool, lock, ends = pool_of(), Met(), list[str]()
        pool.lock = lock  # type: ignore[assignment]

        def work(pool: MemoryPool = pool, lock: Met = lock, ends: list[str] = ends) -> None:
            try:
                used(pool)
                ends.append("well")
            finally:
                lock.is_met.set()

        other = threading.Thread(target=work)

        def come(other: threading.Thread = other, lock: Met = lock) -> None:
            other.start()
            assert lock.is_met.wait(60)

        if not comes_at(place, come, partial(used, pool), HERE):
            break
        other.join(60)
        assert ends == ["well"], place
        found = pool.now()
        assert (found.live, found.pooled, found.hits + found.misses) == (0, 0, 14), place
    assert place > 300


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    block = size_class(8 * COUNT)
    pool = pool_of(bound=3 * block)
    arrays = [filled(pool, n) for n in range(6)]
    last = arrays[-1].ctypes.data
    while arrays:
        arrays.pop(0)
        assert pool.now().pooled <= 3 * block
    assert pool.now().pooled == 3 * block
    assert pool.now().peak == 6 * block
    assert filled(pool, 1).ctypes.data == last


def test_no_more_is_pooled_than_a_multiple_of_what_was_live() -> None:
    pool = pool_of(bound=1 << 40)
    live = 40 << 20
    for size in range(8):  # no size twice: nothing of it is recycled
        assert new(pool, live + (size << 23), dtype="|u1").nbytes >= live
    found = pool.now()
    assert found.pooled <= max(FLOOR, memory_pool.SHARE_OF_LIVE * found.peak)
    assert found.pooled > 0


def test_nothing_is_pooled_where_nothing_may_be() -> None:
    layout = {"version": 3, "shape": (8,), "typestr": "|u1", "strides": None}
    assert pool_of(bound=0).array(8, layout) is None
    pool = pool_of()
    kept = filled(pool, 1)
    pool.close()
    assert pool.array(8, layout) is None
    assert (kept == 1).all()


class Ends(queue.SimpleQueue[Lease]):
    """Who waits here for an end lets the next of some events happen, or else time go by."""

    def __init__(self, *events: Callable[[], object]) -> None:
        self.now = 0.0
        self._events = list(events)

    def get(self, block: bool = True, timeout: float | None = None) -> Lease:
        if self.empty() and self._events:
            self._events.pop(0)()
        if block and self.empty():
            assert timeout is not None
            assert self.now < 100, "nothing goes back"
            self.now += timeout
        return super().get(block=False)


def watched(bound: int, ends: Ends) -> MemoryPool:
    """A pool that is watched when the test says so, by the clock of the events."""
    pool = Unwatched(lambda: bound, 10.0, lambda: ends.now)
    pool._ended = ends
    return pool


def test_idle_memory_goes_back_by_itself() -> None:
    seen: list[tuple[float, int]] = []
    kept: list[np.ndarray] = []

    def note() -> None:
        seen.append((ends.now, pool.now().pooled))

    block = size_class(8 * COUNT)
    ends = Ends(note, note, kept.clear)
    pool = watched(BOUND, ends)
    kept.append(filled(pool, 1))
    filled(pool, 2)
    MemoryPool._watch_over(pool)
    assert seen == [(0.0, block), (10.0, 0)]
    assert (ends.now, pool.now().pooled) == (30.0, 0), "it was idle from 20 s on"
    assert not pool._watched_by
    filled(pool, 3)
    assert pool._watched_by


def test_what_exceeds_the_bound_goes_back_without_another_call() -> None:
    block = size_class(8 * COUNT)
    seen: list[int] = []
    arrays: list[np.ndarray] = []
    ends = Ends(arrays.clear, lambda: seen.append(pool._pooled))
    pool = watched(3 * block, ends)
    arrays += [filled(pool, value) for value in range(6)]
    MemoryPool._watch_over(pool)
    assert seen == [3 * block]


def test_blocks_that_there_are_hold_what_is_live_or_pooled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there: weakref.WeakSet[MemoryMap] = weakref.WeakSet()

    class Seen(MemoryMap):
        __slots__ = ("__weakref__",)

        def __init__(self, nbytes: int) -> None:
            super().__init__(nbytes)
            there.add(self)

    monkeypatch.setattr(memory_pool, "MemoryMap", Seen)
    pool, draw = pool_of(bound := 1 << 20), random.Random(0)
    held: list[np.ndarray] = []
    for step in range(400):
        held.append(filled(pool, step, draw.randrange(1 << 10, 1 << 14)))
        while sum(array.nbytes for array in held) > bound:
            del held[draw.randrange(len(held))]
        found = pool.now()
        assert found.live == sum(size_class(array.nbytes) for array in held)
        assert found.pooled <= bound
        assert sum(block.nbytes for block in there) == found.live + found.pooled


def test_pooled_memory_is_given_up_where_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = pool_of()

    def block(nbytes: int) -> MemoryMap:
        if pool._pooled or nbytes > 1 << 20:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return MemoryMap(nbytes)

    monkeypatch.setattr(memory_pool, "MemoryMap", block)
    filled(pool, 1)
    assert pool.now().pooled > 0
    large = filled(pool, 2, 4 * COUNT)
    assert pool.now().pooled == 0
    assert pool.array(1 << 21, {}) is None
    assert (large == 2).all()


def test_freeing_gives_back_what_no_array_lies_in() -> None:
    pool = pool_of()
    kept = filled(pool, 1)
    del_me = filled(pool, 2)
    reference = weakref.ref(del_me)
    del del_me
    assert reference() is None
    pool.free()
    assert pool.now().pooled == 0
    assert pool.now().live == size_class(8 * COUNT)
    assert (kept == 1).all()


def test_memory_is_given_back_though_a_thread_was_handed_the_end_of_its_array() -> None:
    """As the thread that waits for ends is, which may get no processor for a while."""
    pool = pool_of()
    array = filled(pool, 1)
    (lease,) = pool._leases.values()
    assert lease.block is not None
    del array
    pool.free()
    assert lease() is None
    assert lease.block is None
    pool.settle(lease)
    assert pool.now().pooled == 0


def test_tracemalloc_counts_arrays_that_are_there() -> None:
    pool = pool_of()
    filled(pool, 1, 1 << 17)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        array = filled(pool, 1, 1 << 17)
        during, _ = tracemalloc.get_traced_memory()
        del array
        pool.now()  # takes back what the thread that waits for ends was handed, too
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert during - before >= 1 << 20
    assert after - before < 1 << 16


@given(st.integers(1 << 10, 1 << 45))
def test_blocks_are_an_eighth_larger_at_most(nbytes: int) -> None:
    size = size_class(nbytes)
    assert nbytes <= size <= nbytes * 1.125
    assert size_class(size) == size


def test_blocks_begin_where_vectors_like_it() -> None:
    pool = pool_of()
    assert all(filled(pool, 1, count).ctypes.data % 64 == 0 for count in (1, 1000, 1 << 20))


def test_a_control_group_bounds_the_memory_of_a_process(tmp_path: Path) -> None:
    unbounded = usable_memory(tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    assert usable_memory(tmp_path) == unbounded > 1 << 24
    (tmp_path / "memory.max").write_text("8388608\n")
    assert usable_memory(tmp_path) == 8388608


def test_a_variable_sets_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDTENSOR_POOL", "3MB")
    assert PoolBound()() == 3_000_000
    monkeypatch.setenv("MDTENSOR_POOL", "0")
    assert PoolBound()() == 0
    monkeypatch.setenv("MDTENSOR_POOL", "much")
    with pytest.raises(MemoryLimitError, match="MDTENSOR_POOL is 'much', which is no number"):
        PoolBound()()
