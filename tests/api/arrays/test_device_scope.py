"""Calls compute on the device of their arrays, whichever is the current one; no GPU is needed."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays import device_scope, invalidation
from mdtensor.api.arrays.cupy_arrays import CupyLibrary
from mdtensor.api.calls import call_cache
from mdtensor.api.engine import registry
from mdtensor.errors import DeviceError, DTypeError
from tests.api.cupy_stand_in import Array, Program, current, made, use
from tests.hurried import at_once

__all__ = ["made"]  # a fixture
ndimage = mdt.ndimage
LEFT = np.arange(12, dtype="f4").reshape(3, 4)
RIGHT = np.arange(20, dtype="f4").reshape(4, 5)
IMAGE = np.random.default_rng(3).random((9, 8), np.float32)


class Tensor:
    """A tensor of another library, which says where it lies and nothing else."""

    def __init__(self, host: np.ndarray, device: int) -> None:
        self.array = Array.of(host, device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.array.data.device_id

    def __dlpack__(self, **_: Any) -> Any: ...


class OnlyOfCuda:
    """One that knows CUDA's interface alone."""

    def __init__(self, address: int) -> None:
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (2,)}


OnlyOfCuda.__cuda_array_interface__ = None  # type: ignore[attr-defined]


@mdt.stencil(border="reflect")
def blur(u: Any) -> Any:
    return 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])


@mdt.mdh
def row_sums(w: Any, m: Any) -> None:
    for i in range(m.shape[0]):
        w[i] = 0
        for k in range(m.shape[1]):
            w[i] += m[i, k]


def summed(m: Any) -> Any:
    w = Array.of(np.zeros(len(m.host), "f4"), m.data.device_id)
    row_sums(w, m)
    return w


