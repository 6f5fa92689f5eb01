from __future__ import annotations

import logging
import sys
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.streaming import stream_plan
from mdtensor.api.streaming.stream_executor import StreamExecutor
from mdtensor.errors import DTypeError, MemoryLimitError, ShapeError, TranslationError
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from tests import children
from tests.api.dask.random_calls import KINDS

MB = 10**6


class Sliced:
    """An array whose slices alone are NumPy's, as those of Zarr and HDF5."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.largest = 0

    def __getitem__(self, box: tuple[slice, ...]) -> np.ndarray:
        section = self.array[box]
        self.largest = max(self.largest, section.size)
        return section


def mapped(folder: Path, *shape: int, seed: int = 0) -> np.ndarray:
    array = np.memmap(folder / f"{seed}", np.float64, "w+", shape=shape)
    array[...] = np.random.default_rng(seed).standard_normal(shape)
    return array


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(12))
def test_random_calls_by_small_parts(seed: int) -> None:
    drawn = KINDS[seed % len(KINDS)](np.random.default_rng(1000 + seed))
    given = [Sliced(array) for array in drawn.arrays]
    plan = mdt.stream(drawn.call, *given, memory_limit="1GB")
    np.testing.assert_allclose(plan(), drawn.expected, atol=1e-3, rtol=1e-4)
    with pytest.raises(MemoryLimitError) as raised:
        mdt.stream(drawn.call, *given, memory_limit=1)
    least = int(str(raised.value).split(" bytes)")[0].split("(")[1])
    assert mdt.stream(drawn.call, *given, memory_limit=least).peak <= least
    limit = least + (plan.peak - least) // 3
    plan = mdt.stream(drawn.call, *given, memory_limit=limit)
    assert plan.peak <= limit
    np.testing.assert_allclose(plan(), drawn.expected, atol=1e-3, rtol=1e-4)


class _Due(Future[Any]):
    """What a pool will have made, at the latest when it is asked for."""

    def __init__(self, pool: Turns) -> None:
        super().__init__()
        self.pool = pool

    def result(self, timeout: float | None = None) -> Any:
        while not self.done():
            self.pool.work()
        return super().result(timeout)


class Turns:
    """A pool without threads that works at once, or as late as it may, and counts what there is.

    `peak` are the bytes of all parts that were there at once: operands' that were copied, results,
    and what waits to be combined.
    """

    def __init__(self, at_once: bool) -> None:
        self.at_once = at_once
        self.waiting: deque[tuple[_Due, Callable[[], Any]]] = deque()
        self.there: dict[int, weakref.ref[np.ndarray]] = {}
        self.peak = 0

    def __call__(self, *_: object) -> Turns:
        return self

    def __enter__(self) -> Turns:
        return self

    def __exit__(self, *_: object) -> None:
        while self.waiting:
            self.work()

    def submit(self, function: Callable[..., Any], *given: Any) -> _Due:
        due = _Due(self)
        self.waiting.append((due, partial(function, *given)))
        if self.at_once:
            self.work()
        return due

    def work(self) -> None:
        due, task = self.waiting.popleft()
        try:
            due.set_result(self.seen(task()))
        except BaseException as error:
            due.set_exception(error)

    def seen(self, made: Any) -> Any:
        for array in made if type(made) is tuple else (made,):
            if type(array) is np.ndarray:
                self.there[id(array)] = weakref.ref(array)
        arrays = [reference() for reference in self.there.values()]
        self.peak = max(self.peak, sum(each.nbytes for each in arrays if each is not None))
        return made


@pytest.fixture(params=[True, False], ids=["at once", "late"])
def turns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Turns:
    pool = Turns(request.param)
    copied, allocate = StreamExecutor._copied, stream_plan.allocate

    def copied_and_seen(*given: Any) -> Any:
        value = copied(*given)
        pool.seen(value.result())
        return value

    monkeypatch.setattr(StreamExecutor, "_copied", copied_and_seen)
    monkeypatch.setattr(stream_plan, "allocate", lambda *given: pool.seen(allocate(*given)))
    monkeypatch.setattr(stream_plan, "ThreadPoolExecutor", pool)
    return pool


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("ij->", {"combine": "add"}, lambda x: x.sum()),
        ("ij->j", {"combine": "max"}, lambda x: x.max(0)),
        ("ij->i", {"combine": lambda _, after: after}, lambda x: x[:, -1]),
    ],
    ids=["sum", "max", "last"],
)
def test_reductions_stay_below_their_limit(tmp_path, turns, text, options, expected) -> None:
    x = mapped(tmp_path, 2500, 100)
    plan = mdt.stream(mdt.reduce, text, x, memory_limit="400kB", **options)
    assert plan.parts > 4
    np.testing.assert_allclose(plan(), expected(x), rtol=1e-9)
    assert plan.peak / 4 < turns.peak <= plan.peak <= 400_000


def test_a_product_of_maps_goes_to_a_map(tmp_path: Path, turns: Turns) -> None:
    a, b = mapped(tmp_path, 300, 180), mapped(tmp_path, 180, 200, seed=1)
    out = np.memmap(tmp_path / "out", np.float64, "w+", shape=(300, 200))
    plan = mdt.stream(mdt.einsum, "ij,jk->ik", a, b, out=out, memory_limit="200kB")
    assert plan.parts > 4
    assert plan() is out
    np.testing.assert_allclose(out, a @ b, atol=1e-9)
    assert plan.peak / 4 < turns.peak <= plan.peak <= 200_000


def test_a_scan_carries_over_its_parts(tmp_path: Path) -> None:
    x = mapped(tmp_path, 200_000)
    out = np.memmap(tmp_path / "out", np.float64, "w+", shape=x.shape)
    mdt.scan("i->i", x, out=out, memory_limit="300kB")
    np.testing.assert_allclose(out, np.cumsum(x), atol=1e-9)
    assert mdt.scan("i->i", x, out=out, reverse=True, exclusive=True, memory_limit="300kB") is out
    np.testing.assert_allclose(out, np.cumsum(x[::-1])[::-1] - x, atol=1e-8)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("combine", "identity"), [("add", 0), ("mul", 1), ("max", -np.inf)])
def test_an_exclusive_scan_of_one_element_is_the_identity(
    combine: str, identity: float, reverse: bool
) -> None:
    options = {"combine": combine, "exclusive": True, "reverse": reverse}
    found = mdt.scan("i->i", np.ones(1), memory_limit="1MB", **options)
    np.testing.assert_array_equal(found, [identity])


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_arrays_without_elements_have_parts_of_none(shape: tuple[int, int]) -> None:
    empty, limit = np.zeros(shape), {"memory_limit": "1MB"}
    for combine in ("add", {"j": mdt.ps("add")}):
        function, text = (mdt.reduce, "ij->i") if combine == "add" else (mdt.scan, "ij->ij")
        found = mdt.stream(function, text, empty, combine=combine, **limit)()
        np.testing.assert_array_equal(found, empty.sum(1) if combine == "add" else empty)
    product = mdt.stream(mdt.einsum, "ij,kj->ik", empty, empty, **limit)()
    np.testing.assert_array_equal(product, empty @ empty.T)


def test_parts_of_a_stencil_overlap(tmp_path: Path) -> None:
    x = mapped(tmp_path, 400, 300)
    blur = mdt.stencil(lambda u: u[-1, 0] + u[1, 0] + u[0, -2], border="nearest")
    padded = np.pad(x, ((1, 1), (2, 0)), "edge")
    out = np.zeros((400, 300))
    mdt.stream(blur, x, out=out, memory_limit="100kB")()
    np.testing.assert_allclose(out, padded[:-2, 2:] + padded[2:, 2:] + padded[1:-1, :-2])


def test_a_call_that_was_made_before_is_planned() -> None:
    x = np.random.default_rng(0).random((40, 30))
    for _ in range(2):
        expected = mdt.reduce("ij->i", x)
    plan = mdt.stream(mdt.reduce, "ij->i", x, memory_limit="1MB")
    np.testing.assert_array_equal(plan(), expected)


def test_slices_are_all_that_is_read() -> None:
    x = Sliced(np.random.default_rng(0).random((500, 100)))
    total = mdt.reduce("ij->j", x, memory_limit="100kB")
    np.testing.assert_allclose(total, x.array.sum(0))
    assert x.largest < 100 * 1000 / 2 / 8


def test_parts_of_maps_are_short_and_those_of_chunks_long(tmp_path: Path) -> None:
    x = np.memmap(tmp_path / "x", np.float64, "w+", shape=(100_000, 1000))  # never written
    by_map = mdt.stream(mdt.reduce, "ij->j", x, memory_limit="400MB")
    assert 20 * MB < by_map.peak <= 64 * MB
    by_chunks = mdt.stream(mdt.reduce, "ij->j", Sliced(x), memory_limit="400MB")
    assert 200 * MB < by_chunks.peak <= 400 * MB
    assert by_map.moved == by_chunks.moved


def test_the_plan_is_told_before_it_runs(caplog: pytest.LogCaptureFixture) -> None:
    x = Sliced(np.ones((4000, 10)))
    with caplog.at_level(logging.INFO, "mdtensor.streaming"):
        plan = mdt.stream(mdt.reduce, "ij->j", x, memory_limit="50kB")
    assert x.largest == 0
    assert plan.moved == 4000 * 10 * 8 + 10 * 8
    assert repr(plan).startswith("reduce: 16 parts, peak 4")
    assert "320 kB moved" in repr(plan)
    assert "i by 250" in repr(plan)
    assert caplog.messages == [repr(plan)]


def test_a_limit_that_cannot_be_met_is_refused() -> None:
    x = Sliced(np.ones((1000, 1000)))
    with pytest.raises(MemoryLimitError) as raised:
        mdt.einsum("ij->ji", x, memory_limit="1MB")
    assert str(raised.value) == (
        "memory_limit is 1 MB, and the least that will do is 8 MB (8000032 bytes);"
        " the results take 8 MB\n"
        "  hint: raise the limit, or write to a map of a file: out=memmap"
    )


@pytest.mark.parametrize("limit", ["many", "1 XB", 0, -1, "", 1.5, True])
def test_limits_that_are_none(limit) -> None:
    with pytest.raises(MemoryLimitError, match="which is no number of bytes"):
        mdt.einsum("i->", np.ones(3), memory_limit=limit)


def test_out_is_no_operand() -> None:
    x = np.ones(8)
    with pytest.raises(ShapeError, match="out shares memory with an operand"):
        mdt.scan("i->i", x, out=x, memory_limit="1kB")


def test_objects_are_not_streamed() -> None:
    x = Sliced(np.array([1, "a"], object))
    with pytest.raises(DTypeError, match="an operand is a Sliced, which memory_limit= cannot"):
        mdt.reduce("i->", x, memory_limit="1kB")


def test_a_plan_has_no_memory_limit() -> None:
    with pytest.raises(TranslationError, match="memory_limit= is neither for plans nor for Dask"):
        mdt.compile(mdt.reduce, "i->", mdt.spec((3,)), memory_limit="1kB")


def test_a_call_that_is_more_than_kernels_is_refused() -> None:
    with pytest.raises(TranslationError, match="more than one computation on its operands"):
        mdt.stream(lambda a: mdt.sum(a, axis=1) + 1, np.ones((3, 4)), memory_limit="1MB")


def test_what_goes_wrong_while_parts_run_is_raised() -> None:
    class Broken(Sliced):
        def __getitem__(self, box: tuple[slice, ...]) -> np.ndarray:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        mdt.reduce("i->", Broken(np.ones(100)), memory_limit=200)


def test_a_disk_that_is_full_is_raised() -> None:
    class Full(Sliced):
        def __setitem__(self, box: tuple[slice, ...], value: np.ndarray) -> None:
            raise OSError("no space left")

    out = Full(np.ones(100))
    with pytest.raises(OSError, match="no space left"):
        mdt.scan("i->i", Sliced(np.ones(100)), out=out, memory_limit="1kB")


def test_a_part_that_is_read_again_keeps_its_memory(tmp_path: Path) -> None:
    x = mapped(tmp_path, 8, 4)
    first, second = (slice(0, 4), slice(0, 4)), (slice(4, 8), slice(0, 4))
    with ThreadPoolExecutor(1) as pool:
        executor = StreamExecutor([x], [True], {}, pool)
        md_hom = md_hom_from_einsum("ij->j", [mdt.spec((4, 4), "f8")])
        executor.compute(md_hom, [executor.read(0, first)], ())[0].result()
        again, other = executor.read(0, first), executor.read(0, second)
        np.testing.assert_array_equal(again.result(), x[first])
        np.testing.assert_array_equal(other.result(), x[second])
        executor.wait()


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="a map's file is known on Linux alone")
def test_a_map_whose_file_cannot_grow_raises_and_does_not_end_the_process(tmp_path: Path) -> None:
    program = """
