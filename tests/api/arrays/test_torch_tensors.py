"""Tensors of torch, or what stands for them, as operands and results of calls and plans."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays import cupy_arrays, invalidation, torch_tensors
from mdtensor.api.arrays.cupy_arrays import CupyLibrary
from mdtensor.api.calls import call_cache
from mdtensor.errors import DTypeError
from tests.api.cupy_stand_in import Array, made  # noqa: F401 — a fixture

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
LEFT, RIGHT = np.arange(12.0).reshape(3, 4), np.arange(20.0).reshape(4, 5)
PRODUCT = LEFT @ RIGHT


class Tensor:
    """What stands for torch's: elements of NumPy, and what torch says of them."""

    layout, requires_grad = "torch.strided", False

    def __init__(self, host: np.ndarray, kind: str = "cpu", **facts: Any) -> None:
        self.host, self.device = host, SimpleNamespace(type=kind, index=0)
        self.is_cpu, self.is_cuda = kind == "cpu", kind == "cuda"
        self.conjugated = False
        self.taken = 0
        self.__dict__.update(facts)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.host.shape

    @property
    def dtype(self) -> str:
        return f"torch.{self.host.dtype.name}"

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // self.host.itemsize for stride in self.host.strides)

    def is_conj(self) -> bool:
        return self.conjugated

    def is_neg(self) -> bool:
        return False

    def resolve_conj(self) -> Tensor:
        return Tensor(self.host.conj())

    def resolve_neg(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        if self.requires_grad or self.conjugated or self.layout != "torch.strided":
            raise RuntimeError("Can't call numpy() on Tensor")
        if not self.is_cpu or self.host.dtype == BFLOAT16:
            raise TypeError("can't convert to numpy")
        return self.host.view()

    def view(self, dtype: str) -> Tensor:
        return Tensor(self.host.view(dtype))

    def detach(self) -> Tensor:
        return self

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return self.host

    def get_device(self) -> int:
        return self.device.index

    def data_ptr(self) -> int:
        return self.host.__array_interface__["data"][0]

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2 if self.is_cuda else 1), self.device.index

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("it is shared by from_dlpack")

    @property
    def array(self) -> Array:
        """What `from_dlpack` gives of it."""
        if self.requires_grad:
            raise RuntimeError("it requires grad")
        self.taken += 1
        return Array.of(self.host, self.device.index)


Tensor.__module__ = "torch"


class Parameter(Tensor):
    """A class made of torch's."""


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("torch")
    module.int16, module.bfloat16 = "int16", BFLOAT16
    module.Tensor, module.is_grad_enabled = Tensor, lambda: True
    graph = SimpleNamespace(increment_version=lambda tensors: None)
    module.autograd = SimpleNamespace(graph=graph)
    module.nn = SimpleNamespace(Parameter=Parameter)
    module.from_numpy = Tensor
    module.from_dlpack = lambda array: Tensor(array.host, "cuda")
    module._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 0)
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(invalidation, "has_tensors", False)
    return module


@mdt.stencil(border="nearest")
def mean(u: Any) -> Any:
    return 0.5 * u[-1] + 0.5 * u[1]


@mdt.mdh
def doubled(y: Any, x: Any) -> None:
    for i in range(x.shape[0]):
        y[i] = 2 * x[i]


@pytest.mark.parametrize("kind", [Tensor, Parameter])
def test_tensors_of_the_processor_are_operands(kind: type[Tensor]) -> None:
    a, b = kind(LEFT), kind(RIGHT)
    for _ in range(3):
        np.testing.assert_array_equal(mdt.einsum("ij,jk->ik", a, b), PRODUCT)
        np.testing.assert_array_equal(mdt.einsum("ij,jk->ik", a, RIGHT), PRODUCT)
        np.testing.assert_array_equal(mdt.reduce("ij->i", a, combine="max"), LEFT.max(1))
        np.testing.assert_array_equal(mdt.tensordot(a, b, 1), PRODUCT)
        assert mean(kind(LEFT[0])).shape == (4,)
    strided = kind(LEFT[:, ::2].T)
    np.testing.assert_array_equal(mdt.einsum("ij->i", strided), LEFT[:, ::2].sum(0))


def test_results_are_written_to_tensors_of_the_processor() -> None:
    a, b = Tensor(LEFT), Tensor(RIGHT)
    out, most = Tensor(np.zeros((3, 5))), Tensor(np.zeros(3))
    for _ in range(3):
        out.host[:] = most.host[:] = -1
        assert mdt.einsum("ij,jk->ik", a, b, out=out) is out
        assert mdt.reduce("ij->i", a, combine="max", out=most) is most
        np.testing.assert_array_equal(out.host, PRODUCT)
        np.testing.assert_array_equal(most.host, LEFT.max(1))
        y = Tensor(np.zeros(4))
        doubled(y, Tensor(LEFT[1]))
        np.testing.assert_array_equal(y.host, 2 * LEFT[1])


