"""einsum on CuPy arrays, through generated CUDA, against the oracle."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.calls.statistics import stats
from mdtensor.api.engine import registry
from mdtensor.backends.cuda.cuda_graphs import WORTH_RECORDING
from tests.cases import CASES, DTYPES, Case, operands, tolerance
from tests.hurried import at_once

pytestmark = pytest.mark.gpu


def compare(result: Any, text: str, arrays: list[np.ndarray]) -> None:
    """Equal to NumPy in wide types, up to the rounding of the result's type."""
    got = result.get()
    if got.dtype.kind in "fc":
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        expected = np.einsum(text, *(array.astype(wide) for array in arrays))
    else:
        expected = np.einsum(text, *arrays)
    terms = max((array.size for array in arrays), default=1) * 16
    np.testing.assert_allclose(
        got,
        expected,
        rtol=0,
        atol=tolerance(got.dtype, terms, 2.0) if got.dtype.kind in "fc" else 0,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(cupy: Any, case: Case, dtype: str) -> None:
    arrays = operands(case, dtype)
    result = mdt.einsum(case.text, *map(cupy.asarray, arrays))
    assert isinstance(result, cupy.ndarray)
    assert result.dtype == np.einsum(case.text, *arrays).dtype
    compare(result, case.text, arrays)


@pytest.mark.parametrize("dtype", ["float32", "int16", "complex64"])
def test_layouts_are_read_in_place(cupy: Any, dtype: str) -> None:
    rng = np.random.default_rng(3)
    wide = (rng.random((40, 60)) * 9 - 4).astype(dtype)
    on_device = cupy.asarray(wide)
    for view in (lambda a: a[::-1, ::2], lambda a: a.T[3:33], lambda a: a[5:35:3, ::-1]):
        left, right = view(wide), view(wide).T
        result = mdt.einsum("ij,jk->ik", view(on_device), view(on_device).T)
        compare(result, "ij,jk->ik", [left, right])


@pytest.mark.parametrize("shape", [(1, 1, 1), (37, 41, 43), (128, 256, 64), (513, 17, 511)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_products_of_any_size(cupy: Any, shape: tuple[int, int, int], dtype: str) -> None:
    rng = np.random.default_rng(5)
    m, k, n = shape
    left = (rng.random((m, k)) * 5 - 2).astype(dtype)
    right = (rng.random((k, n)) * 5 - 2).astype(dtype)
    compare(
        mdt.einsum("ij,jk->ik", cupy.asarray(left), cupy.asarray(right)),
        "ij,jk->ik",
        [left, right],
    )


def test_long_reductions(cupy: Any) -> None:
    rng = np.random.default_rng(7)
    x = rng.random(1_000_003).astype("f4")
    compare(mdt.einsum("i,i->", cupy.asarray(x), cupy.asarray(x)), "i,i->", [x, x])


def test_out_and_stream(cupy: Any) -> None:
    x = np.arange(12, dtype="f4").reshape(3, 4)
    out = cupy.zeros((3, 3), "f4")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        given = cupy.asarray(x)
        result = mdt.einsum("ij,kj->ik", given, given, out=out)
        stream.synchronize()
    assert result is out
    np.testing.assert_allclose(out.get(), x @ x.T)


def test_plan_runs_on_device_arrays(cupy: Any) -> None:
    left, right = cupy.ones((8, 16), "f4"), cupy.ones((16, 4), "f4")
    plan = mdt.compile("ij,jk->ik", left, right)
    np.testing.assert_allclose(plan(left, right).get(), np.full((8, 4), 16))


def test_kernels_computed_the_calls(cupy: Any) -> None:
    before = stats().generated.get("float", 0)
    mdt.einsum("ij,jk->ik", cupy.ones((8, 16), "f4"), cupy.ones((16, 4), "f4"))
    assert stats().generated["float"] == before + 1


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ik,kj->ij", ((10, 64), (64, 50))),  # one kernel
        ("ik,kj->ij", ((16, 2048), (2048, 100))),  # groups that count themselves
        ("ij,jk,kl->il", ((9, 8), (8, 30), (30, 7))),  # two programs
    ],
)
@pytest.mark.parametrize("aside", [False, True], ids=["legacy stream", "another"])
def test_calls_that_became_graphs_take_any_arrays(
    cupy: Any, text: str, shapes: tuple[tuple[int, ...], ...], aside: bool
) -> None:
    rng = np.random.default_rng(5)
    every = [
        [rng.integers(-9, 9, shape).astype("f4") for shape in shapes]
        for _ in range(WORTH_RECORDING + 8)
    ]
    with cupy.cuda.Stream(non_blocking=True) if aside else cupy.cuda.Stream.null as stream:
        found = [mdt.einsum(text, *map(cupy.asarray, arrays)) for arrays in every]
        stream.synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        elsewhere = mdt.einsum(text, *map(cupy.asarray, every[0]))
        stream.synchronize()
    again = mdt.einsum(text, *map(cupy.asarray, every[1]))
    for result, arrays in zip((*found, elsewhere, again), (*every, *every[:2]), strict=True):
        np.testing.assert_array_equal(result.get(), np.einsum(text, *arrays, dtype="f8"))


def test_captured_calls_run_when_what_captured_them_does(cupy: Any) -> None:
    rng = np.random.default_rng(8)
    left, right, later = (rng.integers(-9, 9, (16, 16)).astype("f4") for _ in range(3))
    a, b, out = cupy.asarray(left), cupy.asarray(right), cupy.zeros((16, 16), "f4")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(WORTH_RECORDING + 8):
            mdt.einsum("ij,jk->ik", a, b, out=out)
        stream.begin_capture()
        mdt.einsum("ij,jk->ik", a, b, out=out)
        captured = stream.end_capture()
        a.set(later)
        out.fill(0)
        stream.synchronize()
        assert not out.get().any()
        captured.launch(stream)
        stream.synchronize()
        np.testing.assert_array_equal(out.get(), later @ right)
        mdt.einsum("ij,jk->ik", b, a, out=out)
        stream.synchronize()
    np.testing.assert_array_equal(out.get(), right @ later)


def test_threads_and_streams_keep_their_launches_apart(cupy: Any) -> None:
    shapes, calls = ((16, 2048), (2048, 100)), 2 * WORTH_RECORDING
    plan = mdt.compile("ik,kj->ij", *(cupy.zeros(shape, "f4") for shape in shapes))

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        hosts = [[rng.integers(-9, 9, shape).astype("f4") for shape in shapes] for _ in range(3)]
        with cupy.cuda.Stream(non_blocking=True) if seed % 3 else cupy.cuda.Stream.null as stream:
            given = [list(map(cupy.asarray, arrays)) for arrays in hosts]
            out = cupy.empty((16, 100), "f4")
            for turn in range(calls):
                n = turn % 3 if turn % 5 else 0
                found = [mdt.einsum("ik,kj->ij", *given[n]), plan(*given[n], out=out).copy()]
                found.append(plan(*given[n - 1]))
                if turn % 7 == 0:
                    stream.synchronize()
                    exact = [hosts[n][0] @ hosts[n][1]] * 2 + [hosts[n - 1][0] @ hosts[n - 1][1]]
                    pairs = zip(found, exact, strict=True)
                    assert all(np.array_equal(a.get(), b) for a, b in pairs), (seed, turn)

    at_once(*(partial(work, seed) for seed in range(6)))


def test_plans_that_became_graphs_take_any_arrays(cupy: Any) -> None:
    rng = np.random.default_rng(6)
    shapes = (10, 64), (64, 50)
    hosts = [[rng.integers(-9, 9, shape).astype("f4") for shape in shapes] for _ in range(3)]
    plan = mdt.compile("ik,kj->ij", *map(cupy.asarray, hosts[0]))
    given = [list(map(cupy.asarray, arrays)) for arrays in hosts]
    outs = [cupy.empty((10, 50), "f4") for _ in hosts]
    for turn in range(3 * WORTH_RECORDING):
        n = turn % 3 if turn % 7 else 0
        outs[n].fill(0)
        plan(*given[n], out=outs[n])
        plan(*given[n], out=outs[n])
    for out, arrays in zip(outs, hosts, strict=True):
        np.testing.assert_array_equal(out.get(), arrays[0] @ arrays[1])


def test_calls_on_a_captured_stream_are_part_of_its_graph(cupy: Any) -> None:
    x = cupy.asarray((np.arange(60000, dtype="f4") % 7).reshape(3, 20000))
    out = cupy.empty((3,), "f4")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        mdt.einsum("ij->i", x, out=out)
        stream.synchronize()
        stream.begin_capture()
        mdt.einsum("ij->i", x, out=out)
        graph = stream.end_capture()
        for factor in (1, 2):
            out.fill(np.nan)
            graph.launch(stream)
            stream.synchronize()
            np.testing.assert_array_equal(out.get(), x.get().sum(axis=1, dtype="f8"))
            x *= 2 / factor


def test_a_new_shape_begins_by_a_general_kernel_and_is_captured_with_its_own(
    cupy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))  # where no shape has a kernel
    rng, engine = np.random.default_rng(9), registry.engine_for("cupy")

    def operands(rows: int, columns: int) -> tuple[Any, Any]:
        shapes = (rows, 96), (96, columns)
        left, right = (rng.integers(-9, 9, shape).astype("f4") for shape in shapes)
        return cupy.asarray(left), cupy.asarray(right)

    def check(found: Any, a: Any, b: Any) -> None:
        np.testing.assert_array_equal(found.get(), a.get() @ b.get())

    with mdt.tuning("off"):
        for shape in ((64, 70), (65, 71)):
            a, b = operands(*shape)
            check(mdt.einsum("ik,kj->ij", a, b), a, b)
            engine.settle()
        a, b = operands(66, 72)
        plan = mdt.compile("ik,kj->ij", a, b)
        assert "general" in plan.choices()[0].origin
        out = cupy.empty((66, 72), "f4")
        with cupy.cuda.Stream(non_blocking=True) as stream:
            check(plan(a, b, out=out), a, b)
            stream.begin_capture()
            plan(a, b, out=out)
            captured = stream.end_capture()
            a.set(a.get() + 1)
            out.fill(np.nan)
            captured.launch(stream)
            stream.synchronize()
            check(out, a, b)
            check(plan(a, b, out=out), a, b)
    assert plan.choices()[0].origin == "cost model", "which the capture waited for"


