"""The comparison of what a program gives with what Python computes for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.translate.programs.ranges import Range
from tests.workers import MismatchError

_EPSILON = {"f4": 2.0**-23, "f8": 2.0**-52, "float": 2.0**-52}
_UNITS = 32


def tolerance(range_: Range, terms: int = 1, *, short: bool = False) -> float:
    """How far a sum of so many values of a range may be off; 0 of exact ones.

    `short` says that some part of the program is computed in float32.
    """
    if range_.is_exact:
        digits = 23 if short or range_.kind == "f4" else 52
        assert range_.grain is not None
        if range_.is_whole or range_.bound * terms * 2**range_.grain < 2**digits:
            return 0.0
    epsilon = _EPSILON["f4" if short else "f8"]
    return _UNITS * epsilon * terms * (range_.error + range_.bound + 1)


def same(found: Any, expected: Sequence[Any] | Any, bound: float, what: str = "") -> None:
    """Raises MismatchError where results differ by more than a bound."""
    got, want = np.asarray(found), np.asarray(expected)
    if got.shape != want.shape:
        raise MismatchError(f"{what}shape {got.shape} where {want.shape} is expected")
    if not got.size:
        return
    with np.errstate(all="ignore"):
        far = np.abs(got.astype(np.float64) - want.astype(np.float64))
    wrong = ~(far <= bound)
    if wrong.any():
        place = tuple(int(n) for n in np.argwhere(wrong)[0])
        raise MismatchError(
            f"{what}{int(wrong.sum())} of {got.size} elements differ, first {got[place]!r} at"
            f" {place} where {want[place]!r} is expected (bound {bound:.2g})"
        )
