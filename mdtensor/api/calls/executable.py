"""Ready: an executable computation, with its kernels chosen, on arrays of one library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.api.async_steps import Begins, Chain, Launch, Step, launched, run_all
from mdtensor.api.calls import statistics
from mdtensor.api.calls.launchers import counting, scalar_result, single_launch
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom

Run = Callable[..., None]
Make = Callable[[], Array]


class Ready:
    """`new` is a function of operands that makes the results, `into` one of operands and results.

    Neither checks its arguments: arrays have the layouts that this was made for, and no result
    shares memory with another array. `only` runs the single program that there is, if so. `whole`
    runs all steps of a call of several at once, where that is known; else `counted` takes what runs
    them one by one, where the calling thread does that.
    """

    def __init__(
        self,
        chain: Chain,
        results: Sequence[TensorSpec],
        temporaries: Sequence[Make],
        fills: Sequence[float | None],
        xp: Any,
        made: Callable[[TensorSpec], Make],
        launch: Callable[[Step], Run],
        begun: Begins,
        whole: Run | None = None,
        counted: Callable[[Run], Run] | None = None,
    ) -> None:
        tally = statistics.tally(statistics.GENERATED, results[0].dtype)
        operands = chain.operands
        filled = [(operands + n, fill) for n, fill in enumerate(fills) if fill is not None]
        slots = [(*step.operands, *step.results) for step in chain.steps]
        is_simple = slots == [tuple(range(operands + 1))] and len(results) == 1 and not filled
        self.results = tuple(results)
        # The kind of arrays, and what kernels were chosen for, where that is known.
        self.served_by: tuple[str, tuple[MDHom, ...]] = "", ()
        self.only: Run | None = launch(chain.steps[0]) if is_simple else None
        makers = [made(spec) for spec in results]
        run = self.only
        if whole is not None:
            every = Launch(whole, None, tuple(range(operands + len(results))))
            run = _in_steps((every,), (), filled) if filled else whole
        elif run is None:
            launches = launched(chain.steps, begun)
            run = _in_steps(launches, temporaries, filled)
            if counted is not None and all(each.finish is None for each in launches):
                run = counted(run)
        self.into = counting(run, tally)
        if len(results) > 1:
            self.new = _several(_into_several(self.into, makers), on_host=xp is np)
        else:
            self.new = single_launch(run, makers[0], tally, operands)
            if xp is np and not results[0].shape:
                self.new = scalar_result(self.new)


def _in_steps(
    launches: Sequence[Launch], temporaries: Sequence[Make], filled: Sequence[tuple[int, float]]
) -> Run:
    """Runs steps on operands, results and new arrays for what lies between them."""

    def into(*arrays: Array) -> None:
        # All memory first: nothing is written where there is none.
        slots = (*arrays, *[make() for make in temporaries]) if temporaries else arrays
        for slot, fill in filled:
            arrays[slot].fill(fill)
        run_all(launches, slots)

    return into


def _into_several(into: Run, makers: Sequence[Make]) -> Callable[..., list[Array]]:
    """A function of operands that allocates several results and computes into them."""

    def new(*operands: Array) -> list[Array]:
        results = [make() for make in makers]
        into(*operands, *results)
        return results

    return new


def _several(new: Callable[..., Any], *, on_host: bool) -> Callable[..., Any]:
    """A tuple of the results, with NumPy's scalars for those without dims."""

    def results(*operands: Array) -> tuple[Any, ...]:
        return tuple([r if r.ndim or not on_host else r[()] for r in new(*operands)])

    return results