import resource, sys
import numpy as np
import mdtensor as mdt

x = np.ones((4000, 100))
out = np.memmap(sys.argv[1], "f8", "w+", shape=x.shape)
y = np.memmap(sys.argv[2], "f8", "w+", shape=x.shape)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    mdt.scan("ij->ij", y, combine={"j": "add"}, out=out, memory_limit="500kB")
except OSError as error:
    print(error)
"""
    told = children.run("-c", program, tmp_path / "out", tmp_path / "in")
    assert "File too large" in told.out


def test_steps_that_depend_on_nothing_read_each_part_once(tmp_path: Path) -> None:
    x = Sliced(mapped(tmp_path, 4000, 50))
    read: list[int] = []
    plain = Sliced.__getitem__

    class Noted(Sliced):
        def __getitem__(self, box: tuple[slice, ...]) -> np.ndarray:
            read.append(box[0].start)
            return plain(self, box)

    mean = mdt.stencil(lambda u: (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]) / 4, border="nearest")
    found = mdt.stream(mean, Noted(x.array), memory_limit="2MB")()
    np.testing.assert_allclose(found, mean(np.array(x.array)))
    assert len(read) > 8
    assert read == sorted(read)


def test_parts_are_long_runs_of_a_file(tmp_path: Path) -> None:
    x = np.memmap(tmp_path / "x", np.float32, "w+", shape=(500, 64, 64, 16))  # never written
    filters = np.ones((4, 3, 3, 16), np.float32)
    plan = mdt.stream(mdt.conv, x, filters, stride=4, memory_limit="100MB")
    assert "p0 by" not in repr(plan)  # though every fourth row is not needed
