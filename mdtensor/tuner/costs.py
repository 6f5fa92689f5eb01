"""Costs that users' functions return, and their conversion to trials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from mdtensor.autotune.space.space import Configuration
from mdtensor.autotune.trial import Status, Trial
from mdtensor.errors import TuningError

# A number of any unit, or a trial; None and what is not finite say that there is none.
CostValue: TypeAlias = "float | Trial | None"
Cost: TypeAlias = Callable[[Configuration], Any]


def invalid(reason: str, status: Status = "rejected") -> Trial:
    """A failed trial, for cost functions to return for invalid configurations.

    `status` tells how it failed: "wrong", "crashed", "timeout", "compile_error" or "rejected".

    >>> invalid("more registers than there are").cost
    inf
    """
    return Trial(status, detail=reason)


def trial_of(cost: CostValue) -> Trial:
    """Convert a cost function's result to a trial; `TuningError` for what is no cost.

    >>> trial_of(2.5).cost, trial_of(math.nan).detail
    (2.5, 'nan')
    """
    if isinstance(cost, Trial):
        return cost
    if cost is None:
        return invalid("no cost")
    try:
        number = float(cost)
    except (TypeError, ValueError):
        raise TuningError(
            f"{cost!r} is no cost", hint="a number, or invalid('why') where there is none"
        ) from None
    if not math.isfinite(number):
        return invalid(str(number))
    if number < 0:
        raise TuningError(
            f"a cost is 0 or more, not {number!r}",
            hint="of what shall be large, return a constant less it, or its reciprocal",
        )
    return Trial("ok", number)
