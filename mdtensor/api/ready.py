"""Ready: a computation whose kernels are chosen, on arrays of one library: it only runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.api import statistics
from mdtensor.api.in_flight import Begins, Launch, Step, launched, run_all
from mdtensor.api.launch import scalar_result, single_launch
from mdtensor.api.operands import Array
from mdtensor.specs import TensorSpec

Run = Callable[..., None]
Make = Callable[[], Array]


class Ready:
    """`new` is a function of operands that makes the results, `into` one of operands and results.

    Neither checks its arguments: arrays have the layouts that this was made for, and no result
    shares memory with another array. `only` runs the single program that there is, if so.
    """

    def __init__(
        self,
        operands: int,
        steps: Sequence[Step],
        results: Sequence[TensorSpec],
        temporaries: Sequence[Make],
        fills: Sequence[float | None],
        xp: Any,
        made: Callable[[TensorSpec], Make],
        launch: Callable[[Step], Run],
        begun: Begins,
    ) -> None:
        tally = statistics.tally(statistics.GENERATED, results[0].dtype)
        filled = [(operands + n, fill) for n, fill in enumerate(fills) if fill is not None]
        slots = [(*step.operands, *step.results) for step in steps]
        is_simple = slots == [tuple(range(operands + 1))] and len(results) == 1 and not filled
        self.results = tuple(results)
        self.only: Run | None = launch(steps[0]) if is_simple else None
        makers = [made(spec) for spec in results]
        if self.only is not None:
            self.into = _counted(self.only, tally)
            self.new = single_launch(self.only, makers[0], tally, operands)
        else:
            self.into = _in_steps(launched(steps, begun), temporaries, filled, tally)
            self.new = _into_new(self.into, makers)
        if len(results) == 1 and xp is np and not results[0].shape:
            self.new = scalar_result(self.new)
        elif len(results) > 1:
            self.new = _several(self.new, on_host=xp is np)


def _counted(run: Run, tally: statistics.Tally) -> Run:
    def into(*arrays: Array) -> None:
        run(*arrays)
        tally.calls += 1

    return into


def _in_steps(
    launches: Sequence[Launch],
    temporaries: Sequence[Make],
    filled: Sequence[tuple[int, float]],
    tally: statistics.Tally,
) -> Run:
    """Runs steps on operands, results and new arrays for what lies between them."""

    def into(*arrays: Array) -> None:
        # All memory first: nothing is written where there is none.
        slots = (*arrays, *[make() for make in temporaries]) if temporaries else arrays
        for slot, fill in filled:
            arrays[slot].fill(fill)
        run_all(launches, slots)
        tally.calls += 1

    return into


def _into_new(into: Run, makers: Sequence[Make]) -> Callable[..., Any]:
    """The result, or a list of several."""
    if len(makers) > 1:

        def new_ones(*operands: Array) -> list[Array]:
            results = [make() for make in makers]
            into(*operands, *results)
            return results

        return new_ones
    (make,) = makers

    def new(*operands: Array) -> Array:
        result = make()
        into(*operands, result)
        return result

    return new


def _several(new: Callable[..., Any], *, on_host: bool) -> Callable[..., Any]:
    """A tuple of the results, with NumPy's scalars for those without dims."""

    def results(*operands: Array) -> tuple[Any, ...]:
        return tuple([r if r.ndim or not on_host else r[()] for r in new(*operands)])

    return results
