"""What stands for torch where it is not installed: tensors of NumPy, and a list of operators."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mdtensor.api.frameworks import tensor_calls, torch_operators


class DType(str):
    """A type of elements, as torch writes it."""

    __slots__ = ()

    @property
    def is_floating_point(self) -> bool:
        return "float" in self


FLOAT, DOUBLE, SHORT = DType("torch.float32"), DType("torch.float64"), DType("torch.bfloat16")


@dataclass
class Tensor:
    """Elements of NumPy, and what torch says of them; those of bfloat16 are of ml_dtypes."""

    host: np.ndarray
    kind: str = "cpu"
    layout: str = "torch.strided"
    requires_grad: bool = False

    @property
    def device(self) -> Any:
        return Device(self.kind)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.host.shape

    @property
    def dtype(self) -> DType:
        return DType(f"torch.{self.host.dtype.name}")

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"

    @property
    def is_cuda(self) -> bool:
        return self.kind == "cuda"

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // self.host.itemsize for stride in self.host.strides)

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def detach(self) -> Tensor:
        return self

    resolve_conj = resolve_neg = detach

    def numpy(self) -> np.ndarray:
        if self.dtype == SHORT:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.host

    def view(self, dtype: DType) -> Tensor:
        return Tensor(self.host.view(dtype.removeprefix("torch.")))

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj

    def float(self) -> Tensor:
        return Tensor(self.host.astype(np.float32))

    def copy_(self, other: Tensor) -> None:
        np.copyto(self.host, other.host, casting="unsafe")

    def movedim(self, source: int, target: int) -> Tensor:
        return Tensor(np.moveaxis(self.host, source, target))

    def expand(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor(np.broadcast_to(self.host, shape))

    def to(self, dtype: DType) -> Tensor:
        return Tensor(self.host.astype(dtype.removeprefix("torch.")))

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor(np.zeros(shape, self.host.dtype))

    def new_empty(self, shape: tuple[int, ...], dtype: DType) -> Tensor:
        return empty(shape, dtype)


@dataclass(frozen=True)
class Device:
    type: str

    def __str__(self) -> str:
        return self.type


def empty(shape: tuple[int, ...], dtype: DType, device: object = None) -> Tensor:
    return Tensor(np.empty(shape, dtype.removeprefix("torch.")))


@dataclass
class Batched(Tensor):
    """A tensor in torch's first vmap, of which one axis is that of the batch."""

    axis: int = 0


def remove_batch_dim(tensor: Batched, level: int, size: int, axis: int) -> Tensor:
    assert level == 1
    return Tensor(np.moveaxis(tensor.host, tensor.axis, axis))


def add_batch_dim(tensor: Tensor, axis: int, level: int) -> Batched:
    assert level == 1
    return Batched(tensor.host, axis=axis)


@dataclass
class Custom:
    """An operator: its functions, as they were registered."""

    compute: Callable[..., Any]
    schema: str
    parts: dict[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self, *arguments: Any) -> Any:
        return self.compute(*arguments)

    def register_fake(self, fake: Any) -> None:
        self.parts["fake"] = fake

    def register_autograd(self, backward: Any, *, setup_context: Any) -> None:
        self.parts.update(backward=backward, setup=setup_context)

    def register_vmap(self, batch: Any) -> None:
        self.parts["batch"] = batch


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module in the place of torch, on which the operators are registered."""
    module: Any = ModuleType("torch")
    module.__spec__ = ModuleSpec("torch", None)
    module.ops = SimpleNamespace(mdtensor=SimpleNamespace())

    def custom_op(name: str, compute: Any, *, mutates_args: tuple[str, ...], schema: str) -> Custom:
        assert mutates_args == ()
        space, _, name = name.partition("::")
        made = Custom(compute, schema)
        setattr(getattr(module.ops, space), name, made)
        return made

    def library(space: str, kind: str) -> Any:
        assert kind == "FRAGMENT"
        ops = getattr(module.ops, space)
        return SimpleNamespace(impl=lambda name, f, key: getattr(ops, name).parts.update({key: f}))

    module.library = SimpleNamespace(custom_op=custom_op, Library=library)
    module._C = SimpleNamespace(
        _functorch=SimpleNamespace(is_legacy_batchedtensor=lambda t: isinstance(t, Batched)),
        _vmapmode_increment_nesting=lambda: 2,
        _vmapmode_decrement_nesting=lambda: 1,
    )
    module._remove_batch_dim, module._add_batch_dim = remove_batch_dim, add_batch_dim
    module.from_numpy = Tensor
    module.empty, module.bfloat16, module.float32 = empty, SHORT, FLOAT
    module.float64, module.int64 = DOUBLE, DType("torch.int64")
    module.int16 = DType("torch.int16")
    module.compiler = SimpleNamespace(allow_in_graph=lambda function: function)
    monkeypatch.setitem(sys.modules, "torch", module)
    torch_operators.register.cache_clear()
    tensor_calls.forget_results()
    yield module
    torch_operators.register.cache_clear()
    tensor_calls.forget_results()


class Context:
    """What a gradient keeps between its two halves."""

    saved_tensors: tuple[Tensor, ...] = ()
    needs_input_grad: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Tensor) -> None:
        self.saved_tensors = tensors
