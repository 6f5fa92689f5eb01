"""Torch tensors as arrays over the same memory, at minimal overhead.

torch is never imported: what is asked of a tensor are its own methods. What is not as plain as most
tensors are takes the way of any other library's (see `dlpack`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import field
from typing import Any, cast

import numpy as np

from mdtensor.api.arrays import cupy_arrays, invalidation
from mdtensor.api.arrays.dlpack import cupy_for, shared
from mdtensor.backends.cuda.cuda_stream import beside_captures
from mdtensor.backends.host.array_exchange import ArrayExchange
from mdtensor.backends.host.openmp_team import share_threads_of_torch
from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError
from mdtensor.scoped import scoped
from mdtensor.specs import TensorSpec, strides_in_order
from mdtensor.translate.python.tuples import as_tuple

Array = Any
_ndarray = np.ndarray
_type_of: Any = type
# Whether classes are torch's; and CuPy's arrays by place, shape, strides, type and device.
_classes = Bounded[type, bool](256)
_on_cuda = Bounded[tuple[object, ...], Array](1024)
_dtypes: dict[object, np.dtype] = {}
_numpys: dict[object, bool] = {}
_within = ContextVar("within", default=False)  # whether a call has torch's stream and memory
_BFLOAT16 = "torch.bfloat16"
_MOST_TAKEN = 64  # elements of tuples and lists that are looked through


def is_tensor(given: object) -> bool:
    """Whether an object is a torch tensor, or an instance of a subclass."""
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
    """Arguments with arrays in place of tensors, and a table from each array back to its tensor.

    `on_cuda` tells of arrays of CuPy among them.
    """

    args: list[Any]
    options: dict[str, Any]
    on_cuda: bool = False
    tensors: dict[int, Any] = field(default_factory=dict[int, Any])

    def returned(self, result: Any) -> Any:
        """A result as a tensor: the caller's, or a new one over the array's memory."""
        if _type_of(result) is tuple:
            return tuple([self.returned(each) for each in result])
        given = self.tensors.get(id(result))
        return as_tensor(result) if given is None else given


def as_given(result: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """A result as the tensor `out` of a call, or as a new tensor, if the call has tensors."""
    if not tensors_in((*args, *options.values())):
        return result
    if (out := options.get("out")) is not None:
        return out
    several: Any = result
    return tuple(map(as_tensor, several)) if type(result) is tuple else as_tensor(result)


def as_tensor(result: Any) -> Any:
    """A tensor over the memory of a NumPy or CuPy array, or from a NumPy scalar.

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
    if kind is not cupy_arrays.array_class:
        return result
    # What another stream computes is waited for.
    is_here = _is_on_stream(result.data.device_id)
    return torch.from_dlpack(result.__dlpack__(stream=-1) if is_here else result)


def maker_of(specs: Sequence[TensorSpec], like: Any) -> Callable[[], Any]:
    """A factory of tensors with a spec that has no gaps, on the device of `like`.

    For several specs it makes a tuple of tensors.
    """
    if len(specs) > 1:
        makers = [maker_of((spec,), like) for spec in specs]
        return lambda: tuple([make() for make in makers])
    torch, (spec,) = sys.modules["torch"], specs
    dtype = getattr(torch, spec.dtype.name)
    axes = cast("tuple[int, ...]", spec.axis_order)
    shape, strides = spec.shape, strides_in_order(spec.shape, axes)
    # What torch's own compiler calls, in half the time of the public function.
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    name = "_empty_strided_cpu" if like.is_cpu else "_empty_strided_cuda"
    make = getattr(guards, name, None)
    if make is not None and (like.is_cpu or like.get_device() == cupy_arrays.current_device()):
        return functools.partial(make, shape, strides, dtype)
    return functools.partial(torch.empty_strided, shape, strides, dtype=dtype, device=like.device)


def exchange_of(tensor: Any, on_cuda: bool) -> ArrayExchange | None:
    """The fast conversion of tensors like one; None where they are more than strided memory.

    Nor where it is not on the current CUDA device as is asked for, or on the processor.
    """
    found = _exchange_of(_type_of(tensor))
    is_here = tensor.is_cuda and tensor.get_device() == cupy_arrays.current_device()
    lies_there = is_here if on_cuda else tensor.is_cpu
    return None if found is None or not lies_there or tensor.is_complex() else found


@functools.lru_cache(256)
def _exchange_of(kind: type) -> ArrayExchange | None:
    """The fast conversion of tensors of a class; None for subclasses of torch's."""
    torch = sys.modules["torch"]
    forward = getattr(torch.autograd, "forward_ad", None)
    if kind not in (torch.Tensor, torch.nn.Parameter) or not hasattr(forward, "_current_level"):
        return None
    no_level, no_modes = -1, 0
    attributes = "requires_grad", torch.is_grad_enabled, "is_neg", forward, "_current_level"
    return ArrayExchange.of(kind, (*attributes, no_level, modes_of(torch), no_modes))


class FollowedError(Exception):
    """A call has tensors that torch tracks, see `is_followed`."""


