"""Parsing of tuning budgets."""

from __future__ import annotations

import re
from typing import Any

from mdtensor.errors import TuningError, shown

_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


def seconds_of(budget: float | str) -> float:
    """A budget in seconds, from a number or a text such as "90", "30s" or "5min".

    Raises TuningError for what is no time, or less than none.

    >>> seconds_of("5min"), seconds_of(30)
    (300.0, 30.0)
    """
    seconds = _number_in(budget)
    if seconds is None or not seconds >= 0:  # NaN is no time either
        raise TuningError(
            f"budget {shown(budget)} is no time",
            hint="seconds, or a text such as '30s', '5min' or '1h'",
        )
    return seconds


def _number_in(budget: Any) -> float | None:
    if not isinstance(budget, str):
        try:
            return float(budget)
        except (OverflowError, TypeError, ValueError):
            return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", budget)
    if match is None or match[2] not in _UNITS:
        return None
    return float(match[1]) * _UNITS[match[2]]
