"""PlannedStep: a group of a compiled graph's nodes, run by mdtensor or by torch.

The two are timed by turns on the operands of the first call, and again where better kernels have
come; later calls run what took less time. That is the same for all nodes.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.torch_tensors import spec_of_tensor
from mdtensor.api.calls.executable import Executable
from mdtensor.api.calls.hot_calls import MISSED, HotCalls
from mdtensor.api.calls.launchers import telling
from mdtensor.api.calls.program_calls import is_watched, ready_for, suited
from mdtensor.api.engine import tuning_mode
from mdtensor.api.frameworks.call_text import computation_of, held_by_name, run
from mdtensor.api.frameworks.torch_graphs.call_group import OperandView
from mdtensor.api.frameworks.torch_graphs.graph_groups import PlannedCalls
from mdtensor.bounded import Bounded, pairs_of
from mdtensor.dataclass import dataclass

Tensor = Any
Buffers = list[Any]
"""Tensors for what lies between steps during one run; None until made."""
Shapes = tuple[tuple[int, ...], ...]

_MOST = 64  # shapes that are kept
_CALLS_UNTIL_KNOWN = 3  # by the built-in function of calls
# Rounds of timing, and seconds after which there is none more.
_LEAST_ROUNDS, _ROUNDS, _LONG = 2, 9, 0.03


@dataclass(slots=True)
class Timing:
    """Seconds of a step by mdtensor and by torch; None where not timed.

    `first` is what ours took when they were first timed: before any tuning that came later.
    """

    ours: float | None = None
    torch: float | None = None
    first: float | None = None
    kernels: tuple[object, ...] | None = None

    @property
    def is_ours(self) -> bool:
        """Whether mdtensor's kernels are at least as fast."""
        return self.ours is not None and (self.torch is None or self.ours <= self.torch)


class _Viewing:
    """A factory of an operand's view of tensors; one `as_strided` for known layouts.

    `python -m bench.torch_models` on GPUs, where the host is what takes time, is what it is for.
    """

    def __init__(self, view: OperandView) -> None:
        self._view = view
        self._known: tuple[Any, ...] = (None,) * 5

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor:
        """The view, or a copy where a view is impossible."""
        tensor = tensors[self._view.tensor]
        if not self._view.steps:
            return tensor
        shape, strides, viewed_shape, viewed_strides, offset = self._known
        if tensor.stride() == strides and tensor.shape == shape:
            first = tensor.storage_offset() + offset
            return tensor.as_strided(viewed_shape, viewed_strides, first)
        found = self._view.of(tensor)
        if found.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr():
            offset = found.storage_offset() - tensor.storage_offset()
            self._known = tensor.shape, tensor.stride(), found.shape, found.stride(), offset
        return found


