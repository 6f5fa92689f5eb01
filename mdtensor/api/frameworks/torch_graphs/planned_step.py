"""PlannedStep: nodes of a compiled graph, by kernels of mdtensor's or by torch's functions.

The two are timed by turns on the operands of the first call, and again where better kernels have
come; later calls run what took less time. That is the same for all nodes.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.operands import spec_of
from mdtensor.api.calls import program_calls
from mdtensor.api.calls.program_calls import is_watched, ready_for
from mdtensor.api.engine import tuning_mode
from mdtensor.api.frameworks.torch_graphs.call_group import View
from mdtensor.api.frameworks.torch_graphs.graph_groups import PlannedCalls
from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.python.tuples import as_tuple

Tensor = Any
Array = Any
Buffers = list[Any]
"""Tensors for what lies between steps, each with its array, during one run; None until made."""
Layouts = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

_MOST = 64  # layouts that are kept
# Rounds of timing, and seconds after which there is none more.
_LEAST_ROUNDS, _ROUNDS, _LONG = 2, 9, 0.03


@dataclass(slots=True)
class Timing:
    """Seconds of a step by our kernels and by torch, None where they were not timed.

    `first` is what ours took when they were first timed: before any tuning that came later.
    """

    ours: float | None = None
    torch: float | None = None
    first: float | None = None
    programs: tuple[object, ...] | None = None

    @property
    def is_ours(self) -> bool:
        """Whether our kernels took no longer."""
        return self.ours is not None and (self.torch is None or self.ours <= self.torch)


@dataclass(frozen=True, slots=True, eq=False)
class _Launch:
    """Our kernels for operands of one layout until better ones exist; None where there are none.

    `is_faster` says that they took no longer than torch's functions.
    """

    into: Callable[..., None] | None
    results: tuple[TensorSpec, ...] = ()
    is_faster: bool = False


_BY_TORCH = _Launch(None)


class PlannedStep:
    """A function of buffers and tensors that computes a group of nodes; safe for threads.

    `by_torch` computes the same by torch's functions, from the same tensors. `buffers` are the
    numbers of the buffers of its results, None for results that are new tensors in each run.
    """

    def __init__(
        self,
        planned: PlannedCalls,
        by_torch: Callable[..., Any],
        layers: str = "",
    ) -> None:
        self.planned = planned
        self.layers = layers
        self.by_torch = by_torch
        self.timings = Bounded[tuple[int, ...], Timing](_MOST)  # by the magnitudes of extents
        # Whether all runs are by our kernels, or all by torch; None is what took less time.
        self.by: bool | None = None
        self.generation = 0  # how often kernels were timed
        self._torch = importlib.import_module("torch")
        self.buffers: tuple[int | None, ...] = (None,) * len(planned.results)
        self._views = planned.group.operands
        self._key = ("graph of torch", planned.group)
        self._is_plain = self._views == tuple(map(View, range(len(planned.sources))))
        self.has_several = len(planned.results) > 1
        self._launches = Bounded[Layouts, _Launch](_MOST)
        self._seen = Bounded[Layouts, bool](_MOST)
        self.__name__ = planned.group.label
        invalidation.when_cleared(self)

    def forget(self) -> None:
        """Drops the launches: better kernels may exist, which are timed then."""
        self._launches = Bounded[Layouts, _Launch](_MOST)

    def __call__(self, buffers: Buffers, *tensors: Tensor) -> Any:
        """The result, or a tuple of several."""
        try:
            arrays = [t.detach().numpy() if t.requires_grad else t.numpy() for t in tensors]
        except (RuntimeError, TypeError):  # of a subclass, or conjugated or negated when read
            return self.by_torch(*tensors)
        if invalidation.watchers and (is_watched() or tuning_mode.apart() is not None):
            return self._called(self._operands(arrays))
        layouts = tuple([(a.shape, a.strides) for a in arrays])
        launch = self._launches.get(layouts)
        if launch is None:
            launch = self._prepared(layouts, buffers, tensors, arrays)
        if launch.into is None or not (launch.is_faster if self.by is None else self.by):
            return self.by_torch(*tensors)
        return self._launched(launch, buffers, arrays)

    def _launched(self, launch: _Launch, buffers: Buffers, arrays: Sequence[Array]) -> Any:
        assert launch.into is not None
        operands = arrays if self._is_plain else self._operands(arrays)
        if not launch.results:
            return self._called(operands)
        made = [
            self._new(spec) if number is None else self._buffer(buffers, number, spec)
            for number, spec in zip(self.buffers, launch.results, strict=True)
        ]
        launch.into(*operands, *[array for _, array in made])
        return tuple([tensor for tensor, _ in made]) if self.has_several else made[0][0]

    def _called(self, operands: Sequence[Array]) -> Any:
        """The results by a general call, which tuning sees, on operands of any layouts."""
        found = program_calls.call(self._key, operands, self.planned.group.program)
        tensors = tuple([self._torch.from_numpy(np.asarray(each)) for each in as_tuple(found)])
        return tensors if self.has_several else tensors[0]

    def _operands(self, arrays: Sequence[Array]) -> list[Array]:
        return [view.of(arrays[view.tensor]) for view in self._views]

    def _new(self, spec: TensorSpec) -> tuple[Tensor, Array]:
        tensor = self._torch.empty(spec.shape, dtype=getattr(self._torch, spec.dtype.name))
        return tensor, tensor.numpy()

    def _buffer(self, buffers: Buffers, number: int, spec: TensorSpec) -> tuple[Tensor, Array]:
        found = buffers[number]
        if found is None:
            found = buffers[number] = self._new(spec)
        return found

    def _prepared(
        self,
        layouts: Layouts,
        buffers: Buffers,
        tensors: Sequence[Tensor],
        arrays: Sequence[Array],
    ) -> _Launch:
        """The launch for operands of layouts that are new, or whose kernels are out of date."""
        generation, kept = invalidation.generation(), self._launches
        operands = self._operands(arrays)
        if not self._are_views(operands, arrays):
            return _BY_TORCH
        magnitude = tuple([n.bit_length() for array in arrays for n in array.shape])
        timing = self.timings.get(magnitude)
        if self.planned.is_symbolic and layouts not in self._seen:
            # Seen once, it may never come again: the general call knows all sizes of its family.
            self._seen.keep(layouts, True)
            launch, programs = _Launch(self._called), None if timing is None else timing.programs
        else:
            specs = tuple(map(spec_of, operands))
            planned = program_calls.made(
                (self._key, specs), lambda: self.planned.group.program(specs)
            )
            ready = ready_for(planned, np)
            launch = _Launch(ready.into, planned.results)
            programs = tuple([getattr(each, "program", each) for each in ready.served_by])
        timing = timing or self.timings.made(magnitude, Timing)
        if timing.ours is None or not _are_same(timing.programs, programs):
            self._time(timing, launch, buffers, tensors, arrays)
            timing.programs = programs
            self.generation += 1
        launch = replace(launch, is_faster=timing.is_ours)
        if generation == invalidation.generation() and (
            launch.results or not self.planned.is_symbolic
        ):
            kept.keep(layouts, launch)
        return launch

    def _are_views(self, operands: Sequence[Array], arrays: Sequence[Array]) -> bool:
        """Whether operands lie in the memory of the tensors, which layouts decide."""
        pairs = zip(operands, self._views, strict=True)
        return all(
            not view.steps or np.may_share_memory(operand, arrays[view.tensor])
            for operand, view in pairs
        )

    def _time(
        self,
        timing: Timing,
        launch: _Launch,
        buffers: Buffers,
        tensors: Sequence[Tensor],
        arrays: Sequence[Array],
    ) -> None:
        """Times both ways by turns; the first round of each is not counted."""
        ours, others = list[float](), list[float]()
        self._launched(launch, buffers, arrays)
        self.by_torch(*tensors)
        end = time.perf_counter() + _LONG
        while len(ours) < _LEAST_ROUNDS or (len(ours) < _ROUNDS and time.perf_counter() < end):
            begin = time.perf_counter()
            self._launched(launch, buffers, arrays)
            between = time.perf_counter()
            self.by_torch(*tensors)
            others.append(time.perf_counter() - between)
            ours.append(between - begin)
        timing.ours, timing.torch = min(ours), min(others)
        timing.first = timing.first or timing.ours


def _are_same(first: tuple[object, ...] | None, second: tuple[object, ...] | None) -> bool:
    if first is None or second is None:
        return first is second
    return len(first) == len(second) and all(a is b for a, b in zip(first, second, strict=True))
