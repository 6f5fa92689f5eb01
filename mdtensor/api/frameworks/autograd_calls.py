"""Calls on tensors that torch tracks: for a gradient, in a vmap batch, or in a traced graph.

The front end gets placeholders of NumPy, and each of its computations is a call of the operator
`torch.ops.mdtensor.call`, which has gradients of any order, batches, and shapes without elements.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from mdtensor.api.arrays.nested_arguments import mapped_call
from mdtensor.api.arrays.torch_tensors import (
    in_graph,
    is_tensor,
    is_wrapped,
    memory_of,
    outside_functions,
    spec_of_tensor,
    tensors_in,
)
from mdtensor.api.calls import call_cache
from mdtensor.api.calls.call_key import Described, NotPlainError
from mdtensor.api.frameworks import torch_operators
from mdtensor.api.frameworks.call_text import Held, held_as_text
from mdtensor.api.parts.foreign_call import ForeignCall
from mdtensor.api.parts.placeholders import place_of, reserved
from mdtensor.bounded import Bounded
from mdtensor.errors import GradientError
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.python.tuples import as_tuple

Tensor = Any
# A function of arrays that may raise, and which of the tensors they are.
Check = tuple[Callable[..., object], tuple[int, ...]]

# Of calls that are a program of their tensors: it, and what looks at the tensors before.
_known = Bounded[Hashable, tuple[Held, tuple[Check, ...]]](call_cache.SIZE)
# What stands in graphs that torch traced, which nobody tells when they go.
_in_graphs: dict[str, Held] = {}


class _Tensor:
    """The private stand-in for a tensor in cache keys."""


def called(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    described: Described | None = None,
) -> Any:
    """Run a front end's call with tracked tensors among its arguments; its results are tensors.

    `described` gives the key of a call, by which the next one does without the front end. Raises
    GradientError for an `out` of what has a gradient, and where more is done to tensors than to
    compute with them.
    """
    out = options.get("out")
    if out is None:
        return _called(function, args, options, described)
    if any(each.requires_grad for each in tensors_in((*args, *options.values()))):
        raise GradientError(
            "out= is written, and no gradient goes through it",
            hint="take the result, or call it within torch.no_grad()",
        )
    named = {name: option for name, option in options.items() if name != "out"}
    results = as_tuple(_called(function, args, named, described))
    for target, result in zip(as_tuple(out), results, strict=True):
        target.copy_(result)
    return out


def _called(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    described: Described | None,
) -> Any:
    tensors: list[Tensor] = []
    key: Hashable = None
    if described is not None:
        told = mapped_call(partial(_told, tensors), args, options)
        with suppress(NotPlainError, TypeError, RecursionError):
            parts, arrays = described(*told)
            key = None if arrays else (function, parts, *map(_layout, tensors))
    if key is not None and (known := _known.get(key)) is not None:
        held, checks = known
        for check, numbers in checks if all(map(_is_in_memory, tensors)) else ():
            check(*[_elements_of(tensors[number]) for number in numbers])
        return _returned(_run(held, tensors))
    call = _TensorCall(function)
    returned = call.run(function, args, options)
    link, held = call.link, call.held
    is_all = link is not None and not link.constants and len(tensors) == len(call.arrays)
    if key is not None and is_all and link and held:
        _known.keep(key, (held, link.checks))
    return returned


def _told(tensors: list[Tensor], argument: Any) -> Any:
    """An argument's part of the cache key; tensors are collected in `tensors`."""
    if not is_tensor(argument):
        return argument
    for number, other in enumerate(tensors):
        if other is argument:
            return _Tensor, number
    tensors.append(argument)
    return _Tensor


def _layout(tensor: Tensor) -> tuple[object, ...]:
    shape, strides = tensor.shape, tensor.stride()
    if in_graph(tensor):  # sizes may be symbols, which become numbers here
        shape, strides = tuple(map(int, shape)), tuple(map(int, strides))
    return tensor.dtype, shape, strides, tensor.get_device()


def _run(held: Held, operands: Sequence[Tensor]) -> Sequence[Tensor]:
    if any(map(in_graph, operands)):
        _in_graphs[held.text] = held
    return torch_operators.call(held.text, operands)


def _returned(results: Sequence[Tensor]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def _is_in_memory(tensor: Tensor) -> bool:
    return bool(tensor.is_cpu) and not is_wrapped(tensor)


def _elements_of(tensor: Tensor) -> np.ndarray:
    with outside_functions():
        return memory_of(tensor.detach().resolve_conj().resolve_neg())


class _TensorCall(ForeignCall):
    """A call whose programs become calls of torch's operator; `held` keeps the last one."""

    joins = True

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._name = getattr(function, "__name__", "the function")
        self.held: Held | None = None

    def is_foreign(self, argument: Any) -> bool:
        return is_tensor(argument)

    def placeholder(self, array: Tensor) -> np.ndarray:
        spec = spec_of_tensor("a tensor", array)
        if not _is_in_memory(array):
            return self.placeholders.stands(reserved(spec), array)
        # Of elements that a front end looks at, such as weights of filters, there is no gradient,
        # but they are there.
        place = _elements_of(array)
        if place_of(place) in self.placeholders.arrays:
            place = place.copy(order="K")
        return self.placeholders.stands(place, array)

    def constant(self, array: np.ndarray) -> Tensor:
        torch = importlib.import_module("torch")
        return torch.from_numpy(array.copy()).to(self.arrays[0].device)

    def computed(self, planned: Program, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        self.held = held = held_as_text(planned)
        return _run(held, operands)

    def refused(self) -> GradientError:
        return GradientError(
            f"this call of {self._name} does more to tensors than torch can follow",
            hint="t.detach() gives what has no gradient",
        )
