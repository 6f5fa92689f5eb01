"""Launches of programs that count each call: the hot path."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from mdtensor.api.arrays import invalidation
from mdtensor.api.calls import statistics
from mdtensor.api.calls.hot_calls import hot_launch
from mdtensor.bounded import Bounded, pairs_of
from mdtensor.specs import TensorSpec

Array = Any
Launch = Callable[..., Array]
Into = Callable[..., None]
AnyLaunch = TypeVar("AnyLaunch")
Key = TypeVar("Key", bound=Hashable)


class LaunchTable(Bounded[Key, AnyLaunch]):
    """A bounded table of launches, which drops those that better kernels replace."""

    __slots__ = ("__weakref__",)

    def __init__(self, most: int) -> None:
        super().__init__(most)
        invalidation.register(self)

    def drop(self, is_stale: invalidation.IsStale) -> None:
        """Drops the launches that are out of date."""
        for key, launch in pairs_of(self):
            if is_stale(getattr(launch, "served_by", None)):
                self.pop(key, None)


def counting(run: Into, tally: statistics.Tally) -> Into:
    """A launch into given results that counts the call in the statistics."""

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
    """A launch of one program on `operands` arrays, into a new result."""

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
    """A launch into a tuple of new results; 0-dimensional ones become NumPy scalars."""

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
    """Wrap a launch so that its 0-dimensional result is a NumPy scalar."""

    def scalar(*operands: Array) -> np.generic:
        return launch(*operands)[()]

    scalar.hot = getattr(launch, "hot", None)  # pyright: ignore[reportFunctionMemberAccess]
    return scalar


def telling(launch: AnyLaunch, served_by: tuple[object, ...]) -> AnyLaunch:
    """Attach to a launch the arguments that `stage_timer.ran` takes about it."""
    if isinstance(launch, FunctionType):
        launch.served_by = served_by  # pyright: ignore[reportFunctionMemberAccess]
    return launch


def told_of(launch: object) -> tuple[object, ...]:
    """The arguments for `stage_timer.ran` attached to a launch; () where there are none."""
    return getattr(launch, "served_by", ())
