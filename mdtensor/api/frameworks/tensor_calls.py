"""Calls by text on torch tensors: in their memory, on their device and current stream."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from mdtensor.api.arrays.torch_tensors import spec_of_tensor
from mdtensor.api.frameworks.call_text import computation_of, has_shapes, reads_results, run
from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.errors import DeviceError, GradientError
from mdtensor.specs import TensorSpec
from mdtensor.translate.python.tuples import as_tuple

# A tensor of torch.
Tensor = Any

_MOST = 4096


@dataclass(frozen=True, slots=True)
class _Facts:
    """The properties of a call that autograd asks for.

    `keeps` says whether the gradient by all operands looks at the results, `is_apart` whether there
    are several results, each with a kernel of its own that reads nothing of the others'.
    """

    keeps: bool
    is_apart: bool


_facts = Bounded[tuple[object, ...], _Facts](_MOST)


def run_on(text: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Run the call of a text on tensors; results are new tensors on the same device.

    Raises DeviceError for operands of several devices, DTypeError for tensors that are sparse or
    have no kernels, and what the call raises.
    """
    _refuse_devices(tensors)
    return list(as_tuple(run(text, *tensors)))


def empty_results(text: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    """New tensors of the shapes, strides and types of a call's results, not computed.

    Tensors without elements have them too, such as those that stand for others in graphs.
    """
    torch = importlib.import_module("torch")
    return [
        tensors[0].new_empty_strided(s.shape, s.strides, dtype=getattr(torch, s.dtype.name))
        for s in computation_of(text, _specs_of(tensors)).results
    ]


def keeps_results(text: str, tensors: Sequence[Tensor]) -> bool:
    """Whether the pullback of a call reads its results, so that they must be saved."""
    return _facts_of(text, tensors).keeps


def has_apart_results(text: str, tensors: Sequence[Tensor]) -> bool:
    """Whether a call has several results, each computed by a separate kernel."""
    return _facts_of(text, tensors).is_apart


def _facts_of(text: str, tensors: Sequence[Tensor]) -> _Facts:
    key: tuple[object, ...] = (text,)
    if not has_shapes(text):  # sizes may be symbols, which become numbers here
        key = text, *[tuple(map(int, tensor.shape)) for tensor in tensors]

    def made() -> _Facts:
        specs = _specs_of(tensors)
        program = computation_of(text, specs)
        count = len(program.results)
        is_apart = not program.temporaries and len(program.steps) == count > 1
        return _Facts(_keeps(text, specs), is_apart)

    return _facts.made(key, made)


def _specs_of(tensors: Sequence[Tensor]) -> tuple[TensorSpec, ...]:
    return tuple([spec_of_tensor("a tensor", tensor) for tensor in tensors])


def _keeps(text: str, specs: tuple[TensorSpec, ...]) -> bool:
    try:
        return reads_results(text, specs)
    except GradientError:  # the gradient says so, if somebody asks for it
        return False


def _refuse_devices(tensors: Sequence[Tensor]) -> None:
    """Raises DeviceError unless all operands are on one device that has kernels."""
    devices = dict.fromkeys([tensor.device for tensor in tensors])
    if len(devices) != 1:
        raise DeviceError(
            f"tensors on {', '.join(map(str, devices)) or 'no device'} in one call",
            hint="move them to one device: t.to(…)",
        )
    if not (tensors[0].is_cpu or tensors[0].is_cuda):
        raise DeviceError(
            f"a tensor is on {tensors[0].device}", hint="move it to the processor, or to CUDA"
        )
