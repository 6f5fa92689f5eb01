"""Bounds checks for zero-padded streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.register_types import I64, U8
from mdtensor.lower.ir.values import Calc, FromIndex, Literal, Value
from mdtensor.lower.problem.problem import Axis


def axis_indices(axes: Sequence[Axis], at: Callable[[int], Index]) -> list[tuple[Index, int]]:
    """The index into each array axis, with its extent, from the indices of dims."""
    found: list[tuple[Index, int]] = []
    for axis in axes:
        index = as_index(axis.offset)
        for d, coefficient in enumerate(axis.coefficients):
            index = index + at(d) * coefficient if coefficient else index
        found.append((index, axis.extent))
    return found


def all_inside(places: Sequence[tuple[Index, int]]) -> Value:
    """The condition that all of some indices (at least one) lie within their extents."""
    bounds: list[Value] = []
    for index, extent in places:
        place = FromIndex(index, I64)
        bounds.append(Calc("ge", (place, Literal(0, I64)), U8))
        bounds.append(Calc("lt", (place, Literal(extent, I64)), U8))
    return reduce(lambda one, other: Calc("and", (one, other), U8), bounds)