def test_bfloat16_is_read_and_written_where_it_lies() -> None:
    left, right = LEFT.astype(BFLOAT16), RIGHT.astype(BFLOAT16)
    a, b, out = Tensor(left), Tensor(right), Tensor(np.zeros((3, 5), BFLOAT16))
    plan = mdt.compile("ij,jk->ik", a, b)
    expected = PRODUCT.astype(BFLOAT16)
    for _ in range(3):
        np.testing.assert_array_equal(mdt.einsum("ij,jk->ik", a, b), expected)
        np.testing.assert_array_equal(plan(a, b), expected)
        for call in (lambda: mdt.einsum("ij,jk->ik", a, b, out=out), lambda: plan(a, b, out=out)):
            out.host[:] = -1
            assert call() is out
            np.testing.assert_array_equal(out.host, expected)
    steps = Tensor(left[:, ::2].T)
    np.testing.assert_array_equal(mdt.reduce("ij->i", steps, combine="max"), left[2, ::2])


def test_plans_take_tensors_of_the_processor() -> None:
    a, b, out = Tensor(LEFT), Tensor(RIGHT), Tensor(np.zeros((3, 5)))
    image, taps = np.ones((1, 6, 6, 2)), np.ones((3, 3, 3, 2))
    conv = mdt.compile(mdt.conv, Tensor(image), Tensor(taps))
    for plan in (mdt.compile("ij,jk->ik", a, b), mdt.compile("ij,jk->ik", LEFT, RIGHT)):
        for _ in range(3):
            np.testing.assert_array_equal(plan(a, b), PRODUCT)
            out.host[:] = -1
            assert plan(a, b, out=out) is out
            np.testing.assert_array_equal(out.host, PRODUCT)
            np.testing.assert_array_equal(
                conv(Tensor(image), Tensor(taps)), np.full((1, 4, 4, 3), 18)
            )


def test_known_calls_on_tensors_of_the_processor_are_recalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def in_full(*_: Any, **__: Any) -> Any:
        raise AssertionError("the call was made in full")

    out = Tensor(np.zeros((3, 5)))
    calls: list[tuple[Any, Any]] = [
        (lambda a, b: mdt.einsum("ij,jk->ik", a, b), lambda x, y: x @ y),
        (lambda a, b: mdt.einsum("ij,jk->ik", a, b, out=out).host, lambda x, y: x @ y),
        (lambda a, b: mdt.tensordot(a, b, 1), lambda x, y: x @ y),
        (lambda a, b: mdt.reduce("ij->i", a, combine="max"), lambda x, y: x.max(1)),
        (lambda a, b: mdt.scan("ij->ij", b, combine={"j": "add"}), lambda x, y: y.cumsum(1)),
    ]
    for call, _ in calls:
        for _ in range(2):
            call(Tensor(LEFT.copy()), Tensor(RIGHT.copy()))
    monkeypatch.setattr(call_cache, "_in_full", in_full)
    for call, expected in calls:
        x, y = LEFT + 1, RIGHT - 2
        np.testing.assert_array_equal(call(Tensor(x), Tensor(y)), expected(x, y))


REFUSED = "operand 0 is a tensor of torch that cannot be taken: "
META = "it is on namespace(type='meta', index=0)\n  hint: t.cpu() is in the processor's memory"


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (
            {"layout": "torch.sparse_coo"},
            "it is sparse_coo\n  hint: t.to_dense() has all elements in memory",
        ),
        ({"kind": "meta"}, META),
    ],
)
def test_what_is_no_array_is_refused(facts: dict[str, Any], text: str) -> None:
    plan = mdt.compile("ij->i", LEFT)
    calls: list[Any] = [
        lambda t: mdt.einsum("ij->i", t),
        lambda t: mdt.reduce("ij->i", t, combine="max"),
        plan,
    ]
    for call in (*calls, *calls):
        with pytest.raises(DTypeError) as caught:
            call(Tensor(LEFT, **facts))
        assert str(caught.value) == REFUSED + text


def test_a_result_is_not_written_to_what_is_no_array() -> None:
    seen = Tensor(np.zeros((3, 4), "c16"), conjugated=True)
    with pytest.raises(DTypeError, match=r"out is a tensor .*: it is conjugated or negated when"):
        mdt.einsum("ij,ij->ij", LEFT, LEFT + 0j, out=seen)


def test_a_tensor_that_is_conjugated_when_it_is_read() -> None:
    x = LEFT + 1j
    found = mdt.einsum("ij->i", Tensor(x, conjugated=True))
    np.testing.assert_array_equal(found, x.conj().sum(1))


# ---- in a GPU's memory