@pytest.mark.parametrize(
    ("dtype", "step", "begins"), [("c16", 24, 0), ("c16", 16, 8), ("f8", 12, 4)]
)
def test_elements_between_those_of_their_type_are_copied(
    cupy: Any, dtype: str, step: int, begins: int
) -> None:
    """CuPy's own kernels end at such addresses, and with them the process."""
    host = np.random.default_rng(0).standard_normal((5, 3)).astype(dtype)

    def apart(values: np.ndarray) -> Any:
        memory = cupy.zeros(4096, np.uint8)
        made = cupy.ndarray(values.shape, dtype, memory.data + begins, (3 * step, step))
        size = values.itemsize
        rows = cupy.ndarray((*values.shape, size), np.uint8, made.data, (*made.strides, 1))
        rows[...] = cupy.asarray(np.ascontiguousarray(values).view(np.uint8).reshape(5, 3, size))
        return made

    def read(array: Any) -> np.ndarray:
        size = host.itemsize
        rows = cupy.ndarray((*host.shape, size), np.uint8, array.data, (*array.strides, 1))
        return rows.copy().get().view(dtype)[..., 0]

    a, out = apart(host), apart(0 * host)
    np.testing.assert_allclose(mdt.einsum("ij,kj->ik", a, a).get(), host @ host.T, rtol=1e-12)
    np.testing.assert_allclose(mdt.reduce("ij->i", a, combine="add").get(), host.sum(1), rtol=1e-12)
    assert mdt.scan("ij->ij", a, combine={"j": "add"}, out=out) is out
    np.testing.assert_allclose(read(out), host.cumsum(1), rtol=1e-12)


