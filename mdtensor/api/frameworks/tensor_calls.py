"""Calls on tensors of torch: in their memory, on their device and its current stream."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.dlpack import cupy_for
from mdtensor.api.arrays.torch_tensors import dtype_of
from mdtensor.api.frameworks.call_text import results_of, run
from mdtensor.bounded import Bounded
from mdtensor.errors import DeviceError, DTypeError
from mdtensor.specs import TensorSpec

# A tensor of torch, or a type of its elements.
Tensor = Any
DType = Any

_MOST = 4096
_results = Bounded[tuple[object, ...], tuple[tuple[tuple[int, ...], DType], ...]](_MOST)


def run_on(text: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The results of a call, new tensors on the device of its operands.

    Raises DeviceError for operands of several devices, DTypeError for tensors that are sparse or
    have no kernels, and what the call raises.
    """
    torch = importlib.import_module("torch")
    device = _device_of(tensors)
    if device.type not in ("cpu", "cuda"):
        raise DeviceError(f"a tensor is on {device}", hint="move it to the processor, or to CUDA")
    given = [_plain(tensor.detach()) for tensor in tensors]
    due = results_on(text, given)
    given = [tensor.float() if is_bfloat16(tensor) else tensor for tensor in given]
    results = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in due]
    written = [each.float() if is_bfloat16(each) else each for each in results]
    if device.type == "cpu":
        arrays = [tensor.numpy() for tensor in given]
        _run_into(text, arrays, [each.numpy() for each in written])
    else:
        with _on_stream_of(torch, device, given[0]):
            _run_into(text, given, written)
    for result, computed in zip(results, written, strict=True):
        if result is not computed:
            result.copy_(computed)
    return results


def results_on(text: str, tensors: Sequence[Tensor]) -> tuple[tuple[tuple[int, ...], DType], ...]:
    """The shape and torch's type of each result of a call, also of tensors without elements."""
    # Sizes may be symbols, which become numbers here.
    key = (text, *[(*map(int, t.shape), *map(int, t.stride()), t.dtype, t.is_cpu) for t in tensors])
    found = _results.get(key)
    if found is None:
        torch = importlib.import_module("torch")
        floats = {t.dtype for t in tensors if t.dtype.is_floating_point}
        is_short = floats == {torch.bfloat16}
        found = tuple(
            (spec.shape, _torch_dtype(torch, spec.dtype, is_short=is_short))
            for spec in results_of(text, specs_of(tensors))
        )
        _results.keep(key, found)
    return found


def forget_results() -> None:
    """Forgets types of results, which are those of the torch that was there."""
    _results.clear()


def specs_of(tensors: Sequence[Tensor]) -> tuple[TensorSpec, ...]:
    """The specs of tensors as kernels see them: bfloat16 is brought to float32."""
    return tuple(_spec(tensor) for tensor in tensors)


def is_bfloat16(tensor: Tensor) -> bool:
    """Whether elements are of a type that NumPy lacks."""
    return str(tensor.dtype) == "torch.bfloat16"


def _spec(tensor: Tensor) -> TensorSpec:
    shape = tuple(map(int, tensor.shape))
    if is_bfloat16(tensor):
        return TensorSpec.of(shape, np.float32)
    try:
        dtype = dtype_of(tensor.dtype)
    except TypeError as error:
        raise DTypeError(f"no kernels compute with {tensor.dtype}: {error}") from error
    return TensorSpec(dtype, shape, tuple(map(int, tensor.stride())))


def _torch_dtype(torch: Any, dtype: np.dtype, *, is_short: bool) -> DType:
    if is_short and dtype == np.float32:
        return torch.bfloat16
    return getattr(torch, dtype.name)


def _device_of(tensors: Sequence[Tensor]) -> Any:
    devices = list({str(tensor.device): tensor.device for tensor in tensors}.values())
    if len(devices) != 1:
        raise DeviceError(
            f"tensors on {', '.join(map(str, devices)) or 'no device'} in one call",
            hint="move them to one device: t.to(…)",
        )
    return devices[0]


def _plain(tensor: Tensor) -> Tensor:
    """A tensor whose memory has its elements."""
    if str(tensor.layout) != "torch.strided":
        raise DTypeError(
            f"a tensor is {str(tensor.layout).removeprefix('torch.')}",
            hint="t.to_dense() has all elements in memory",
        )
    return tensor.resolve_conj().resolve_neg()


def _run_into(text: str, arrays: Sequence[Any], out: Sequence[Any]) -> None:
    run(text, *arrays, out=out[0] if len(out) == 1 else tuple(out))


def _on_stream_of(torch: Any, device: Any, tensor: Tensor) -> AbstractContextManager[Any]:
    """A context in which CuPy launches on torch's current stream of a device."""
    cupy = cupy_for(tensor)
    if invalidation.cupy_array is None:
        invalidation.knows_cupy(cupy)
    handle = torch.cuda.current_stream(device).cuda_stream
    scope = ExitStack()
    if device.index != invalidation.current_device():
        scope.enter_context(cupy.cuda.Device(device.index))
    if handle != invalidation.current_stream():
        scope.enter_context(_stream_at(cupy, handle, device.index))
    return scope


@dataclass(frozen=True, slots=True)
class _Stream:
    """A stream of CUDA, by the protocol that libraries pass them by."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def _stream_at(cupy: Any, handle: int, device: int) -> Any:
    """CuPy's stream of that handle; older versions know no protocol."""
    from_external = getattr(cupy.cuda.Stream, "from_external", None)
    if from_external is None:
        return cupy.cuda.ExternalStream(handle, device)
    return from_external(_Stream(handle))
