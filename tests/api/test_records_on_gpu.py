"""Records in CuPy's arrays, read and written where they lie; a module stands for CuPy here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from mdtensor.api.engine import registry
from mdtensor.errors import DTypeError
from mdtensor.translate import reference
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.records.columns import Column
from mdtensor.translate.records.columns_on_gpu import column_on_gpu
from tests.api.cupy_stand_in import forget_cupy

# Fields that begin at no multiple of their size, and a string that ends within a word.
PACKED = np.dtype([("tag", "u1"), ("id", "i8"), ("name", "S6"), ("marks", "f4", (2,))])
ALIGNED = np.dtype([("name", "S8"), ("id", "i8"), ("text", "U2")])
BEST = np.dtype([("mark", "f4"), ("id", "i8"), ("place", "i2")])


class Memory:
    """Some bytes, and a place among them."""

    def __init__(self, host: np.ndarray, offset: int = 0) -> None:
        self.host, self.offset = host, offset
        self.device_id = 0

    def __add__(self, more: int) -> Memory:
        return Memory(self.host, self.offset + more)

    @property
    def ptr(self) -> int:
        return self.host.ctypes.data + self.offset


class Array:
    """An array as CuPy makes them: of a shape, a type, memory and strides."""

    def __init__(
        self, shape: Any, dtype: Any, memory: Memory | None = None, strides: Any = None
    ) -> None:
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.data = Memory(np.zeros(nbytes + 16, "u1")) if memory is None else memory
        at = self.data.offset
        self.host = np.ndarray(shape, dtype, self.data.host.data, at, strides)

    @classmethod
    def of(cls, host: np.ndarray) -> Array:
        made = cls(host.shape, host.dtype)
        made.host[...] = host
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)

    def __setitem__(self, index: Any, values: Array) -> None:
        self.host[index] = values.host

    def astype(self, dtype: Any, copy: bool = True) -> Array:
        return Array.of(self.host.astype(dtype)) if copy or dtype != self.host.dtype else self

    def view(self, dtype: Any) -> Array:
        return Array.of(self.host.view(dtype))

    def reshape(self, shape: Any) -> Array:
        return Array.of(self.host.reshape(shape))


Array.__module__ = "cupy"


class Program:
    """Runs the reference."""

    def __init__(self, md_hom: MDHom) -> None:
        self.md_hom = md_hom

    def launcher(self) -> Any:
        return self._run

    def beginner(self, *, behind: bool = False) -> tuple[Any, None]:
        return self._run, None

    def _run(self, *arrays: Array) -> None:
        count = len(self.md_hom.inputs)
        hosts = [array.host for array in arrays]
        reference.compute(self.md_hom, hosts[:count], hosts[count:])


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    found: Any = ModuleType("cupy")
    found.ndarray = found.empty = Array
    found.zeros = Array
    found.asarray = lambda a: a if isinstance(a, Array) else Array.of(np.asarray(a))
    found.may_share_memory = lambda a, b: False
    found.copyto = lambda a, b, casting: np.copyto(a.host, b.host, casting=casting)
    runtime = SimpleNamespace(getDevice=lambda: 0, setDevice=lambda _: None)
    stream = SimpleNamespace(ptr=0)
    found.cuda = SimpleNamespace(runtime=runtime, get_current_stream=lambda: stream)
    monkeypatch.setitem(sys.modules, "cupy", found)
    forget_cupy(monkeypatch)
    choose = registry.choice_for

    def choice_for(md_hom: MDHom, arrays: str = "numpy") -> Any:
        if arrays != "cupy":
            return choose(md_hom, arrays)
        return SimpleNamespace(program=Program(md_hom))

    monkeypatch.setattr(registry, "choice_for", choice_for)
    monkeypatch.setattr(registry, "choose_ahead", lambda md_homs, arrays: None)
    invalidation.clear()
    yield found
    invalidation.clear()


def records(dtype: np.dtype, count: int = 7) -> np.ndarray:
    made = np.zeros(count, dtype)
    made["id"] = np.arange(count) * 3 - 5
    made["name"] = b"Ann"
    made["name"][1::2] = b"Annega"
    if "marks" in (dtype.names or ()):
        made["marks"] = np.arange(2 * count).reshape(count, 2) % 5
    return made


@pytest.mark.parametrize(
    ("dtype", "column"),
    [
        (PACKED, Column(("id",))),
        (PACKED, Column(("marks", 1))),
        (PACKED, Column(("name",), 1)),
        (ALIGNED, Column(("id",))),
        (ALIGNED, Column(("name",), 0)),
        (ALIGNED, Column(("name",), 1)),
        (ALIGNED, Column(("text",), 1)),
    ],
)
def test_columns_are_what_numpy_reads(cupy: Any, dtype: np.dtype, column: Column) -> None:
    from mdtensor.translate.records.columns import columns_of

    given = records(dtype)
    if dtype is ALIGNED:
        given["text"] = "äß"
    found = column_on_gpu(Array.of(given), column, cupy)
    (expected,) = columns_of(given, [column], apart=False)
    assert found.host.dtype == expected.dtype
    np.testing.assert_array_equal(found.host, expected)


def test_aligned_columns_are_views_and_others_are_copies(cupy: Any) -> None:
    aligned, packed = Array.of(records(ALIGNED)), Array.of(records(PACKED))
    view = column_on_gpu(aligned, Column(("id",)), cupy)
    assert np.shares_memory(view.host, aligned.host)
    copy = column_on_gpu(packed, Column(("id",)), cupy)
    assert not np.shares_memory(copy.host, packed.host)


def test_a_foreign_byte_order_is_refused(cupy: Any) -> None:
    foreign = Array.of(np.zeros(3, [("id", np.dtype("i8").newbyteorder())]))
    with pytest.raises(DTypeError, match=r"^a field of type '>i8' on a GPU, which has one byte"):
        column_on_gpu(foreign, Column(("id",)), cupy)


@pytest.mark.parametrize("dtype", [PACKED, ALIGNED], ids=["packed", "aligned"])
def test_pairs_of_records_are_compared_as_numpy_s_are(cupy: Any, dtype: np.dtype) -> None:
    left, right = records(dtype), records(dtype, 1025)

    def same(a: Any, b: Any) -> Any:
        return (a["name"] == b["name"]) + 2 * (a["id"] == b["id"])

    expected = mdt.reduce("i,j->i", left, right, f=same, combine="add")
    found = mdt.reduce("i,j->i", Array.of(left), Array.of(right), f=same, combine="add")
    assert type(found) is Array
    np.testing.assert_array_equal(found.host, expected)


def better(lhs: Any, rhs: Any) -> Any:
    return lhs if lhs["mark"] >= rhs["mark"] else rhs


def marked(p: Any, *, i: Any) -> Any:
    return p["marks"][0], p["id"], i


@pytest.mark.parametrize("given", [False, True], ids=["new", "out"])
def test_results_are_records_wherever_their_fields_lie(cupy: Any, given: bool) -> None:
    people = records(PACKED)
    expected = mdt.reduce("i->", people, f=marked, combine=better, dtype=BEST)
    out = Array((), BEST) if given else None
    said: Any = {"f": marked, "combine": better, "dtype": BEST, "out": out}
    found = mdt.reduce("i->", Array.of(people), **said)
    assert type(found) is Array
    assert found.host.tolist() == expected.tolist()
    assert out is None or found is out


def test_an_out_of_numpy_is_refused(cupy: Any) -> None:
    said: Any = {"f": marked, "combine": better, "out": np.zeros((), BEST)}
    message = r"^out is a numpy.ndarray, but operands are on a GPU"
    with pytest.raises(DTypeError, match=message):
        mdt.reduce("i->", Array.of(records(PACKED)), **said)
