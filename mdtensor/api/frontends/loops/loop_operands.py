"""Operands of loops: record fields, strings as words, and begins of ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.dataclass import dataclass
from mdtensor.errors import ProgramError
from mdtensor.translate import reference
from mdtensor.translate.loop_nests.carried import retyped
from mdtensor.translate.loops.loop_program import RangeBegin
from mdtensor.translate.records.columns import words_of
from mdtensor.translate.reductions.reduction_of_records import WORTH_COPIES


def with_fields(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays by name, with the fields of records added."""
    found: dict[str, Any] = dict(arrays)
    for name, array in arrays.items():
        fields: tuple[str, ...] = array.dtype.names or ()
        found |= with_fields({f"{name}.{field}": array[field] for field in fields})
    return found


def as_operand(array: Array, points: int) -> Array:
    """An array as kernels read it: strings as words, fields that are read often as copies.

    Numbers, which become arrays when kernels run, are left as they are.
    """
    if isinstance(array, float | complex):
        return array
    if array.dtype.kind in "SU":
        return words_of(array)
    is_apart = array.flags.c_contiguous or points < WORTH_COPIES * array.size
    around = getattr(array.base, "dtype", None)
    is_field = getattr(around, "names", None) is not None
    return array if is_apart or not is_field else np.ascontiguousarray(array)


@dataclass(frozen=True, slots=True)
class BeginCheck:
    """A check that raises an error where named operands make loops begin below 0."""

    begins: tuple[RangeBegin, ...]
    names: tuple[str, ...]

    def __call__(self, *operands: Array) -> None:
        """Checks the operands."""
        arrays = dict(zip(self.names, operands, strict=True))
        for begin in self.begins:
            told = begin.arrays
            if told is not None and not any(_is_below_0(arrays[name]) for name in told):
                continue
            given = [_on_host(arrays[name]) for name in begin.step.inputs]
            least = np.zeros((), np.int64)
            reference.compute(begin.step.md_hom, given, [least])
            if least < 0:
                raise retyped(ProgramError, begin.error)


def _is_below_0(array: Array) -> bool:
    """Whether any element of an integer array is negative."""
    return array.dtype.kind == "i" and array.size > 0 and bool(array.min() < 0)


def _on_host(array: Array) -> Array:
    return array.get() if hasattr(array, "get") else array