class PlannedStep:
    """A function of buffers and tensors that computes a group of nodes. Thread-safe.

    `by_torch` computes the same by torch's functions, from the same tensors. `buffer` is the number
    of that of its result, None for results that are new tensors in each run.
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
        self.buffer: int | None = None
        views = planned.group.operands
        is_plain = views == tuple(map(OperandView, range(len(planned.sources))))
        self._views = () if is_plain else tuple(map(_Viewing, views))
        self._held = held_by_name(planned.group, planned.group.program)
        torch = importlib.import_module("torch")
        self._classes = (torch.Tensor, torch.nn.Parameter)
        # The built-in function of known calls, and what serves the one that it was told of.
        self._hot = HotCalls()
        self._served_by: tuple[object, ...] | None = None
        self._is_recording = torch.is_grad_enabled
        # Whether our kernels took no longer, by the shapes of operands where these are no numbers.
        self._is_faster = Bounded[Shapes, bool](_MOST)
        self._seen = Bounded[Shapes, bool](_MOST)
        self.__name__ = planned.group.label
        invalidation.register(self)

    def drop(self, is_stale: invalidation.IsStale) -> None:
        """Looks again at which kernels are chosen, where better ones replaced some."""
        if self.is_any(is_stale):
            self._is_faster = Bounded[Shapes, bool](_MOST)
        self._hot.drop(is_stale)
        if is_stale(self._served_by):
            self._served_by = None

    def is_any(self, is_stale: invalidation.IsStale) -> bool:
        """Whether any of its kernels are out of date."""
        return any(is_stale(timing.kernels) for _, timing in pairs_of(self.timings))

    def __call__(self, buffers: Buffers, *tensors: Tensor) -> Any:
        """The result, or a tuple of several."""
        if self._is_faster.get(()) if self.by is None else self.by:
            result = self._by_known_call(buffers, tensors)
            if result is not MISSED:
                return result
        if not all(type(tensor) in self._classes for tensor in tensors):
            return self.by_torch(*tensors)
        if invalidation.watchers and (is_watched() or tuning_mode.apart() is not None):
            return self._computed([None] * len(buffers), tensors)
        shapes = tuple([tensor.shape for tensor in tensors]) if self.planned.is_symbolic else ()
        is_faster = self._is_faster.get(shapes)
        if is_faster is None:
            is_faster = self._timed(shapes, buffers, tensors)
        if is_faster if self.by is None else self.by:
            return self._computed(buffers, tensors)
        return self.by_torch(*tensors)

    def _by_known_call(self, buffers: Buffers, tensors: Sequence[Tensor]) -> Any:
        """The result by the built-in function of known calls, or MISSED.

        `python -m bench.torch_models --device cuda` is what it is for: of tensors that operands
        view, no view is made.
        """
        quick = self._hot.call
        if quick is None:
            return MISSED
        if self.buffer is None:
            return quick(*tensors)
        found = buffers[self.buffer]
        return MISSED if found is None else quick(*tensors, out=found)

    def _computed(self, buffers: Buffers, tensors: Sequence[Tensor]) -> Any:
        """Run mdtensor's kernels, on tensors of any layouts."""
        result = self._by_known_call(buffers, tensors)
        if result is not MISSED:
            return result
        given = tensors
        if self._is_recording():
            given = [tensor.detach() for tensor in tensors]
        if self._views:
            given = [view(given) for view in self._views]
        out = None if self.buffer is None else buffers[self.buffer]
        options = {} if out is None else {"out": out}
        result = run(self._held.text, *given, **options)
        if self.buffer is None or options:
            self._add_known_call(tensors, options)
        else:
            buffers[self.buffer] = result
        return result

    def _add_known_call(self, tensors: Sequence[Tensor], options: Mapping[str, Any]) -> None:
        """Adds a call on tensors like these to the known ones, once for its kernels."""
        if self._served_by is not None or self.planned.is_symbolic:
            return
        generation, operands = invalidation.generation(), self.planned.group.operands
        ready = self._ready(tensors)
        self._served_by = ready.served_by
        begins: list[tuple[int, int]] = []
        for view in operands:
            tensor = tensors[view.tensor]
            found = view.of(tensor)
            if found.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr():
                return
            begins.append((view.tensor, found.data_ptr() - tensor.data_ptr()))
        launch = telling(ready.into if options else ready.new, ready.served_by)
        self._hot.add(tensors, options, launch, generation, begins)

    def _timed(self, shapes: Shapes, buffers: Buffers, tensors: Sequence[Tensor]) -> bool:
        """Whether mdtensor is at least as fast, timed for new shapes and after new kernels."""
        generation, kept = invalidation.generation(), self._is_faster
        if not self.planned.memory.is_timed():
            return False
        magnitude = tuple([n.bit_length() for tensor in tensors for n in tensor.shape])
        timing = self.timings.get(magnitude)
        if self.planned.is_symbolic and shapes not in self._seen:
            # Seen once, it may never come again: the general call knows all sizes of its family.
            self._seen.keep(shapes, True)
            kernels = None if timing is None else timing.kernels
        else:
            kernels = self._kernels(tensors)
        timing = timing or self.timings.made(magnitude, Timing)
        if timing.ours is None or not _are_same(timing.kernels, kernels):
            self._time(timing, buffers, tensors)
            timing.kernels = kernels
            self.generation += 1
        if generation == invalidation.generation():
            kept.keep(shapes, timing.is_ours)
        return timing.is_ours

    def _kernels(self, tensors: Sequence[Tensor]) -> tuple[object, ...]:
        """The kernels chosen now for operands like these."""
        return self._ready(tensors).served_by

    def _ready(self, tensors: Sequence[Tensor]) -> Executable:
        """The executable of the kernels that are chosen now for operands like these."""
        library = self.planned.memory.library
        views = [view.of(tensors[view.tensor]) for view in self.planned.group.operands]
        specs = tuple([spec_of_tensor("an operand", each) for each in views])
        program = suited(computation_of(self._held.text, specs), library)
        return ready_for(program, library)

    def _time(self, timing: Timing, buffers: Buffers, tensors: Sequence[Tensor]) -> None:
        """Times both ways, interleaved, after warm-up calls."""
        ours, others, seconds = list[float](), list[float](), self.planned.memory.seconds
        ways = partial(self._computed, buffers, tensors), partial(self.by_torch, *tensors)
        for _ in range(_CALLS_UNTIL_KNOWN):
            ways[0]()
        ways[1]()
        end = time.perf_counter() + _LONG
        while len(ours) < _LEAST_ROUNDS or (len(ours) < _ROUNDS and time.perf_counter() < end):
            ours.append(seconds(ways[0]))
            others.append(seconds(ways[1]))
        timing.ours, timing.torch = min(ours), min(others)
        timing.first = timing.first or timing.ours


def _are_same(first: tuple[object, ...] | None, second: tuple[object, ...] | None) -> bool:
    if first is None or second is None:
        return first is second
    pairs = zip(first, second, strict=True)
    return len(first) == len(second) and all(_program(a) is _program(b) for a, b in pairs)


def _program(kernel: object) -> object:
    return getattr(kernel, "program", kernel)
