"""Bounds checks for streams that read as zero outside of their array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.register_types import I64, U8
from mdtensor.lower.ir.values import Calc, FromIndex, Literal, Value
from mdtensor.lower.problem.problem import Axis


def axis_indices(axes: Sequence[Axis], at: Callable[[int], Index]) -> list[tuple[Index, int]]:
    """The index into each axis and its extent, from the indices of dims."""
    found: list[tuple[Index, int]] = []
    for axis in axes:
        index = as_index(axis.offset)
        for d, coefficient in enumerate(axis.coefficients):
            index = index + at(d) * coefficient if coefficient else index
        found.append((index, axis.extent))
    return found


def all_inside(places: Sequence[tuple[Index, int]]) -> Value:
    """Whether some indices, one at least, all lie between 0 and their extents."""
    bounds: list[Value] = []
    for index, extent in places:
        place = FromIndex(index, I64)
        bounds.append(Calc("ge", (place, Literal(0, I64)), U8))
        bounds.append(Calc("lt", (place, Literal(extent, I64)), U8))
    return reduce(lambda one, other: Calc("and", (one, other), U8), bounds)
