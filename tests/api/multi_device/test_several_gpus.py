"""Calls over two GPUs, on the device of their arrays and on another, on streams of the caller's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.multi_device import sharded_array, spread_call
from mdtensor.errors import DeviceError

pytestmark = pytest.mark.gpus
REAL_DEVICES = True

RNG = np.random.default_rng(63)
BOTH = ["cuda:0", "cuda:1"]


def moved(cupy: Any, device: int, *hosts: np.ndarray) -> list[Any]:
    with cupy.cuda.Device(device):
        return [cupy.asarray(host) for host in hosts]


def on(found: Any, device: int) -> np.ndarray:
    assert found.device.id == device
    with found.device:
        return found.get()


def whole(*shape: int) -> np.ndarray:
    """Whole numbers, whose sums do not round."""
    return RNG.integers(-9, 9, shape).astype("f4")


@mdt.stencil(border="reflect")
def mean(u: Any) -> Any:
    return 0.25 * u[-1, 0] + 0.5 * u[0, 0] + 0.25 * u[0, 1]


@pytest.mark.parametrize("home", [0, 1])
@pytest.mark.parametrize("current", [0, 1])
def test_products_and_sums(cupy: Any, home: int, current: int) -> None:
    cases = [
        ("ij,jk->ik", whole(700, 300), whole(300, 500)),  # rows
        ("ij,jk->ik", whole(3, 640), whole(640, 512)),  # columns, which are packed
        ("ij,jk->ik", whole(4, 40960), whole(40960, 4)),  # the sum
        ("i,i->", whole(1 << 20), whole(1 << 20)),
        ("bij,bjk->bik", whole(8, 64, 32), whole(8, 32, 64)),
    ]
    for text, a, b in cases:
        expected = np.einsum(text, a.astype("f8"), b.astype("f8"))
        x, y = moved(cupy, home, a, b)
        with cupy.cuda.Device(current):
            for devices in ("all", BOTH, {"cuda:1": 3, "cuda:0": 1}, ["cuda:1"], ["cuda:0"]):
                found = mdt.einsum(text, x, y, devices=devices)
                np.testing.assert_array_equal(on(found, home), expected)
                assert cupy.cuda.runtime.getDevice() == current


@pytest.mark.parametrize("home", [0, 1])
def test_front_ends_and_plans(cupy: Any, home: int) -> None:
    x, flt = whole(520, 260), whole(6, 3, 3, 5)
    (there, weights, img) = moved(cupy, home, x, flt, whole(4, 40, 36, 5))
    np.testing.assert_array_equal(
        on(mdt.reduce("ij->j", there, combine="max", devices=BOTH), home), x.max(0)
    )
    assert int(mdt.reduce("ij->", there, combine="argmin", devices=BOTH)) == x.argmin()
    scanned = mdt.scan("ij->ij", there, combine={"i": "add"}, devices=BOTH)
    np.testing.assert_array_equal(on(scanned, home), x.cumsum(0))
    one = mdt.conv(img, weights, padding=1)
    np.testing.assert_array_equal(
        on(mdt.conv(img, weights, padding=1, devices=BOTH), home), on(one, home)
    )
    plan = mdt.compile(mean, there, devices=BOTH)
    np.testing.assert_array_equal(on(plan(there), home), on(mean(there), home))
    with cupy.cuda.Device(home):
        out = cupy.zeros_like(there)
    assert plan(there, out=out) is out
    np.testing.assert_array_equal(on(out, home), on(mean(there), home))
    assert " copied to it, " in plan.explain()


@pytest.mark.parametrize("home", [0, 1])
def test_chains_are_cut_step_by_step(cupy: Any, home: int) -> None:
    hosts = [whole(600, 32), whole(32, 640), whole(640, 8)]
    expected = np.linalg.multi_dot([host.astype("f8") for host in hosts])
    arrays = moved(cupy, home, *hosts)
    for _ in range(3):
        found = mdt.einsum("ij,jk,kl->il", *arrays, devices=BOTH)
        np.testing.assert_array_equal(on(found, home), expected)


@pytest.mark.parametrize("home", [0, 1])
@pytest.mark.parametrize("text", ["ij,jk->ik", "ij->ji", "ij->"])
def test_operands_come_late_and_go_at_once(cupy: Any, home: int, text: str) -> None:
    hosts = [whole(2000, 300), whole(300, 400)][: text.count(",") + 1]
    expected = np.einsum(text, *(host.astype("f8") for host in hosts))
    with cupy.cuda.Device(home), cupy.cuda.Stream(non_blocking=True) as stream:
        busy = cupy.ones((4096, 4096), "f4")
        for turn in range(30):
            for _ in range(turn % 3):
                busy = busy @ busy * 0  # keeps the stream, so that what follows comes late
            arrays = [cupy.asarray(host) + 0 for host in hosts]
            found = mdt.einsum(text, *arrays, devices=BOTH)
            for array in arrays:
                array.fill(float("nan"))
            del arrays, array
            junk = [cupy.full((2000, 300), float("nan"), "f4") for _ in range(3)]  # in their memory
            result = found + 0
            stream.synchronize()
            np.testing.assert_array_equal(cupy.asnumpy(result), expected)
            del junk


def test_results_in_views(cupy: Any) -> None:
    a, b = whole(300, 200), whole(200, 100)
    x, y, out = moved(cupy, 0, a, b, np.zeros((600, 200), "f4"))
    place = out[::2, 100:]
    assert mdt.einsum("ij,jk->ik", x, y, out=place, devices=BOTH) is place
    expected = np.zeros((600, 200))
    expected[::2, 100:] = a.astype("f8") @ b
    np.testing.assert_array_equal(on(out, 0), expected)


def test_what_is_refused(cupy: Any) -> None:
    (x,), (y,) = moved(cupy, 0, whole(64, 8)), moved(cupy, 1, whole(8, 8))
    with pytest.raises(DeviceError, match="arrays of one call lie on several devices"):
        mdt.einsum("ij,jk->ik", x, y, devices=BOTH)
    with pytest.raises(DeviceError, match="no device for cupy arrays is called 'llvm'"):
        mdt.einsum("ij->i", x, devices=["llvm", "cuda:0"])
    mdt.einsum("ij->i", x, devices=BOTH)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        try:
            with pytest.raises(DeviceError, match="is being captured"):
                mdt.einsum("ij->i", x, devices=BOTH)
        finally:
            stream.end_capture()


def test_both_devices_compute(cupy: Any) -> None:
    a, b = moved(cupy, 0, whole(4096, 512), whole(512, 512))
    plan = mdt.compile("ij,jk->ik", a, b, devices=BOTH)
    tasks = plan.programs().tasks.tasks  # type: ignore[attr-defined]
    assert [task.device for task in tasks] == [0, 1]
    rows = [task.md_hom.extents["i"] for task in tasks]
    assert sum(rows) == 4096
    assert rows[0] >= rows[1] >= 256  # as many as the link lets the other one have


@pytest.mark.parametrize("current", [0, 1])
def test_sharded_arrays_stay_where_they_are(cupy: Any, current: int) -> None:
    a, b, u = whole(640, 96), whole(96, 500), whole(512, 200)
    with cupy.cuda.Device(current):
        x, y, z = (mdt.shard(cupy.asarray(each), BOTH) for each in (a, b, u))
        replica = mdt.shard(cupy.asarray(b), BOTH, None)
        for shard, device in zip(x.shards, (0, 1), strict=True):
            assert shard.device.id == device
        for other in (y, replica, cupy.asarray(b)):
            found = mdt.einsum("ij,jk->ik", x, other)
            assert [shard.device.id for shard in found.shards] == [0, 1]
            np.testing.assert_array_equal(on(found.gather(), current), a @ b)
        np.testing.assert_array_equal(on(mdt.einsum("ij->j", x), current), a.sum(0))
        other = mean(z)
        for _ in range(3):
            z, other = mean(z, out=other), z
        expected = u
        for _ in range(3):
            expected = mean(expected)
        np.testing.assert_allclose(on(z.gather(), current), expected, rtol=1e-6)
        running = mdt.scan("ij->ij", x, combine={"i": "add"})
        np.testing.assert_array_equal(on(running.gather(), current), a.cumsum(0))


@pytest.mark.parametrize("current", [0, 1])
def test_calls_that_come_often_are_graphs(cupy: Any, current: int) -> None:
    u, v = whole(512, 200), whole(512, 200)
    with cupy.cuda.Device(current):
        x, y = (mdt.shard(cupy.asarray(each), BOTH) for each in (u, v))
        expected = mean(u), mean(v)
        for n in range(300):
            for given, exact in zip((x, y), expected, strict=True):
                found = mean(given)
                if n % 50 == 49:
                    np.testing.assert_allclose(on(found.gather(), current), exact, rtol=1e-6)
        a, b = (cupy.asarray(whole(640, 96)), cupy.asarray(whole(96, 500)))
        product = cupy.asnumpy(a) @ cupy.asnumpy(b)
        out = cupy.empty((640, 500), "f4")
        for _ in range(150):
            mdt.einsum("ij,jk->ik", a, b, devices={"cuda:0": 1, "cuda:1": 2}, out=out)
        np.testing.assert_array_equal(on(out, current), product)
    graphs = [
        len(run._graphs)
        for _, run, *_ in (*sharded_array._kept.values(), *spread_call._spread.values())
    ]
    assert sum(graphs) > 2
