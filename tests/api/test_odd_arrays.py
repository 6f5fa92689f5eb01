"""Arrays as they come: other byte orders, masks, subclasses, other libraries' arrays, sharing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays.dlpack import is_on_gpu, shared
from mdtensor.directive import (
    Buffer,
    cc,
    combine_ops,
    fp64,
    inp,
    inp_view,
    md_hom,
    mdh,
    out,
    out_view,
)
from mdtensor.errors import DTypeError, NoDeviceError, ShapeError

A = np.arange(6.0).reshape(2, 3)
MASKED = np.ma.masked_array(A, mask=A > 3)
D = Buffer[fp64]


@mdt.stencil(border="wrap")
def shifted(u: Any) -> Any:
    return u[0, -1]


@mdt.stencil
def both_sides(u: Any) -> Any:
    return u[-1], u[1]


@mdt.mdh
def copied(x: Any, y: Any) -> None:
    for i in range(len(x)):
        y[i] = x[i]


@mdh(out(y=D), inp(x=D), combine_ops(cc))
def doubled(y: Any, x: Any) -> None:
    for i in range(len(x)):
        y[i] = 2 * x[i]


def lazy_sum(a: np.ndarray) -> Any:
    return (mdt.lazy(a)[:, 1:] + 1).evaluate()


CALLS: dict[str, Callable[[Any], Any]] = {
    "einsum": lambda a: mdt.einsum("ij,kj->ik", a, a),
    "semiring": lambda a: mdt.einsum("ij,kj->ik", a, a, semiring="max_plus"),
    "reduce": lambda a: mdt.reduce("ij->i", a, combine="max"),
    "scan": lambda a: mdt.scan("ij->ij", a, combine={"j": "add"}),
    "stencil": shifted,
    "steps": lambda a: shifted.steps(a, n=3),
    "conv": lambda a: mdt.conv(a, a[:1, :2], layout="HW,RS->PQ"),
    "convolve": lambda a: mdt.convolve(a[0], a[1]),
    "filter": lambda a: mdt.ndimage.uniform_filter(a, 2),
    "lazy": lazy_sum,
    "loops with operators": lambda a: doubled(a[0]),
    "plan": lambda a: mdt.compile(mdt.reduce, "ij->i", a)(a),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_other_byte_order(name: str) -> None:
    found = CALLS[name](A.astype(">f8"))
    np.testing.assert_allclose(found, CALLS[name](A), rtol=1e-14)
    assert found.dtype.isnative or name == "einsum"


def test_results_in_the_other_byte_order() -> None:
    y = np.zeros(3, ">f8")
    copied(A[1], y)
    np.testing.assert_array_equal(y, A[1])
    for n in range(2):
        found = np.zeros(2, ">f8")
        assert mdt.reduce("ij->i", A + n, out=found) is found
        np.testing.assert_array_equal(found, (A + n).sum(1))
    with pytest.raises(DTypeError, match="kernels write no elements of '>f8'"):
        mdt.reduce("ij->i", A, dtype=">f8")
    with pytest.raises(DTypeError, match="no kernels compute with a foreign byte order, and NumPy"):
        mdt.einsum("i+1 j -> i j", A.astype(">f8"))
    with pytest.raises(DTypeError, match="a foreign byte order, and a plan is for"):
        mdt.compile("ij->i", A.astype(">f8"))


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"einsum", "convolve", "filter"}))
def test_masks_are_not_overlooked(name: str) -> None:
    with pytest.raises(DTypeError, match="is a masked array, and kernels see no masks") as caught:
        CALLS[name](MASKED)
    assert "a.filled(…)" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("what", "operands"),
    [
        ("ij->i", (A,)),
        ("ij,kj->ik", (A, A + 1)),
        (lambda: mdt.reduce, ("ij->i", A)),
        (lambda: mdt.reduce, ("ij,kj->ik", A, A + 1)),
        (lambda: mdt.ndimage.correlate, (A, A[:, :2])),
        (lambda: both_sides, (A[1],)),
    ],
)
def test_plans_see_masks(what: Any, operands: tuple[Any, ...]) -> None:
    """When they are made and at every call, with and without arrays for the results."""
    what = what if isinstance(what, str) else what()
    plan = mdt.compile(what, *operands)
    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    expected = plan(*arrays)
    out = tuple(map(np.empty_like, expected)) if len(plan.results) > 1 else np.empty_like(expected)
    for number, array in enumerate(arrays):
        masked = [*arrays]
        masked[number] = np.ma.masked_array(array, mask=array > 3)
        with pytest.raises(DTypeError, match="is a masked array, and kernels see no masks"):
            mdt.compile(what, *[t for t in operands if isinstance(t, str)], *masked)
        for made in (plan, mdt.compile(what, *operands)):
            for options in ({}, {"out": out}):
                with pytest.raises(DTypeError, match=f"operand {number} is a masked array, and"):
                    made(*masked, **options)
                np.testing.assert_array_equal(made(*arrays, **options), expected)


@pytest.mark.parametrize("name", ["einsum", "convolve", "filter"])
def test_masks_are_overlooked_where_numpy_and_scipy_do_so(name: str) -> None:
    np.testing.assert_allclose(CALLS[name](MASKED), CALLS[name](A))


def as_matrix(array: np.ndarray) -> np.matrix:
    return array.view(np.matrix)


class Like:
    """What pandas and others give: an array when asked."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array if dtype is None else self.array.astype(dtype)