def is_followed(tensor: Any) -> bool:
    """Whether torch tracks the result: for a gradient, in a vmap batch, or into a traced graph."""
    return is_differentiated(tensor) or is_wrapped(tensor) or are_operators_traced()


def is_differentiated(tensor: Any) -> bool:
    """Whether torch tracks the result for a gradient, or carries on a tangent."""
    wants = tensor.requires_grad and sys.modules["torch"].is_grad_enabled()
    return wants or has_tangent(tensor)


def are_operators_traced() -> bool:
    """Whether a mode of torch's traces operators on all tensors, as that of `make_fx` does."""
    torch = sys.modules["torch"]
    if not modes_of(torch)():
        return False
    key: Any = torch._C._TorchDispatchModeKey.PROXY
    return torch._C._get_dispatch_mode(key) is not None


def has_tangent(tensor: Any) -> bool:
    """Whether a tensor carries a tangent of torch's forward-mode differentiation."""
    forward: Any = getattr(sys.modules["torch"].autograd, "forward_ad", None)
    if getattr(forward, "_current_level", -1) < 0:
        return False
    try:
        return forward.unpack_dual(tensor).tangent is not None
    except RuntimeError:  # inside of an operator, where torch sees none
        return False


def is_wrapped(tensor: Any) -> bool:
    """Whether a tensor wraps others or none: a vmap batch, a functorch tensor, or a traced one."""
    if in_graph(tensor):
        return True
    legacy, _, wrapped = _functorch(sys.modules["torch"])
    return legacy(tensor) or wrapped(tensor)


def is_legacy_batched(tensor: Any) -> bool:
    """Whether a tensor is a batch of torch's legacy vmap, which some of its gradients use."""
    return _functorch(sys.modules["torch"])[0](tensor)


def is_functional(tensor: Any) -> bool:
    """Whether a tensor is one of `torch.func.functionalize`, which writes to it later."""
    return _functorch(sys.modules["torch"])[1](tensor)


@functools.lru_cache(1)
def _functorch(torch: Any) -> tuple[Callable[[Any], bool], ...]:
    """Torch's predicates: a batch of its legacy vmap, a functional tensor, one of `torch.func`."""
    names = "is_legacy_batchedtensor", "is_functionaltensor", "is_functorch_wrapped_tensor"
    functorch = getattr(torch._C, "_functorch", None)
    return tuple([getattr(functorch, name, lambda _: False) for name in names])


def in_graph(tensor: Any) -> bool:
    """Whether the class of a tensor intercepts operators, as those of traced tensors do."""
    return _sees_operators(_type_of(tensor))


@functools.lru_cache(1)
def modes_of(torch: Any) -> Callable[[], int]:
    """Torch's count of the modes that intercept operators."""
    return getattr(torch._C, "_len_torch_dispatch_stack", int)


@functools.lru_cache(256)
def _sees_operators(kind: type) -> bool:
    plain = getattr(sys.modules["torch"].Tensor, "__torch_dispatch__", None)
    given = getattr(kind, "__torch_dispatch__", plain)
    return getattr(given, "__func__", given) is not getattr(plain, "__func__", plain)


def taken(args: Sequence[Any], options: Mapping[str, Any], *, owned: bool = False) -> Taken | None:
    """Arguments with tensors replaced by arrays; None without tensors, or where one is not plain.

    Arrays of CuPy own the memory only if they are to be `owned`: others may be launched on, and
    must not be kept. Raises FollowedError for tensors that torch follows.
    """
    for value in (*args, *options.values()):
        if is_tensor(value) and value.requires_grad and is_followed(value):
            raise FollowedError
    found = Taken([], {})
    of_cuda = _owned_array if owned else _cuda_array
    try:
        for value in args:
            found.args.append(_part(value, found, of_cuda))
        for name, value in options.items():
            found.options[name] = _part(value, found, of_cuda)
    except (DTypeError, RuntimeError, TypeError, _NotPlainError):
        tensors = tensors_in((*args, *options.values()))
        invalidation.has_tensors |= bool(tensors)
        if any(map(is_followed, tensors)):
            raise FollowedError from None
        return None
    if not found.tensors:
        return None
    invalidation.has_tensors = True
    return found


class _NotPlainError(Exception):
    """A tensor that is more than strided memory of a type."""


def _part(value: Any, found: Taken, of_cuda: Callable[[Any], Array]) -> Any:
    kind = _type_of(value)
    if kind is tuple or kind is list:
        several: Any = value
        if not tensors_in(several):
            return several
        return kind([_part(each, found, of_cuda) for each in several])  # pyright: ignore
    if kind is str or kind is _ndarray or not is_tensor(value):
        return value
    # The memory of wrapped ones, if there is any, holds something else.
    if is_wrapped(value) or are_operators_traced():
        raise _NotPlainError
    if value.requires_grad or has_tangent(value):
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


def mark_written(given: Any) -> None:
    """Tells autograd that tensors were written, so that gradients that saved them are refused."""
    if written := [each for each in as_tuple(given) if is_tensor(each)]:
        sys.modules["torch"].autograd.graph.increment_version(written)