def test_records_are_read_and_written_where_they_lie(cupy: Any) -> None:
    packed = np.dtype([("tag", "u1"), ("id", "i8"), ("name", "S6"), ("marks", "f4", (2,))])
    best = np.dtype([("mark", "f4"), ("id", "i8"), ("place", "i2")])
    people = np.zeros(1500, packed)
    people["id"], people["name"] = np.arange(1500) % 40, b"Ann"
    people["name"][::3] = b"Annega"
    people["marks"] = np.arange(3000).reshape(1500, 2) % 701

    def same(a: Any, b: Any) -> Any:
        return (a["name"] == b["name"]) + 2 * (a["id"] == b["id"])

    def marked(p: Any, *, i: Any) -> Any:
        return p["marks"][1], p["id"], i

    def better(lhs: Any, rhs: Any) -> Any:
        is_first = lhs["mark"] == rhs["mark"] and lhs["place"] <= rhs["place"]
        return lhs if lhs["mark"] > rhs["mark"] or is_first else rhs

    on_device = cupy.ndarray(1500, packed, cupy.asarray(people.view("u1")).data)
    found = mdt.reduce("i,j->i", on_device, on_device, f=same, combine="add")
    rows, columns = people[:, None], people[None, :]
    names, ids = rows["name"] == columns["name"], rows["id"] == columns["id"]
    np.testing.assert_array_equal(found.get(), (names + 2 * ids).sum(axis=1))
    record = mdt.reduce("i->", on_device, f=marked, combine=better, dtype=best)
    first = int(people["marks"][:, 1].argmax())
    assert record.get().tolist() == (people["marks"][first, 1], people["id"][first], first)
