"""Asynchronous steps: launched in order, awaited once at the end.

Work that threads of the device do is begun and goes on while the calling thread does the next
step's; those threads take steps in their order. What the calling thread does itself begins only
when nothing in flight reads or writes the same elements: the borders of a stencil are computed
beside its inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from operator import itemgetter
from typing import Any, Protocol, TypeVar

from mdtensor.dataclass import dataclass
from mdtensor.translate.md_hom_program import FusedStep, Step
from mdtensor.translate.programs.step_dependences import are_apart

# What begins a step, and what waits for it: see `beginner` of compiled programs.
Begun = tuple[Callable[..., None], Callable[[], None] | None]


S = TypeVar("S", Step, Step | FusedStep)
Of_contra = TypeVar("Of_contra", bound=Step | FusedStep, contravariant=True)


class Begins(Protocol[Of_contra]):
    """A function that begins a step; `behind` if it follows other steps in flight."""

    def __call__(self, step: Of_contra, *, behind: bool = False) -> Begun:
        """A launcher of the step, and a function that waits for its completion."""
        ...


@dataclass(frozen=True, slots=True)
class StepLaunch:
    """A launch of a step on arrays; `finish` waits for its end, None where `run` does itself."""

    run: Callable[..., None]
    finish: Callable[[], None] | None
    slots: tuple[int, ...]
    waits: bool = False
    arrays: Callable[[Sequence[Any]], tuple[Any, ...]] = field(init=False)

    def __post_init__(self) -> None:
        # What `slots` choose, without a loop of Python.
        chosen = itemgetter(*self.slots) if len(self.slots) > 1 else self._one
        object.__setattr__(self, "arrays", chosen)

    def _one(self, slots: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([slots[n] for n in self.slots])


def launched(steps: Sequence[S], begun: Begins[S]) -> tuple[StepLaunch, ...]:
    """The launches of steps on the arrays of their slots, in order.

    What threads of the device do is begun before what the calling thread does, where it may be.
    """
    launches = [_launch_of(step, begun(step)) for step in steps]
    flying: list[S] = []
    ordered: list[StepLaunch] = []
    for step, alone in _begun_first(steps, launches):
        launch = alone
        if alone.finish is None and not all(are_apart(step, other) for other in flying):
            launch = _launch_of(step, begun(step, behind=True))
            if launch.finish is None:
                launch = replace(launch, waits=True)
                flying.clear()
        if launch.finish is not None:
            flying.append(step)
        ordered.append(launch)
    return tuple(ordered)


def _launch_of(step: Step | FusedStep, begun: Begun) -> StepLaunch:
    return StepLaunch(*begun, (*step.operands, *step.results))


def _begun_first(steps: Sequence[S], launches: Sequence[StepLaunch]) -> list[tuple[S, StepLaunch]]:
    ordered: list[tuple[S, StepLaunch]] = []
    for step, launch in zip(steps, launches, strict=True):
        place = len(ordered)
        while place and launch.finish is not None:
            before, earlier = ordered[place - 1]
            if earlier.finish is not None or not are_apart(step, before):
                break
            place -= 1
        ordered.insert(place, (step, launch))
    return ordered


def run_all(launches: Sequence[StepLaunch], slots: Sequence[Any]) -> None:
    """Runs launches on the arrays of all slots, and waits until all results are written.

    Nothing is in flight any more either when one of them raises.
    """
    finish: Callable[[], None] | None = None
    try:
        for launch in launches:
            if launch.waits and finish is not None:
                finish()
                finish = None
            # Before it runs: where it raises, something may be in flight already.
            finish = launch.finish or finish
            launch.run(*launch.arrays(slots))
    finally:
        if finish is not None:
            finish()
