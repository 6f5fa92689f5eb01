"""Ready: an executable computation, with its kernels chosen, on arrays of one library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.api.async_steps import Begins, Chain, Launch, launched, run_all
from mdtensor.api.calls import statistics
from mdtensor.api.calls.launchers import counting, scalar_result, single_launch
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import Step

Run = Callable[..., None]
Make = Callable[[], Array]
_MUCH = 1 << 24  # bytes of arrays between steps: steps on these take longer than to wait for each
Conversions = Sequence[tuple[int, np.dtype]]  # positions of operands, and the types to copy them to


class Ready:
    """`new` is a function of operands that makes the results, `into` one of operands and results.

    Neither checks its arguments: arrays have the layouts that this was made for, and no result
    shares memory with another array. `is_one_program` says that one program on some of the operands
    is all there is to run. `whole` runs all steps of a call of several at once, where that is
    known; else `counted` takes what runs them one by one, and whether the calling thread does that
    `alone`. `converted`
    are operands that are copied to another type first. `engine` names what computes the steps, for
    the statistics, once their programs are chosen.
    """

    def __init__(
        self,
        chain: Chain,
        results: Sequence[TensorSpec],
        temporaries: Sequence[TensorSpec],
        fills: Sequence[float | None],
        xp: Any,
        made: Callable[[TensorSpec], Make],
        launch: Callable[[Step], Run],
        begun: Begins,
        whole: Run | None = None,
        counted: Callable[..., Run] | None = None,
        converted: Conversions = (),
        *,
        is_one_program: bool = False,
        engine: Callable[[], str] = lambda: statistics.GENERATED,
    ) -> None:
        operands = chain.operands
        filled = [(operands + n, fill) for n, fill in enumerate(fills) if fill is not None]
        self.results = tuple(results)
        makers = [made(spec) for spec in results]
        run = _of_some(launch(chain.steps[0]), chain) if is_one_program else None
        if whole is not None:
            every = Launch(whole, None, tuple(range(operands + len(results))))
            run = _in_steps((every,), (), filled) if filled else whole
        elif run is None:
            launches = launched(chain.steps, begun)
            first, makes = operands + len(results), [made(spec) for spec in temporaries]
            if _may_lack_memory(launches, temporaries, range(operands, first)):
                run = _one_by_one(launches, makes, first, filled)
            else:
                run = _in_steps(launches, makes, filled)
            if counted is not None:
                run = counted(run, alone=all(each.finish is None for each in launches))
        if converted:
            run = _converting(run, converted)
        engine_name = engine() if chain.steps else statistics.FILLED
        tally = statistics.tally(engine_name, results[0].dtype)
        # What `stage_timer.ran` is told of it; kernels are for those who choose them to add.
        self.served_by: tuple[object, ...] = () if chain.steps else (tally,)
        self.into = counting(run, tally)
        if len(results) > 1:
            self.new = _several(_into_several(self.into, makers), on_host=xp is np)
        else:
            self.new = single_launch(run, makers[0], tally, operands, results[0])
            if xp is np and not results[0].shape:
                self.new = scalar_result(self.new)


def _of_some(run: Run, chain: Chain) -> Run:
    """A launch of the one step of a chain, as a function of all operands and the result."""
    slots = (*chain.steps[0].operands, chain.operands)
    if slots == tuple(range(chain.operands + 1)):
        return run
    choose = Launch(run, None, slots).arrays

    def of_some(*arrays: Array) -> None:
        run(*choose(arrays))

    of_some.chosen = run, slots[:-1]  # pyright: ignore[reportFunctionMemberAccess]
    return of_some


def as_converted(operands: Sequence[Array], conversions: Conversions) -> list[Array]:
    """The operands, some of them copied to another type."""
    given = list(operands)
    for number, dtype in conversions:
        given[number] = given[number].astype(dtype, order="C")
    return given


def _converting(run: Run, conversions: Conversions) -> Run:
    """The same on operands of which some are copied to another type first."""

    def converting(*arrays: Array) -> None:
        run(*as_converted(arrays, conversions))

    return converting


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


def _may_lack_memory(
    launches: Sequence[Launch], temporaries: Sequence[TensorSpec], results: range
) -> bool:
    """Whether arrays between steps are made late and dropped early: they are large.

    Not where a step before the last writes a result, since nothing is written without memory.
    """
    writes_early = any(slot in results for launch in launches[:-1] for slot in launch.slots)
    return not writes_early and sum(spec.nbytes for spec in temporaries) >= _MUCH


def _one_by_one(
    launches: Sequence[Launch],
    temporaries: Sequence[Make],
    first: int,
    filled: Sequence[tuple[int, float]],
) -> Run:
    """Runs steps one after the other; an array between them is there while steps use it.

    `first` is the slot of the first of these arrays.
    """
    users: dict[int, list[int]] = {first + n: [] for n in range(len(temporaries))}
    for number, launch in enumerate(launches):
        for slot in users.keys() & launch.slots:
            users[slot].append(number)
    made = [[slot for slot, use in users.items() if use[0] == n] for n in range(len(launches))]
    dropped = [[slot for slot, use in users.items() if use[-1] == n] for n in range(len(launches))]
    steps = [*zip(launches, made, dropped, strict=True)]

    def into(*arrays: Array) -> None:
        slots: list[Array] = [*arrays, *[None] * len(temporaries)]
        for slot, fill in filled:
            arrays[slot].fill(fill)
        for launch, new, old in steps:
            for slot in new:
                slots[slot] = temporaries[slot - first]()
            run_all((launch,), slots)
            for slot in old:
                slots[slot] = None

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