def tensors_in(values: Sequence[Any], depth: int = 2) -> list[Any]:
    """The tensors among values, and in short tuples and lists."""
    found: list[Any] = []
    for value in values if len(values) <= _MOST_TAKEN else ():
        kind = _type_of(value)
        if depth and (kind is tuple or kind is list):
            found += tensors_in(value, depth - 1)
        elif is_tensor(value):
            found.append(value)
    return found


def _is_numpys(dtype: Any) -> bool:
    """Whether NumPy itself has a torch type; bfloat16 is of ml_dtypes."""
    found = _numpys.get(dtype)
    if found is None:
        found = _numpys[dtype] = str(dtype) != _BFLOAT16
    return found


def memory_of(tensor: Any) -> Array:
    """A NumPy array over the memory of a CPU tensor.

    Raises RuntimeError or TypeError where that is not all there is to the tensor.
    """
    if not _is_numpys(tensor.dtype) and (
        tensor.requires_grad or tensor.is_conj() or tensor.is_neg()
    ):
        raise RuntimeError("it is more than its memory")
    try:
        return _memory_of(tensor)
    except RuntimeError:
        if is_wrapped(tensor):  # whose gradient or tangent would be lost
            raise
        with outside_functions():
            return _memory_of(tensor)


def outside_functions() -> AbstractContextManager[None]:
    """A context without the functions of `torch.func` around it.

    Within these, views of a plain tensor are wrapped tensors, which have no memory.
    """
    return getattr(sys.modules["torch"]._C, "_DisableFuncTorch", nullcontext)()


def _memory_of(tensor: Any) -> Array:
    if _is_numpys(tensor.dtype):
        return tensor.numpy()
    return tensor.view(sys.modules["torch"].int16).numpy().view(_bfloat16())


def _owned_array(tensor: Any) -> Array:
    """A CuPy array over a tensor's memory that owns it, ordered after the work that fills it."""
    if not tensor.is_cuda:
        raise _NotPlainError
    return shared("a tensor", tensor, cupy_for(tensor))


def _cuda_array(tensor: Any) -> Array:
    """CuPy's array over a tensor on the current device and stream; _NotPlainError for others."""
    if cupy_arrays.array_class is None or not tensor.is_cuda:
        raise _NotPlainError
    if tensor.requires_grad or tensor.is_conj() or tensor.is_neg():
        raise _NotPlainError
    device, place = tensor.get_device(), tensor.data_ptr()
    if not place or device != cupy_arrays.current_device() or not _is_on_stream(device):
        raise _NotPlainError
    key = place, tensor.shape, tensor.stride(), tensor.dtype, device
    array = _on_cuda.get(key)
    if array is None:
        array = cupy_arrays.library().array_at(place, *key[1:3], dtype_of(tensor.dtype), device)
        _on_cuda.keep(key, array)
    return array


def _is_on_stream(device: int) -> bool:
    """Whether torch's current stream of a device is CuPy's, so that neither must wait."""
    return _stream_of(device) == cupy_arrays.library().current_stream()


def _stream_of(device: int) -> int | None:
    """The CUDA handle of torch's current stream of a device."""
    raw: Any = getattr(sys.modules["torch"]._C, "_cuda_getCurrentRawStream", None)
    return None if raw is None else raw(device)


def stream_of_call(args: Sequence[Any], options: Mapping[str, Any]) -> int | None:
    """Torch's stream for a call on CUDA tensors; None for others, and inside `in_torch`.

    None too where torch follows a tensor, since the computations of such a call are calls.
    """
    if cupy_arrays.array_class is None or _within.get():
        return None
    device = cupy_arrays.current_device()
    tensors = list(tensors_in((*args, *options.values())))
    if any(map(is_followed, tensors)):
        return None
    if any(tensor.is_cuda and tensor.get_device() == device for tensor in tensors):
        return _stream_of(device)
    return None


def in_torch(stream: int, function: Callable[..., Any], *given: Any) -> Any:
    """Calls a function on a stream of torch's, with CuPy allocating from torch's allocator.

    Graphs of torch's keep what is taken there.
    """
    with (
        cupy_arrays.library().on_stream(stream),
        cupy_arrays.library().allocating(_allocated),
        beside_captures(),
    ):
        return scoped([(_within, True)], function, *given)


def _allocated(nbytes: int) -> tuple[int, object]:
    """The address of new memory from torch's allocator, and the tensor that owns it."""
    torch = sys.modules["torch"]
    owner = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
    return owner.data_ptr(), owner


def dtype_of(dtype: object) -> np.dtype:
    """The NumPy type of a torch type; TypeError where there is none."""
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
    """The spec of a tensor: its shape, strides and type.

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
    """A NumPy array over a tensor's memory, or of its values if they are stored differently.

    That is so for conjugated and negated tensors, which may not be `written`.

    Raises DTypeError for a tensor that wants a gradient, is sparse, has no elements in memory, or
    is of a type that NumPy lacks.
    """
    if tensor.requires_grad:
        if is_followed(tensor):
            raise _refused(name, "it wants a gradient", "t.detach() shares its memory without one")
        tensor = tensor.detach()
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
