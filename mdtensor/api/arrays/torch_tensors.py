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
from mdtensor.specs import TensorSpec

Array = Any
_ndarray = np.ndarray
_type_of: Any = type
# Whether classes are torch's; and CuPy's arrays by place, shape, strides, type and device.
_classes = Bounded[type, bool](256)
_on_cuda = Bounded[tuple[object, ...], Array](1024)
_dtypes: dict[object, np.dtype] = {}
_numpys: dict[object, bool] = {}
_BFLOAT16 = "torch.bfloat16"
_MOST_TAKEN = 64  # elements of tuples and lists that are looked through


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
        """A result as a tensor: the one that was given, or a new one in the array's memory."""
        if _type_of(result) is tuple:
            return tuple([self.returned(each) for each in result])
        given = self.tensors.get(id(result))
        return as_tensor(result) if given is None else given


def as_tensor(result: Any) -> Any:
    """A tensor in the memory of an array of NumPy or CuPy, or of a number of NumPy's.

    What is neither, and what is of a type that torch lacks, such as records, stays what it is.
    """
    kind, torch = _type_of(result), sys.modules["torch"]
    if kind is _ndarray or issubclass(kind, np.generic):
        array: Any = result if kind is _ndarray else np.asarray(result)
        is_short = array.dtype.kind == "V" and array.dtype.name == "bfloat16"
        if is_short:
            array = array.view(np.int16)
        if not array.flags.writeable:
            array = array.copy()
        try:
            tensor = torch.from_numpy(array)
        except (TypeError, ValueError):  # ValueError: of a view from the end to the beginning
            return result
        return tensor.view(torch.bfloat16) if is_short else tensor
    if kind is not invalidation.cupy_array:
        return result
    # What another stream computes is waited for.
    is_here = _is_on_stream(result.data.device_id)
    return torch.from_dlpack(result.__dlpack__(stream=-1) if is_here else result)


class FollowedError(Exception):
    """Among the arguments of a call are tensors that torch follows: `is_followed`."""


def is_followed(tensor: Any) -> bool:
    """Whether torch is to know of what is computed: for a gradient, a batch, or a graph."""
    return is_wrapped(tensor) or (tensor.requires_grad and sys.modules["torch"].is_grad_enabled())


def is_wrapped(tensor: Any) -> bool:
    """Whether elements of a tensor are elsewhere: in those of a batch, or nowhere in a graph."""
    functorch = getattr(sys.modules["torch"]._C, "_functorch", None)
    return (
        in_graph(tensor)
        or is_legacy_batched(tensor)
        or (functorch is not None and functorch.is_functorch_wrapped_tensor(tensor))
    )


def is_legacy_batched(tensor: Any) -> bool:
    """Whether a tensor is a batch of torch's first vmap, by which some of its gradients go."""
    functorch = getattr(sys.modules["torch"]._C, "_functorch", None)
    return functorch is not None and functorch.is_legacy_batchedtensor(tensor)


def in_graph(tensor: Any) -> bool:
    """Whether a tensor has a class that sees what is done to it, as those do that are traced."""
    plain = getattr(sys.modules["torch"].Tensor, "__torch_dispatch__", None)
    given = getattr(_type_of(tensor), "__torch_dispatch__", plain)
    return getattr(given, "__func__", given) is not getattr(plain, "__func__", plain)


def taken(args: Sequence[Any], options: Mapping[str, Any], *, owned: bool = False) -> Taken | None:
    """The arguments of a call with tensors; None where none is, or one takes a closer look.

    Arrays of CuPy own the memory only if they are to be `owned`: others may be launched on, and
    must not be kept. Raises FollowedError for tensors that torch follows.
    """
    found = Taken([], {})
    of_cuda = _owned_array if owned else _cuda_array
    try:
        for value in args:
            found.args.append(_part(value, found, of_cuda))
        for name, value in options.items():
            found.options[name] = _part(value, found, of_cuda)
    except (DTypeError, RuntimeError, TypeError, _NotPlainError):
        if any(map(is_followed, tensors_in((*args, *options.values())))):
            raise FollowedError from None
        return None
    if not found.tensors:
        return None
    invalidation.has_tensors = True
    return found


class _NotPlainError(Exception):
    """A tensor that is more than memory with a shape, strides and a type."""


def _part(value: Any, found: Taken, of_cuda: Callable[[Any], Array]) -> Any:
    kind = _type_of(value)
    if kind is tuple or kind is list:
        several: Any = value
        if not tensors_in(several):
            return several
        return kind([_part(each, found, of_cuda) for each in several])  # pyright: ignore
    if kind is str or kind is _ndarray or not is_tensor(value):
        return value
    if value.requires_grad:
        if is_followed(value):
            raise _NotPlainError
        return _part(value.detach(), found, of_cuda)
    if value.is_cpu:
        array = memory_of(value)
    else:
        array = of_cuda(value)
        found.on_cuda = True
    found.tensors[id(array)] = value
    return array


def tensors_in(values: Sequence[Any], depth: int = 2) -> list[Any]:
    """The tensors among values, and in tuples and lists of a few."""
    found: list[Any] = []
    for value in values if len(values) <= _MOST_TAKEN else ():
        kind = _type_of(value)
        if depth and (kind is tuple or kind is list):
            found += tensors_in(value, depth - 1)
        elif is_tensor(value):
            found.append(value)
    return found


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


def spec_of_tensor(name: str, tensor: Any) -> TensorSpec:
    """The shape, strides and type of a tensor, as NumPy says them.

    Raises DTypeError where it is sparse, or of a type that NumPy lacks.
    """
    if str(tensor.layout) != "torch.strided":
        raise _is_sparse(name, tensor)
    try:
        dtype = dtype_of(tensor.dtype)
    except TypeError as error:
        raise _refused(name, str(error), "t.float() is of a type that NumPy has") from error
    # Sizes may be symbols, which become numbers here.
    return TensorSpec(dtype, tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride())))


def _is_sparse(name: str, tensor: Any) -> DTypeError:
    layout = str(tensor.layout).removeprefix("torch.")
    return _refused(name, f"it is {layout}", "t.to_dense() has all elements in memory")


def host_array(name: str, tensor: Any, *, written: bool = False) -> np.ndarray:
    """NumPy's array in the memory of a tensor, or with its values where that holds others.

    These are what is conjugated or negated when it is read; where a tensor is `written`, none.

    Raises DTypeError for a tensor that wants a gradient, is sparse, has no elements in memory, or
    is of a type that NumPy lacks.
    """
    if tensor.requires_grad:
        raise _refused(name, "it wants a gradient", "t.detach() shares its memory without one")
    if str(tensor.layout) != "torch.strided":
        raise _is_sparse(name, tensor)
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
