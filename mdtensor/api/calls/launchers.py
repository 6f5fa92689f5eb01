"""Functions that launch a program and count the call: what the hot path runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from mdtensor.api.calls import statistics
from mdtensor.api.calls.hot_calls import hot_launch
from mdtensor.specs import TensorSpec

Array = Any
Launch = Callable[..., Array]
Into = Callable[..., None]
AnyLaunch = TypeVar("AnyLaunch")


def counting(run: Into, tally: statistics.Tally) -> Into:
    """A launch into given results that also counts the call in the statistics."""

    def into(*arrays: Array) -> None:
        run(*arrays)
        tally.calls += 1

    into.hot = hot_launch(run, tally)  # pyright: ignore[reportFunctionMemberAccess]
    return into


def single_launch(
    program: Callable[..., None],
    make: Callable[[], Array],
    tally: statistics.Tally,
    operands: int,
    result: TensorSpec,
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

    found = launch_of_two if operands == 2 else launch
    found.hot = hot_launch(program, tally, (result,), make)  # pyright: ignore
    return found


def several_launch(
    run: Into,
    makers: Sequence[Callable[[], Array]],
    tally: statistics.Tally,
    results: tuple[TensorSpec, ...],
    *,
    on_host: bool,
) -> Launch:
    """A function of operands that makes a tuple of results, NumPy's scalars without dims."""

    def make() -> tuple[Array, ...]:
        return tuple([made() for made in makers])

    def launch(*operands: Array) -> tuple[Any, ...]:
        made = make()
        run(*operands, *made)
        tally.calls += 1
        return tuple([each[()] for each in made]) if has_numbers else made

    has_numbers = on_host and not all(spec.shape for spec in results)
    launch.hot = hot_launch(run, tally, results, make)  # pyright: ignore
    return launch


def scalar_result(launch: Launch) -> Launch:
    """The same launch, which returns NumPy's scalar for a result without dims."""

    def scalar(*operands: Array) -> np.generic:
        return launch(*operands)[()]

    scalar.hot = getattr(launch, "hot", None)  # pyright: ignore[reportFunctionMemberAccess]
    return scalar


def telling(launch: AnyLaunch, served_by: tuple[object, ...]) -> AnyLaunch:
    """The same launch, with what `stage_timer.ran` is told of it."""
    if isinstance(launch, FunctionType):
        launch.served_by = served_by  # pyright: ignore[reportFunctionMemberAccess]
    return launch


def told_of(launch: object) -> tuple[object, ...]:
    """What `stage_timer.ran` is told of a launch, where that is known."""
    return getattr(launch, "served_by", ())
