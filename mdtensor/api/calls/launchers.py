"""Functions that launch a program and count the call: what the hot path runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.api.calls import statistics

Array = Any
Launch = Callable[..., Array]
Into = Callable[..., None]


def counting(run: Into, tally: statistics.Tally) -> Into:
    """A launch into given results that also counts the call in the statistics."""

    def into(*arrays: Array) -> None:
        run(*arrays)
        tally.calls += 1

    return into


def single_launch(
    program: Callable[..., None],
    make: Callable[[], Array],
    tally: statistics.Tally,
    operands: int,
) -> Launch:
    """A function of so many operands that makes the result and runs one program."""

    def launch(*operands: Array) -> Array:
        result = make()
        program(*operands, result)
        tally.calls += 1
        return result

    def launch_of_two(a: Array, b: Array) -> Array:
        result = make()
        program(a, b, result)
        tally.calls += 1
        return result

    return launch_of_two if operands == 2 else launch


def scalar_result(launch: Launch) -> Launch:
    """The same launch, which returns NumPy's scalar for a result without dims."""

    def scalar(*operands: Array) -> np.generic:
        return launch(*operands)[()]

    return scalar
