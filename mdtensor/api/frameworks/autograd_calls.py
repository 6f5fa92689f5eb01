"""Calls on tensors that torch follows: for a gradient, in a batch, or into a graph.

The front end gets placeholders of NumPy, and each of its computations is a call of the operator
`torch.ops.mdtensor.call`, which has gradients of any order, batches, and shapes without elements.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np

from mdtensor.api.arrays.torch_tensors import (
    in_graph,
    is_tensor,
    is_wrapped,
    memory_of,
    spec_of_tensor,
    tensors_in,
)
from mdtensor.api.calls import call_cache
from mdtensor.api.frameworks import torch_operators
from mdtensor.api.frameworks.call_text import Held, held_as_text
from mdtensor.api.parts.foreign_call import ForeignCall
from mdtensor.api.parts.placeholders import place_of, reserved
from mdtensor.bounded import Bounded
from mdtensor.errors import GradientError
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.python.tuples import as_tuple

Tensor = Any

# Of calls that are one computation of their tensors: it, and which of the tensors it takes.
_known = Bounded[Hashable, tuple[Held, tuple[int, ...]]](call_cache.SIZE)
# What stands in graphs that torch traced, which nobody tells when they go.
_in_graphs: dict[str, Held] = {}


class _Tensor:
    """What stands in keys in the place of a tensor, which nobody else can give."""


def called(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    described: call_cache.Described | None = None,
) -> Any:
    """A call of a front end with such tensors among its arguments; its results are tensors.

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
    described: call_cache.Described | None,
) -> Any:
    tensors: list[Tensor] = []
    key: Hashable = None
    if described is not None:
        told = [_told(argument, tensors) for argument in args]
        named = {name: _told(option, tensors) for name, option in options.items()}
        with suppress(call_cache.NotPlainError, TypeError, RecursionError):
            parts, arrays = described(told, named)
            key = None if arrays else (function, parts, *map(_layout, tensors))
    if key is not None and (known := _known.get(key)) is not None:
        held, order = known
        return _returned(_run(held, [tensors[number] for number in order]))
    call = _TensorCall(function)
    returned = call.run(function, args, options)
    if key is not None and (found := call.only(tensors, returned)) is not None:
        _known.keep(key, found)
    return returned


def _told(argument: Any, tensors: list[Tensor]) -> Any:
    """What keys have for an argument, whose tensors are noted."""
    if type(argument) in (tuple, list):
        several = cast("Sequence[Any]", argument)
        return type(argument)([_told(each, tensors) for each in several])
    if not is_tensor(argument):
        return argument
    tensors.append(argument)
    return _Tensor


def _layout(tensor: Tensor) -> tuple[object, ...]:
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.get_device()


def _run(held: Held, operands: Sequence[Tensor]) -> Sequence[Tensor]:
    if any(map(in_graph, operands)):
        _in_graphs[held.text] = held
    return torch_operators.call(held.text, operands)


def _returned(results: Sequence[Tensor]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


class _TensorCall(ForeignCall):
    """A call whose computations become calls of torch's operator."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._name = getattr(function, "__name__", "the function")
        self._tensors: list[Tensor] = []
        self._runs: list[tuple[Held, Sequence[Tensor], Sequence[Tensor]]] = []

    def only(self, tensors: Sequence[Tensor], returned: Any) -> tuple[Held, tuple[int, ...]] | None:
        """The computation that the call was, and which of the tensors it took; None for others."""
        if len(self._runs) != 1:
            return None
        [(held, operands, results)] = self._runs
        places = {id(tensor): number for number, tensor in enumerate(tensors)}
        order = [places.get(id(operand), -1) for operand in operands]
        given = as_tuple(returned)
        is_all = len(given) == len(results) and all(map(operator.is_, given, results))
        return (held, tuple(order)) if is_all and -1 not in order else None

    def is_foreign(self, argument: Any) -> bool:
        return is_tensor(argument)

    def placeholder(self, array: Tensor) -> np.ndarray:
        self._tensors.append(array)
        spec = spec_of_tensor("a tensor", array)
        if not array.is_cpu or is_wrapped(array):
            return self.placeholders.stands(reserved(spec), array)
        # Of elements that a front end looks at, such as weights of filters, there is no gradient,
        # but they are there.
        place = memory_of(array.detach().resolve_conj().resolve_neg())
        if place_of(place) in self.placeholders.arrays:
            place = place.copy(order="K")
        return self.placeholders.stands(place, array)

    def constant(self, array: np.ndarray) -> Tensor:
        torch = importlib.import_module("torch")
        return torch.from_numpy(array.copy()).to(self._tensors[0].device)

    def computed(self, planned: Program, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        held = held_as_text(planned)
        results = _run(held, operands)
        self._runs.append((held, operands, results))
        return results

    def refused(self) -> GradientError:
        return GradientError(
            f"this call of {self._name} does more to tensors than torch can follow",
            hint="t.detach() gives what has no gradient",
        )
