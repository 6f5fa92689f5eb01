"""Calls on tensors of torch: in their memory, on their device and its current stream."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.dlpack import cupy_for
from mdtensor.api.arrays.torch_tensors import memory_of, spec_of_tensor
from mdtensor.api.frameworks.call_text import has_shapes, reads_results, results_of, run
from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.errors import DeviceError, DTypeError, GradientError
from mdtensor.specs import TensorSpec

# A tensor of torch, or a type of its elements.
Tensor = Any
DType = Any

_MOST = 4096


@dataclass(frozen=True, slots=True)
class _Due:
    """The shape and torch's type of each result.

    `keeps` says whether the gradient by all operands looks at the results.
    """

    results: tuple[tuple[tuple[int, ...], DType], ...]
    keeps: bool


_results = Bounded[tuple[object, ...], _Due](_MOST)


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
    due = _due(text, given)
    results = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in due.results]
    if device.type == "cpu":
        _run_into(text, list(map(memory_of, given)), list(map(memory_of, results)))
    else:
        with _on_stream_of(torch, device, given[0]):
            _run_into(text, given, results)
    return results


def results_on(text: str, tensors: Sequence[Tensor]) -> tuple[tuple[tuple[int, ...], DType], ...]:
    """The shape and torch's type of each result of a call, also of tensors without elements."""
    return _due(text, tensors).results


def keeps_results(text: str, tensors: Sequence[Tensor]) -> bool:
    """Whether the gradient of a call looks at its results, so that they must be kept."""
    return _due(text, tensors).keeps


def _due(text: str, tensors: Sequence[Tensor]) -> _Due:
    key: tuple[object, ...] = (text,)
    if not has_shapes(text):  # sizes may be symbols, which become numbers here
        key = text, *[tuple(map(int, tensor.shape)) for tensor in tensors]
    found = _results.get(key)
    if found is None:
        torch = importlib.import_module("torch")
        specs = tuple([spec_of_tensor("a tensor", tensor) for tensor in tensors])
        due = [(s.shape, getattr(torch, s.dtype.name)) for s in results_of(text, specs)]
        found = _Due(tuple(due), _keeps(text, specs))
        _results.keep(key, found)
    return found


def _keeps(text: str, specs: tuple[TensorSpec, ...]) -> bool:
    try:
        return reads_results(text, specs)
    except GradientError:  # the gradient says so, if somebody asks for it
        return False


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