@pytest.fixture
def arrays_at(monkeypatch: pytest.MonkeyPatch, made: list[str]) -> list[int]:  # noqa: F811
    """The places where arrays were made that do not own their memory."""
    found: list[int] = []
    hosts: dict[int, np.ndarray] = {}
    monkeypatch.setattr(Tensor, "hosts", hosts, raising=False)

    def array_at(
        _: Any, place: int, shape: Any, strides: Any, dtype: np.dtype, device: int
    ) -> Array:
        found.append(place)
        host = hosts[place]
        assert (host.shape, host.dtype) == (tuple(shape), dtype)
        return Array.of(host, device)

    monkeypatch.setattr(CupyLibrary, "array_at", array_at)
    monkeypatch.setattr(CupyLibrary, "on_stream", lambda _, stream: nullcontext())
    monkeypatch.setattr(CupyLibrary, "allocating", lambda _, allocate: nullcontext())
    return found


def on_cuda(host: np.ndarray, **facts: Any) -> Tensor:
    tensor = Tensor(host, "cuda", **facts)
    Tensor.hosts[tensor.data_ptr()] = host  # pyright: ignore
    return tensor


@pytest.mark.parametrize("planned", [False, True])
def test_known_calls_and_plans_share_no_capsules(arrays_at: list[int], planned: bool) -> None:
    a, b = on_cuda(LEFT.copy()), on_cuda(RIGHT.copy())
    out = on_cuda(np.zeros((3, 5)))
    call = mdt.compile("ij,jk->ik", a, b) if planned else partial(mdt.einsum, "ij,jk->ik")
    for turn in range(7):
        if turn == 2:
            known = a.taken, b.taken
        np.testing.assert_array_equal(call(a, b).host, PRODUCT)
        out.host[:] = -1
        assert call(a, b, out=out) is out
        np.testing.assert_array_equal(out.host, PRODUCT)
    assert (a.taken, b.taken) == known
    assert planned or len(arrays_at) == 3, "one for each place"


def test_a_convolution_is_planned_for_tensors(arrays_at: list[int]) -> None:
    image, taps = on_cuda(np.ones((1, 6, 6, 2))), on_cuda(np.ones((3, 3, 3, 2)))
    plan = mdt.compile(mdt.conv, image, taps)
    assert plan.arrays == "cupy"
    for _ in range(3):
        np.testing.assert_array_equal(plan(image, taps).host, np.full((1, 4, 4, 3), 18))


def test_kernels_have_the_stream_and_the_memory_of_torch(
    arrays_at: list[int], torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams, allocators = [0], list[Any]()

    @contextmanager
    def within(held: list[Any], value: Any) -> Iterator[None]:
        held.append(value)
        yield
        held.pop()

    a, b = on_cuda(LEFT.copy()), on_cuda(RIGHT.copy())
    mdt.einsum("ij,jk->ik", a, b)
    torch._C._cuda_getCurrentRawStream = lambda device: 7
    cupy = cupy_arrays.library()
    monkeypatch.setattr(cupy, "current_stream", lambda: streams[-1])
    monkeypatch.setattr(cupy, "on_stream", partial(within, streams))
    monkeypatch.setattr(cupy, "allocating", partial(within, allocators))
    seen: list[Any] = []

    def launch(*arrays: Any) -> Any:
        seen.append((streams[-1], allocators[-1](8)[1].host.nbytes))
        return single(*arrays)

    torch.empty = lambda n, **_: Tensor(np.empty(n, np.uint8))
    torch.uint8 = "uint8"
    single = torch_tensors.as_tensor
    monkeypatch.setattr(torch_tensors, "as_tensor", launch)
    for _ in range(3):
        np.testing.assert_array_equal(mdt.einsum("ij,jk->ik", a, b).host, PRODUCT)
    assert (seen, streams, allocators) == ([(7, 8)] * 3, [0], [])


def test_views_own_their_memory(arrays_at: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def einsum(text: str, array: Array) -> Array:
        return Array.of(np.einsum(text, array.host))

    monkeypatch.setattr(sys.modules["cupy"], "einsum", einsum, raising=False)
    a, b = on_cuda(LEFT.copy()), on_cuda(RIGHT.copy())
    mdt.einsum("ij,jk->ik", a, b)  # by which tensors are known
    for _ in range(3):
        before = a.taken
        np.testing.assert_array_equal(mdt.einsum("ij->ji", a).host, LEFT.T)
        assert a.taken == before + 1


def test_what_stands_beside_tensors_on_a_gpu_is_looked_at(arrays_at: list[int]) -> None:
    a = on_cuda(LEFT.copy())
    mdt.einsum("ij->i", a)
    with pytest.raises(DTypeError, match="operand 1 "):
        mdt.einsum("ij,jk->ik", a, object())
