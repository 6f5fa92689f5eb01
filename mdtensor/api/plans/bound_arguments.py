"""The bound arguments of a planned call: operand slots with stand-ins, and the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import array_module, as_array, has_layout, spec_of
from mdtensor.api.arrays.unaligned_arrays import addressable
from mdtensor.api.parts.placeholders import Placeholder, place_of, reserved
from mdtensor.dataclass import dataclass
from mdtensor.errors import ShapeError, shown
from mdtensor.specs import TensorSpec

Array = Any


@dataclass(frozen=True, slots=True)
class _Slot:
    """The position of an operand among the arguments."""

    number: int


@dataclass(frozen=True, slots=True)
class ArgumentSlots:
    """A call with slots for its operands; `stand_ins` are arrays like them.

    Operands are specs and arrays, also among the options; numbers stay what they are.
    """

    function: Callable[..., Any]
    positional: tuple[Any, ...]
    named: Mapping[str, Any]
    stand_ins: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        positional: Sequence[Any],
        named: Mapping[str, Any],
    ) -> ArgumentSlots:
        """The arguments of a call, split into operands and the rest."""
        operands: list[Any] = []

        def slotted(value: Any) -> Any:
            if not _is_operand(value):
                return value
            if not isinstance(value, TensorSpec) and not has_layout(value):
                value = as_array("an argument", value, array_module((value,)))
            operands.append(value)
            return _Slot(len(operands) - 1)

        first = tuple(map(slotted, positional))
        rest = {name: slotted(value) for name, value in named.items()}
        return cls(function, first, rest, _stand_ins(operands, specs_of(operands)))

    def __call__(self, operands: Sequence[Array], **more: Any) -> Any:
        """Call the function with these operands in the slots, and more options."""

        def filled(value: Any) -> Any:
            return operands[value.number] if isinstance(value, _Slot) else value

        named = {name: filled(value) for name, value in self.named.items()}
        return self.function(*map(filled, self.positional), **named, **more)

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments as text, operands by their specs."""
        specs = [spec_of(array) for array in self.stand_ins]

        def said(value: Any) -> str:
            value = specs[value.number] if isinstance(value, _Slot) else value
            return getattr(value, "__name__", None) or shown(value)

        named = (f"{name}={said(value)}" for name, value in self.named.items())
        return (*map(said, self.positional), *named)


def _is_operand(value: Any) -> bool:
    is_array = hasattr(value, "shape") and hasattr(value, "dtype")
    return isinstance(value, TensorSpec) or (is_array and not isinstance(value, np.generic))


def specs_of(operands: Sequence[Any]) -> tuple[TensorSpec, ...]:
    """The specs of operands, each an array or a spec.

    Raises ShapeError for an array whose elements do not lie at whole multiples of their size.
    """
    for number, operand in enumerate(operands):
        if not (isinstance(operand, TensorSpec) or addressable(operand)):
            raise ShapeError(
                f"elements of operand {number} do not lie at whole multiples of their size",
                notes=[f"strides {operand.strides} of elements of {operand.dtype.itemsize} bytes"],
                hint="a plan reads arrays where they lie: copy it, or call the function itself",
            )
    return tuple(op if isinstance(op, TensorSpec) else spec_of(op) for op in operands)


def _stand_ins(operands: Sequence[Any], specs: Sequence[TensorSpec]) -> tuple[np.ndarray, ...]:
    """Distinct arrays in place of the operands, with their values where NumPy has them."""
    arrays = [_held(operand, spec) for operand, spec in zip(operands, specs, strict=True)]
    places = Counter(map(place_of, arrays))
    return tuple(
        (array if places[place_of(array)] == 1 else reserved(spec)).view(Placeholder)
        for array, spec in zip(arrays, specs, strict=True)
    )


def stand_ins_of(specs: Sequence[TensorSpec]) -> tuple[np.ndarray, ...]:
    """Placeholders for operands of these specs."""
    return _stand_ins(specs, specs)


def _held(operand: Any, spec: TensorSpec) -> Array:
    is_held = hasattr(operand, "__array_interface__")
    return np.asarray(operand) if is_held else reserved(spec)