# What is called on an image, which NumPy's arrays tell the result of.
CALLS: dict[str, Callable[[Any], Any]] = {
    "einsum": lambda u: mdt.einsum("ij,kj->ik", u, u),
    "einsum of lists": lambda u: mdt.einsum(u, [0, 1], u, [0, 1], [0]),
    "path": lambda u: mdt.einsum("ij,kj,kl->il", u, u, u, optimize=True),
    "semiring": lambda u: mdt.einsum("ij,kj->ik", u, u, semiring="min_plus"),
    "tensordot": lambda u: mdt.tensordot(u, u, ((0,), (0,))),
    "reduce": lambda u: mdt.reduce("ij->i", u, combine="max"),
    "scan": lambda u: mdt.scan("ij->ij", u, combine={"j": "add"}),
    "filter": lambda u: ndimage.correlate1d(u, [1.0, 2.0, 0.5]),
    "gaussian filter": lambda u: ndimage.gaussian_filter(u, 1.0),
    "stencil": blur,
    "steps": lambda u: blur.steps(u, n=3),
    "lazy": lambda u: (mdt.lazy(u)[1:] + 2 * mdt.lazy(u)[:-1]).evaluate(),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_lie_where_the_arrays_do(made: list[str], name: str) -> None:
    call = CALLS[name]
    expected = call(IMAGE)
    for start, device in ((0, 1), (0, 0), (1, 1), (1, 0), (0, 2)):
        use(start)
        u = Array.of(IMAGE, device)
        for _ in range(3):
            found = call(u)
            assert (found.data.device_id, current()) == (device, start)
            np.testing.assert_allclose(found.host, expected, rtol=1e-5, atol=1e-6)


def test_loops_write_to_arrays_of_another_device(made: list[str]) -> None:
    for _ in range(3):
        np.testing.assert_allclose(summed(Array.of(IMAGE, 1)).host, IMAGE.sum(1), rtol=1e-5)
        assert current() == 0


@pytest.mark.parametrize("into", [False, True], ids=["new", "out"])
def test_kernels_are_chosen_once_for_each_device(made: list[str], into: bool) -> None:
    counts: list[int] = []
    for start in (0, 1, 0, 1):
        for device in (0, 1):
            use(start)
            out = Array.of(np.zeros((3, 5), "f4"), device) if into else None
            a, b = Array.of(LEFT, device), Array.of(RIGHT, device)
            for _ in range(2):  # the first call of a kind is made in full
                found = mdt.einsum("ij,jk->ik", a, b, out=out)
            assert out is None or found is out
            np.testing.assert_array_equal(found.host, LEFT @ RIGHT)
            counts.append(len(made))
    assert counts[1:] == [counts[1]] * 7


def test_calls_elsewhere_are_recalled(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, out = (Array.of(x, 1) for x in (LEFT, RIGHT, np.zeros((3, 5), "f4")))
    for _ in range(2):
        mdt.einsum("ij,jk->ik", a, b)
        mdt.einsum("ij,jk->ik", a, b, out=out)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the call was made in full")

    monkeypatch.setattr(call_cache, "_in_full", refuse)
    monkeypatch.setattr(device_scope, "device_of_call", refuse)
    assert mdt.einsum("ij,jk->ik", a, b).data.device_id == 1
    assert mdt.einsum("ij,jk->ik", a, b, out=out) is out
    assert current() == 0


def test_launches_elsewhere_are_forgotten_as_all_others(made: list[str]) -> None:
    a, b = Array.of(LEFT, 1), Array.of(RIGHT, 1)
    for _ in range(3):
        mdt.einsum("ij,jk->ik", a, b)
    before = len(made)
    invalidation.clear()
    mdt.einsum("ij,jk->ik", a, b)
    assert len(made) > before


SEVERAL = (
    r"^arrays of one call lie on several devices\n"
    r"  operand 0 of shape \(3, 4\) is on CUDA device 1\n"
    r"  operand 1 of shape \(4, 5\) is on CUDA device {}\n"
    r"{}"
    r"  hint: with cupy\.cuda\.Device\({}\): copy = cupy\.asarray\(…\) moves {}; "
    r"a tensor of torch is moved by \.to\('cuda:{}'\)$"
)


@pytest.mark.parametrize("planned", [False, True], ids=["einsum", "plan"])
def test_arrays_of_several_devices_are_refused(made: list[str], planned: bool) -> None:
    a, b, there = Array.of(LEFT, 1), Array.of(RIGHT, 1), Array.of(RIGHT, 0)
    out, far = (Array.of(np.zeros((3, 5), "f4"), device) for device in (1, 0))
    call: Any = mdt.einsum
    if planned:
        plan = mdt.compile("ij,jk->ik", a, b)
        call = lambda text, *arrays, **said: plan(*arrays, **said)  # noqa: E731
    text = r"  out of shape \(3, 5\) is on CUDA device 0\n"
    for _ in range(3):
        with pytest.raises(DeviceError, match=SEVERAL.format(0, "", 1, "operand 1", 1)):
            call("ij,jk->ik", a, there)
        with pytest.raises(DeviceError, match=SEVERAL.format(1, text, 1, "out", 1)):
            call("ij,jk->ik", a, b, out=far)
        assert current() == 0
        assert call("ij,jk->ik", a, b, out=out) is out
    assert not far.host.any()
    with pytest.raises(DeviceError, match=r"operand 1 is on CUDA device 0"):
        call("ij,jk->ik", a, Tensor(RIGHT, 0))


@pytest.mark.parametrize("planned", [False, True], ids=["einsum", "plan"])
@pytest.mark.parametrize("into", [False, True], ids=["new", "out"])
def test_the_current_device_is_what_it_was_after_an_error(
    made: list[str], monkeypatch: pytest.MonkeyPatch, planned: bool, into: bool
) -> None:
    use(2)
    a, b = Array.of(LEFT, 1), Array.of(RIGHT, 1)
    out = Array.of(np.zeros((3, 5), "f4"), 1) if into else None
    plan = mdt.compile("ij,jk->ik", a, b)
    call: Any = plan if planned else functools.partial(mdt.einsum, "ij,jk->ik")
    with pytest.raises(ValueError, match="operand"):
        call(a, Array.of(LEFT, 1), out=out)
    assert current() == 2

    def no_memory(*_: Any) -> None:
        raise MemoryError("out of memory")

    for _ in range(3):  # in the first call, and in calls that are recalled
        with monkeypatch.context() as now:
            now.setattr(Program, "run", no_memory)
            with pytest.raises(MemoryError, match=r"^out of memory$"):
                call(a, b, out=out)
        assert current() == 2
        for _ in range(2):
            found = call(a, b, out=out)
            np.testing.assert_array_equal(found.host, LEFT @ RIGHT)
            assert (found.data.device_id, current()) == (1, 2)


# Calls into an array of the caller's that allocate others.
INTO: dict[str, Callable[..., Any]] = {
    "path": lambda u, out: mdt.einsum("ij,kj,kl->il", u, u, u, optimize="greedy", out=out),
    "filter": lambda u, out: ndimage.gaussian_filter(u, 1.0, output=out),
}


@pytest.mark.parametrize("name", INTO)
def test_calls_without_memory_write_nothing(
    made: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    call = INTO[name]
    u, out = Array.of(IMAGE, 1), Array.of(np.zeros_like(IMAGE), 1)
    call(u, out)
    expected = out.host.copy()
    allocate, left = Array.__init__, 0

    def limited(self: Array, shape: tuple[int, ...], dtype: Any) -> None:
        nonlocal left
        if shape:  # else it is made of one of NumPy's
            left -= 1
            if left < 0:
                raise MemoryError("out of memory")
        allocate(self, shape, dtype)

    monkeypatch.setattr(Array, "__init__", limited)
    failures = 0
    for most in range(20):
        out.host[...], left = -7, most
        try:
            call(u, out)
        except MemoryError:
            failures += 1
            assert (out.host == -7).all()
            assert current() == 0
        else:
            np.testing.assert_array_equal(out.host, expected)
            break
    assert failures
    np.testing.assert_array_equal(out.host, expected)


def test_tensors_are_computed_where_they_lie(made: list[str]) -> None:
    plan = mdt.compile("ij,jk->ik", Tensor(LEFT, 1), Tensor(RIGHT, 1))
    calls = [lambda *x, **said: mdt.einsum("ij,jk->ik", *x, **said), plan]
    for call in calls:
        for device in (1, 0, 1):
            a, b = Tensor(LEFT, device), Tensor(RIGHT, device)
            found = call(a, b)
            assert (found.data.device_id, current()) == (device, 0)
            np.testing.assert_array_equal(found.host, LEFT @ RIGHT)
            out = Tensor(np.zeros((3, 5), "f4"), device)
            assert call(a, Array.of(RIGHT, device), out=out) is out
            np.testing.assert_array_equal(out.array.host, LEFT @ RIGHT)


def test_memory_tells_its_device_where_a_tensor_does_not(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    mdt.einsum("ij->i", Array.of(LEFT, 0))  # from now on CuPy is known
    monkeypatch.setattr(CupyLibrary, "device_at", lambda _, place: asked.append(place) or 3)
    assert device_scope.device_of(OnlyOfCuda(64)) == 3
    assert device_scope.device_of(OnlyOfCuda(0)) is None  # of no elements
    assert asked == [64]
    assert [device_scope.device_of(x) for x in (LEFT, "ij", 3, None, [1, 2])] == [None] * 5


def test_plans_run_where_their_arrays_lie(made: list[str]) -> None:
    plan = mdt.compile("ij,jk->ik", Array.of(LEFT, 1), Array.of(RIGHT, 1))
    assert plan.device == 1
    for start, device in ((0, 1), (1, 1), (1, 0), (0, 0), (0, 1), (1, 0)):
        use(start)
        a, b, out = (Array.of(x, device) for x in (LEFT, RIGHT, np.zeros((3, 5), "f4")))
        for _ in range(2):
            found = plan(a, b)
            assert (found.data.device_id, current()) == (device, start)
            np.testing.assert_array_equal(found.host, LEFT @ RIGHT)
            out.host[...] = 0
            assert plan(a, b, out=out) is out
            np.testing.assert_array_equal(out.host, LEFT @ RIGHT)
    assert sorted(made) == ["launcher"] * 2
    again = pickle.loads(pickle.dumps(mdt.compile("ij->i", LEFT)))
    assert again.device is None


def test_a_plan_takes_arrays_of_numpy_and_of_cupy(made: list[str]) -> None:
    plan = mdt.compile("ij,jk->ik", LEFT, RIGHT)
    for _ in range(3):
        np.testing.assert_array_equal(plan(LEFT, RIGHT), LEFT @ RIGHT)
        found = plan(Array.of(LEFT, 1), Array.of(RIGHT, 1))
        assert found.data.device_id == 1
        np.testing.assert_array_equal(found.host, LEFT @ RIGHT)
    with pytest.raises(DTypeError, match=r"^operand 1 is ndarray, and other arrays are on a GPU"):
        plan(Array.of(LEFT, 1), RIGHT)
    with pytest.raises(DTypeError, match=r"^operand 0 is ndarray, and other arrays are on a GPU"):
        plan(LEFT, Array.of(RIGHT, 1))


@pytest.mark.parametrize("of", [blur, mdt.scan], ids=["stencil", "scan"])
def test_plans_of_functions_run_where_their_array_lies(made: list[str], of: Any) -> None:
    host = IMAGE if of is blur else IMAGE[0]
    text = () if of is blur else ("i->i",)
    expected = of(*text, host)
    plan = mdt.compile(of, *text, Array.of(host, 1))
    for start, device in ((0, 1), (1, 0), (0, 0), (0, 1)):
        use(start)
        u, out = Array.of(host, device), Array.of(np.zeros(expected.shape, "f4"), device)
        for _ in range(2):
            np.testing.assert_allclose(plan(u).host, expected, rtol=1e-5)
            assert plan(u, out=out) is out
            np.testing.assert_allclose(out.host, expected, rtol=1e-5)
            assert current() == start


def test_threads_have_devices_of_their_own(made: list[str]) -> None:
    plan = mdt.compile("ij,jk->ik", Array.of(LEFT, 0), Array.of(RIGHT, 0))

    def compute(mine: int, theirs: int) -> None:
        use(mine)
        arrays = {d: (Array.of(LEFT, d), Array.of(RIGHT, d)) for d in (mine, theirs)}
        for _ in range(100):
            for device, (a, b) in arrays.items():
                for found in (plan(a, b), mdt.einsum("ij,jk->ik", a, b)):
                    assert (found.data.device_id, current()) == (device, mine)

    at_once(*(lambda n=n: compute(n, (n + 1) % 3) for n in range(3)))


def test_recorded_calls_are_tuned_where_they_were_made(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {0: "an H200", 1: "an H200", 2: "an A100"}
    seen_on: list[int] = []

    def engine_for(arrays: str = "numpy") -> Any:
        seen_on.append(current())
        return SimpleNamespace(environment=kinds[current()])

    monkeypatch.setattr(registry, "engine_for", engine_for)
    with mdt.tuning("record") as seen:
        for device in (1, 0, 2, 1):
            mdt.einsum("ij,jk->ik", Array.of(LEFT, device), Array.of(RIGHT, device))
    assert [(item.arrays, item.device) for item in seen] == [("cupy", 1), ("cupy", 2)]
    assert [seen.calls(item) for item in seen] == [3, 1]
    plan = mdt.compile("ij,jk->ik", Array.of(LEFT, 2), Array.of(RIGHT, 2))
    assert [item.device for item in plan.recorded()] == [2]
    seen_on.clear()
    asked: list[int] = []
    monkeypatch.setattr(registry, "choice_for", lambda *_: asked.append(current()))
    plan.choices()
    assert asked == [2]
    assert current() == 0
