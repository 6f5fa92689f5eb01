"""CallGroup: ATen calls that are computed together, as a function of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.api.frameworks.call_text import run
from mdtensor.api.frameworks.torch_graphs.aten_elements import (
    ELEMENTWISE,
    Elementwise,
    OperandPosition,
)
from mdtensor.api.frameworks.torch_graphs.aten_functions import CONVOLUTION, FUNCTIONS
from mdtensor.api.frameworks.torch_graphs.joined_calls import joined
from mdtensor.api.frameworks.torch_graphs.node_facts import BY_TEXT
from mdtensor.api.frontends.lazy.lazy_array import LazyArray, as_lazy, elementwise
from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.programs.other_operands import AxisOrders, with_result_orders
from mdtensor.translate.scalar import Expr

Array = Any


@dataclass(frozen=True, slots=True)
class GroupValue:
    """A value in a group: the result of a call, or one of its several results."""

    call: int
    number: int | None = None


@dataclass(frozen=True, slots=True)
class OperandView:
    """An operand of a group: a view of one of the tensors that the group reads.

    `steps` are transpositions, as tuples of axes behind "transpose", shapes behind "reshape", and
    parts of an axis behind "narrow": the axis, where the part begins, where it ends.
    """

    tensor: int
    steps: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def of(self, array: Array) -> Array:
        """The operand's view of an array or a tensor."""
        for name, numbers in self.steps:
            if name == "narrow":
                axis, begin, end = numbers
                array = array[(slice(None),) * axis + (slice(begin, end),)]
            elif name == "reshape":
                array = array.reshape(numbers)
            else:
                array = getattr(array, "permute", array.transpose)(numbers)
        return array


@dataclass(frozen=True, slots=True)
class AtenCall:
    """A call of an ATen function.

    `name` is ATen's without the word of an overload; `arguments` and `named` are torch's, with a
    Place for each operand of the group and a Result for what an earlier call gave. `dtype` is that
    of the result, the first one where there are several.
    """

    name: str
    arguments: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class CallGroup:
    """ATen calls in order, on views of tensors; `results` are the values read outside.

    The axes of each result lie in memory in one of `orders`; in C order where there are none.
    """

    operands: tuple[OperandView, ...]
    calls: tuple[AtenCall, ...]
    results: tuple[GroupValue, ...]
    orders: AxisOrders = ()

    @property
    def label(self) -> str:
        """The names of the group's functions."""
        return " + ".join(call.name.strip("_") for call in self.calls)

    def __call__(self, *operands: Array) -> tuple[Array, ...]:
        """Run the calls through mdtensor."""
        if self.calls[0].name == CONVOLUTION and len(self.calls) > 1:
            return (self._convolved(operands),)
        values: list[Any] = []

        def filled(value: Any) -> Any:
            if isinstance(value, OperandPosition):
                return operands[value.number]
            if isinstance(value, GroupValue):
                found = values[value.call]
                return found if value.number is None else found[value.number]
            return value

        for call in self.calls:
            given = tuple(map(filled, call.arguments))
            values.append(_value(call, given, {name: filled(v) for name, v in call.named}))
        return tuple(_array(filled(result)) for result in self.results)

    def _convolved(self, operands: Sequence[Array]) -> Array:
        """Run a convolution with the elementwise calls on its result fused as an epilogue."""
        convolution, *behind = self.calls
        read = [v for call in behind for v in (*call.arguments, *(v for _, v in call.named))]
        places = tuple(dict.fromkeys(v.number for v in read if isinstance(v, OperandPosition)))
        given = [
            operands[v.number] if isinstance(v, OperandPosition) else v
            for v in convolution.arguments
        ]
        others = [operands[n] for n in places]
        finish = _finish(behind, places)
        return FUNCTIONS[CONVOLUTION].function(*given, *others, epilogue=finish)

    def program(self, specs: Sequence[TensorSpec]) -> Program:
        """The program of the group, on operands of these specs.

        Raises what front ends raise, and TranslationError for what is more than kernels.
        """
        found = joined(self, tuple(specs))
        return with_result_orders(found, self.orders) if self.orders else found


@dataclass(frozen=True, slots=True)
class _Finish:
    """A chain of elementwise functions of a result and further operands.

    Behind each are the numbers of its operands: the result is 0, then come the other elements,
    then what the functions give.
    """

    functions: tuple[tuple[Elementwise, tuple[int, ...]], ...]

    def __call__(self, *elements: Expr) -> Expr:
        values = elements
        for function, numbers in self.functions:
            values = (*values, function(*[values[n] for n in numbers]))
        return values[-1]


def _finish(calls: Sequence[AtenCall], places: Sequence[int]) -> _Finish:
    """The chain of calls on a result; `places` are the positions of further operands."""
    functions: list[tuple[Elementwise, tuple[int, ...]]] = []
    for call in calls:
        operands, function = _elementwise(call)
        numbers = [
            1 + places.index(each.number)
            if isinstance(each, OperandPosition)
            else each.call + (len(places) if each.call else 0)
            for each in operands
        ]
        functions.append((function, tuple(numbers)))
    return _Finish(tuple(functions))


def _elementwise(call: AtenCall) -> tuple[list[Any], Elementwise]:
    """The operands of an elementwise call, and its function of them."""
    operands: list[Any] = []

    def placed(value: Any) -> Any:
        if not isinstance(value, OperandPosition | GroupValue | LazyArray | np.ndarray):
            return value
        operands.append(value)
        return OperandPosition(len(operands) - 1)

    arguments = tuple(map(placed, call.arguments))
    named = tuple((name, placed(value)) for name, value in call.named)
    return operands, Elementwise(call.name, arguments, named, call.dtype)


def _value(call: AtenCall, given: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    if call.name == BY_TEXT:
        return run(*given)
    if call.name in ELEMENTWISE:
        operands, function = _elementwise(
            AtenCall(call.name, given, tuple(named.items()), call.dtype)
        )
        return elementwise(function, *map(as_lazy, operands))
    return FUNCTIONS[call.name].function(*given, **named)


def _array(value: Any) -> Array:
    if value is None:
        raise TranslationError("one of the results was not asked for, or is torch's")
    return value.evaluate() if isinstance(value, LazyArray) else value