class Exchanged:
    """A tensor of a library that NumPy does not know, in the processor's memory."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class Elsewhere(Exchanged):
    """One in the memory of another device."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("copy it first")


class Refusing:
    """What some libraries do with what they hold."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise RuntimeError("detach it first")


READ = ("einsum", "semiring", "reduce", "scan", "stencil", "steps", "filter", "lazy")


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("kind", [as_matrix, Like, np.ndarray.tolist, memoryview, Exchanged])
def test_whatever_gives_an_array(name: str, kind: Callable[[np.ndarray], Any]) -> None:
    np.testing.assert_allclose(CALLS[name](kind(A)), CALLS[name](A))


@pytest.mark.parametrize("name", ["einsum", "reduce", "scan"])
def test_what_gives_none_is_named(name: str) -> None:
    with pytest.raises(DTypeError, match=r"operand 0 is a Refusing .* detach it first"):
        CALLS[name](Refusing())
    with pytest.raises(DTypeError, match=r"operand 0 is a Elsewhere .* copy it first"):
        CALLS[name](Elsewhere(A))
    with pytest.raises(ShapeError, match=r"operand 0 is a list that is no array: .*\n  hint: nest"):
        CALLS[name]([[1, 2], [3]])


class Tensor(Like):
    """Like torch's: with a shape and a type of its own, but without strides."""

    dtype = "torch.float64"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape


def test_tensors_of_other_libraries_are_read_but_not_written() -> None:
    t = Tensor(A)
    np.testing.assert_array_equal(mdt.reduce("ij->i", t), A.sum(1))
    np.testing.assert_array_equal(shifted(t), np.roll(A, 1, 1))
    np.testing.assert_array_equal(lazy_sum(t), A[:, 1:] + 1)
    with pytest.raises(DTypeError, match="out is Tensor, not an array"):
        mdt.reduce("ij->i", A, out=Tensor(np.zeros(2)))
    with pytest.raises(DTypeError, match="y is written, but is no array of numpy: Tensor"):
        copied(A[0], Tensor(np.zeros(3)))
    np.testing.assert_array_equal(shifted.steps(t, n=0), A)
    apart = mdt.einsum("ij,kj->ik", t, t, semiring="min_plus", dtype="f8")
    np.testing.assert_array_equal(apart, (A[:, None] + A).min(2))
    for plan in (mdt.compile("ij->i", t), mdt.compile(mdt.reduce, "ij->i", t)):
        np.testing.assert_array_equal(plan(A), A.sum(1))
    with pytest.raises(ShapeError, match="a plan takes arrays, not Tensor"):
        plan(t)


