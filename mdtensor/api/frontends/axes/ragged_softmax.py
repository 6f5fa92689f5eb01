"""Softmax of ragged batches: reductions of sequences, and functions of their elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from mdtensor.api.arrays.operands import check_types
from mdtensor.api.arrays.ragged import Ragged
from mdtensor.api.frontends.reduce import reduce
from mdtensor.errors import AxisError, DTypeError, shown
from mdtensor.specs import kind_of

_NAMES = "defghijklmnopqrsuvwxyz"  # of the further axes of values


def ragged_softmax(batch: Ragged, axis: Any, out: Any) -> Ragged:
    """The softmax of a ragged batch along its sequences, further axes of their values, or both.

    Raises AxisError for the axis of the batch and for axes that are not there, DTypeError for
    complex numbers and types without kernels.
    """
    axes = _axes(axis, batch.ndim)
    check_types([batch.dtype])
    if batch.dtype.kind == "c":
        raise DTypeError("softmax takes no complex numbers")
    dtype = batch.dtype.newbyteorder("=") if kind_of(batch.dtype) == "f" else np.dtype("f8")
    wide = np.result_type(dtype, "f4")
    given = batch.with_values(batch.values.astype(wide, copy=False))
    names = "bt" + _NAMES[: batch.ndim - 2]
    kept = "".join(name for n, name in enumerate(names) if n not in axes)
    top = reduce(f"{names}->{kept}", given, combine="max")
    total = reduce(f"{names},{kept}->{kept}", given, top, f=_power)
    text = f"{names},{kept},{kept}->{names}"
    return reduce(text, given, top, total, f=_share, dtype=dtype, out=out)


def _power(x: Any, top: Any) -> Any:
    return np.exp(x - top)


def _share(x: Any, top: Any, total: Any) -> Any:
    return np.exp(x - top) / total


def _axes(axis: Any, ndim: int) -> frozenset[int]:
    """Axes of a ragged batch as numbers from 0 on, without that of the batch."""
    listed = cast("Sequence[Any]", axis) if isinstance(axis, Sequence) else (axis,)
    found: set[int] = set()
    for each in listed:
        try:
            number = operator.index(each)
        except TypeError:
            number = ndim if each is not None else 0
        number += ndim if number < 0 else 0
        if not 0 < number < ndim:
            raise AxisError(
                f"softmax of a ragged batch along axis {shown(each)}",
                hint=f"1 is the axis of sequences, and this batch has {ndim}; 0 is the batch",
            )
        found.add(number)
    return frozenset(found)
