"""Arrays of records and of strings, as operands and as results of reductions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mdtensor.api.arrays.memory_overlap import check_distinct
from mdtensor.api.arrays.operands import (
    Array,
    array_module,
    as_array,
    as_output,
    check_mask,
    has_layout,
)
from mdtensor.api.calls.program_calls import made
from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, ShapeError
from mdtensor.specs import TensorSpec, as_dtype
from mdtensor.translate.python.tuples import as_tuple
from mdtensor.translate.records.columns import Column, Path, at_path, codes_of, columns_of
from mdtensor.translate.records.columns_on_gpu import column_on_gpu, put_on_gpu
from mdtensor.translate.records.records import has_parts
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction
from mdtensor.translate.reductions.reduction_of_records import RecordReduction, reduction_of_records

# An operand's number, and a path in its elements.
Place = tuple[int, Path]


@dataclass(frozen=True)
class ByColumns:
    """A reduction of records or strings by columns: its operands and, if given, result arrays."""

    reduction: Reduction
    operands: tuple[Array, ...]
    out: tuple[Array, ...] | None
    _names: tuple[str, ...] | None
    _dtype: np.dtype | None
    _given: Array | None
    _xp: Any = np

    def joined(self, results: Any) -> Any:
        """The result of the call: an array of records where results have names."""
        is_host = self._xp is np
        if self._given is not None and is_host:
            return self._given
        if self._names is None:
            return results
        several = as_tuple(results)
        pairs = list(zip(self._names, several, strict=True))
        dtype = self._dtype or np.dtype([(name, r.dtype) for name, r in pairs])
        joined = self._given
        if joined is None:
            joined = self._xp.empty(np.shape(several[0]), dtype)
        for name, values in pairs:
            if is_host:
                joined[name] = values
            else:
                put_on_gpu(joined, name, values, self._xp)
        return joined[()] if joined.ndim == 0 and is_host else joined


def by_columns(
    reduction: Reduction, key: Hashable, operands: Sequence[object], out: Any
) -> ByColumns | None:
    """A call on records or strings as a call on their columns; None for other operands.

    `key` holds all that shapes the computation besides the operands' layouts.

    Raises what `reduction_of_records` raises, and DTypeError where `out` and `dtype` differ.
    """
    result = _result_dtype(reduction, out)
    if result is None and not any(_has_parts(operand) for operand in operands):
        return None
    xp = array_module(operands)
    arrays = [_array(operand, xp) for operand in operands]
    seen = (key, result, xp is np, tuple((array.dtype, array.shape) for array in arrays))
    specs = [TensorSpec.of(array.shape, array.dtype) for array in arrays]
    reduce = partial(reduction_of_records, reduction, specs, result, coded=xp is np)
    found = made(seen, reduce)
    columns = _columns(arrays, found) if xp is np else _columns_on_gpu(arrays, found, xp)
    is_structured = _structured(getattr(out, "dtype", None)) is not None
    if is_structured and xp is not np and type(out) is not xp.ndarray:
        raise DTypeError(
            f"out is a {type(out).__module__}.{type(out).__name__}, but operands are on a GPU",
            hint="results are written where operands lie: cupy.empty(…)",
        )
    given = out
    if is_structured:
        as_output("out", out, xp)
        check_distinct("out", out)
        given = tuple(out[name] for name in out.dtype.names) if xp is np else None
    records = out if is_structured else None
    return ByColumns(found.reduction, tuple(columns), given, found.names, result, records, xp)


def _columns_on_gpu(arrays: Sequence[Array], wanted: RecordReduction, xp: Any) -> list[Array]:
    """The columns of CuPy operands, read in place."""
    found: list[Array] = []
    for array, listed in zip(arrays, wanted.columns, strict=True):
        is_plain = listed == (Column(),)
        found += [array] if is_plain else [column_on_gpu(array, c, xp) for c in listed]
    return found


def _columns(arrays: Sequence[Array], wanted: RecordReduction) -> list[Array]:
    """The columns of NumPy operands, as separate arrays."""
    codes: dict[tuple[Place, Place], np.ndarray] = {}
    found: list[Array] = []
    for number, (array, listed) in enumerate(zip(arrays, wanted.columns, strict=True)):
        if listed == (Column(),):
            found.append(array)
            continue
        read = [column for column in listed if column.peer is None]
        parts = iter(columns_of(array, read, apart=wanted.apart[number]))
        for column in listed:
            mine = (number, column.path)
            if column.peer is None:
                found.append(next(parts))
                continue
            if (mine, column.peer) not in codes:
                sides = (at_path(arrays[n], path) for n, path in (mine, column.peer))
                codes[mine, column.peer], codes[column.peer, mine] = codes_of(*sides)
            found.append(codes[mine, column.peer])
    return found


def _has_parts(operand: Any) -> bool:
    return isinstance(getattr(operand, "dtype", None), np.dtype) and has_parts(operand.dtype)


def _array(operand: Any, xp: Any) -> Array:
    check_mask("an operand", operand)
    is_whole = has_layout(operand) and operand.ndim
    if is_whole or (xp is not np and type(operand) is xp.ndarray):
        return operand
    return as_array("an operand", operand, xp)


def _result_dtype(reduction: Reduction, out: Any) -> np.dtype | None:
    """The structured type of the result; None where the result has no fields."""
    asked = _structured(reduction.dtype)
    given = _structured(getattr(out, "dtype", None))
    if given is None and asked is not None and out is not None:
        raise ShapeError(
            "out is no array of records, but dtype is",
            notes=[f"its fields are {', '.join(asked.names or ())}"],
        )
    if given is not None and asked is not None and given != asked:
        raise DTypeError(f"out has elements of type {given}, but dtype is {asked}")
    return given or asked


def _structured(dtype: Any) -> np.dtype | None:
    """A structured type, also from a list of fields; None for other types."""
    if isinstance(dtype, list):
        dtype = as_dtype(dtype)
    is_structured = isinstance(dtype, np.dtype) and dtype.names
    return dtype if is_structured else None  # pyright: ignore[reportUnknownVariableType]