def test_formulas_see_no_masks_either() -> None:
    @mdh()
    def copy() -> Any:
        return (
            out_view[fp64](y=[lambda i: i]),
            md_hom[3](lambda x: x, (cc,)),
            inp_view[fp64](x=[lambda i: i]),
        )

    with pytest.raises(DTypeError, match="x is a masked array, and kernels see no masks"):
        copy(MASKED[0])


@pytest.mark.parametrize("target", [[0.0, 0, 0], Like(np.zeros(3)), memoryview(np.zeros(3))])
def test_loops_write_to_arrays_only(target: Any) -> None:
    """What a call makes an array of would be written, and lost."""
    with pytest.raises(DTypeError, match="y is written, but is no array of numpy"):
        doubled(target, A[0])


def test_loops_do_not_write_to_read_only_arrays() -> None:
    y = np.zeros(3)
    y.flags.writeable = False
    for function in (lambda: copied(A[0], y), lambda: doubled(y, A[0])):
        with pytest.raises(ShapeError, match="y is written, but read-only"):
            function()


@pytest.mark.parametrize("target", [[0, 0], (None,), "xy", 3])
def test_results_go_to_arrays_only(target: Any) -> None:
    for _ in range(2):
        mdt.reduce("ij->i", A)
        with pytest.raises(DTypeError, match=r"out is \w+, not an array"):
            mdt.reduce("ij->i", A, out=target)


def test_results_that_share_memory_are_written_in_order() -> None:
    x, y = np.arange(9.0), np.empty(7)
    for _ in range(3):
        both_sides(x, out=(y, y))
        np.testing.assert_array_equal(y, x[2:])


def test_results_that_overlap_operands() -> None:
    for n in range(2):
        x = np.arange(9.0) + n
        expected = np.cumsum(x[:-1])
        np.testing.assert_array_equal(mdt.scan("i->i", x[:-1], out=x[1:]), expected)
        m = np.arange(9.0).reshape(3, 3) + n
        expected = m @ m
        np.testing.assert_array_equal(mdt.einsum("ij,jk->ik", m, m, out=m), expected)


class OnGpu(Exchanged):
    """A tensor in a GPU's memory, by DLPack."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class OfCuda:
    """One of a library that knows CUDA's interface alone."""

    __cuda_array_interface__: Any = None


@pytest.mark.parametrize("tensor", [OnGpu(A), OfCuda()])
def test_tensors_on_a_gpu_need_cupy(tensor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    for call in ("einsum", "reduce", "scan", "stencil"):
        with pytest.raises(NoDeviceError, match="CuPy cannot be imported") as caught:
            CALLS[call](tensor)
        assert "pip install" in (caught.value.hint or "")


def test_tensors_on_a_gpu_are_shared_by_what_they_offer() -> None:
    """A module stands for CuPy here, whose arrays are NumPy's."""
    cupy: Any = SimpleNamespace(
        __name__="cupy", ndarray=np.ndarray, from_dlpack=lambda t: t.array, asarray=lambda t: A[0]
    )
    assert is_on_gpu(OnGpu(A))
    assert is_on_gpu(OfCuda())
    assert not is_on_gpu(Exchanged(A))
    assert not is_on_gpu(A)
    assert shared("x", A, cupy) is A
    assert shared("x", OnGpu(A), cupy) is A
    np.testing.assert_array_equal(shared("x", OfCuda(), cupy), A[0])
    refusing = SimpleNamespace(**vars(cupy) | {"from_dlpack": Elsewhere.__dlpack__})
    with pytest.raises(DTypeError, match="x is a OnGpu that cupy does not take: copy it first"):
        shared("x", OnGpu(A), refusing)
