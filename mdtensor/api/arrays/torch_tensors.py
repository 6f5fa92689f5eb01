"""Tensors of torch as arrays in the same memory, with as little as possible around that.

torch is never imported: what is asked of a tensor are its own methods. What is not as plain as most
tensors are takes the way of any other library's (see `dlpack`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.dlpack import cupy_for, shared
from mdtensor.backends.host.openmp_team import share_threads_of_torch
from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError

Array = Any
_ndarray = np.ndarray
_type_of: Any = type
# Whether classes are torch's; and CuPy's arrays by place, shape, strides, type and device.
_classes = Bounded[type, bool](256)
_on_cuda = Bounded[tuple[object, ...], Array](1024)
_dtypes: dict[object, np.dtype] = {}
_numpys: dict[object, bool] = {}
_BFLOAT16 = "torch.bfloat16"


def is_tensor(given: object) -> bool:
    """Whether something is a tensor of torch, or of a class made of that."""
    kind = _type_of(given)
    found = _classes.get(kind)
    if found is None:
        names = ((base.__module__, base.__name__) for base in kind.__mro__)
        found = ("torch", "Tensor") in names
        if found:
            share_threads_of_torch()
        _classes.keep(kind, found)
    return found


@dataclass(slots=True)
class Taken:
    """Arguments with arrays in the place of tensors, which are found again by their arrays.

    `on_cuda` tells of arrays of CuPy among them.
    """

    args: list[Any]
    options: dict[str, Any]
    on_cuda: bool = False
    tensors: dict[int, Any] = field(default_factory=dict[int, Any])

    def returned(self, result: Any) -> Any:
        """A result, where a given tensor is returned as that very tensor."""
        if _type_of(result) is tuple:
            return tuple([self.tensors.get(id(each), each) for each in result])
        return self.tensors.get(id(result), result)


def taken(args: Sequence[Any], options: Mapping[str, Any], *, owned: bool = False) -> Taken | None:
    """The arguments of a call with tensors; None where none is, or one takes a closer look.

    Arrays of CuPy own the memory only if they are to be `owned`: others may be launched on, and
    must not be kept.
    """
    found = Taken([], {})
    of_cuda = _owned_array if owned else _cuda_array
    try:
        for value in args:
            found.args.append(_part(value, found, of_cuda))
        for name, value in options.items():
            if _type_of(value) is tuple:
                parts: tuple[Any, ...] = value
                found.options[name] = tuple([_part(part, found, of_cuda) for part in parts])
            else:
                found.options[name] = _part(value, found, of_cuda)
    except (DTypeError, RuntimeError, TypeError, _NotPlainError):
        return None
    if not found.tensors:
        return None
    invalidation.has_tensors = True
    return found


class _NotPlainError(Exception):
    """A tensor that is more than memory with a shape, strides and a type."""


def _part(value: Any, found: Taken, of_cuda: Callable[[Any], Array]) -> Any:
    kind = _type_of(value)
    if kind is str or kind is _ndarray or not is_tensor(value):
        return value
    if value.is_cpu:
        array = memory_of(value)
    else:
        array = of_cuda(value)
        found.on_cuda = True
    found.tensors[id(array)] = value
    return array


def _is_numpys(dtype: Any) -> bool:
    """Whether NumPy itself has a type of torch's; bfloat16 is one of ml_dtypes."""
    found = _numpys.get(dtype)
    if found is None:
        found = _numpys[dtype] = str(dtype) != _BFLOAT16
    return found


def memory_of(tensor: Any) -> Array:
    """NumPy's array in the memory of a tensor of the processor.

    Raises RuntimeError or TypeError where that is not all there is to the tensor.
    """
    if _is_numpys(tensor.dtype):
        return tensor.numpy()
    if tensor.requires_grad or tensor.is_conj() or tensor.is_neg():
        raise RuntimeError("it is more than its memory")
    return tensor.view(sys.modules["torch"].int16).numpy().view(_bfloat16())


def _owned_array(tensor: Any) -> Array:
    """CuPy's array in a tensor's memory, ordered behind what fills it."""
    if not tensor.is_cuda:
        raise _NotPlainError
    return shared("a tensor", tensor, cupy_for(tensor))


def _cuda_array(tensor: Any) -> Array:
    """CuPy's array where a tensor lies on the current device, filled by the current stream."""
    if invalidation.cupy_array is None or not tensor.is_cuda:
        raise _NotPlainError
    if tensor.requires_grad or tensor.is_conj() or tensor.is_neg():
        raise _NotPlainError
    device, place = tensor.get_device(), tensor.data_ptr()
    if not place or device != invalidation.current_device() or not _is_on_stream(device):
        raise _NotPlainError
    key = place, tensor.shape, tensor.stride(), tensor.dtype, device
    array = _on_cuda.get(key)
    if array is None:
        array = invalidation.array_at(place, *key[1:3], dtype_of(tensor.dtype), device)
        _on_cuda.keep(key, array)
    return array


def _is_on_stream(device: int) -> bool:
    """Whether torch's current stream of a device is CuPy's, so that nobody waits for another."""
    raw: Any = getattr(sys.modules["torch"]._C, "_cuda_getCurrentRawStream", None)
    return raw is not None and raw(device) == invalidation.current_stream()


def dtype_of(dtype: object) -> np.dtype:
    """NumPy's type of torch's; TypeError where there is none."""
    found = _dtypes.get(dtype)
    if found is None:
        name = str(dtype).removeprefix("torch.")
        found = _dtypes[dtype] = _bfloat16() if name == "bfloat16" else np.dtype(name)
    return found


def _bfloat16() -> np.dtype:
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        raise TypeError("bfloat16 is a type of ml_dtypes, which is not installed") from None
    return np.dtype(bfloat16)


def host_array(name: str, tensor: Any, *, written: bool = False) -> np.ndarray:
    """NumPy's array in the memory of a tensor, or with its values where that holds others.

    These are what is conjugated or negated when it is read; where a tensor is `written`, none.

    Raises DTypeError for a tensor that wants a gradient, is sparse, has no elements in memory, or
    is of a type that NumPy lacks.
    """
    if tensor.requires_grad:
        raise _refused(name, "it wants a gradient", "t.detach() shares its memory without one")
    if str(tensor.layout) != "torch.strided":
        layout = str(tensor.layout).removeprefix("torch.")
        raise _refused(name, f"it is {layout}", "t.to_dense() has all elements in memory")
    if tensor.device.type != "cpu":
        raise _refused(name, f"it is on {tensor.device}", "t.cpu() is in the processor's memory")
    if tensor.is_conj() or tensor.is_neg():
        if written:
            raise _refused(
                name, "it is conjugated or negated when it is read", "pass a tensor of its own"
            )
        tensor = tensor.resolve_conj().resolve_neg()
    try:
        return memory_of(tensor)
    except (RuntimeError, TypeError) as error:
        raise _refused(name, str(error), "t.float() is of a type that NumPy has") from error


def _refused(name: str, reason: str, hint: str) -> DTypeError:
    return DTypeError(f"{name} is a tensor of torch that cannot be taken: {reason}", hint=hint)
