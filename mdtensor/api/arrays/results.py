"""Results of calls: output arrays, initial values, return values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import read_only
from mdtensor.errors import DTypeError, ShapeError, count_of
from mdtensor.specs import TensorSpec


def check_out(
    targets: Sequence[Any], due: Sequence[TensorSpec], casting: Any = "same_kind"
) -> None:
    """Raises ShapeError or DTypeError where output arrays do not fit the results' specs.

    `casting` says which types take which, as NumPy's words do.
    """
    if len(targets) != len(due):
        given = count_of(len(targets), "array", "arrays")
        raise ShapeError(f"{given} in out for {count_of(len(due), 'result', 'results')}")
    for target, spec in zip(targets, due, strict=True):
        if tuple(target.shape) != spec.shape:
            raise ShapeError(f"out has shape {tuple(target.shape)} but the result {spec.shape}")
        if not np.can_cast(spec.dtype, target.dtype, casting):
            raise DTypeError(f"the result is {spec.dtype}, which does not go into {target.dtype}")
        if isinstance(target, np.ndarray) and not target.flags.writeable:
            raise read_only("out")


def begin_with(fills: Sequence[float | None], results: Sequence[Any]) -> None:
    """Fills results with their initial values, before the first step, where there are any."""
    for fill, result in zip(fills, results, strict=False):
        if fill is not None:
            result[...] = fill


def as_returned(results: Sequence[Any]) -> Any:
    """A call's return value: one result, or a tuple; NumPy scalars for results without axes."""
    several = tuple([r[()] if type(r) is np.ndarray and not r.ndim else r for r in results])
    return several[0] if len(several) == 1 else several
