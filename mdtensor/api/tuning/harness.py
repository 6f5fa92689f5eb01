"""The test harness of candidates: inputs, poisoned outputs, and the reference result."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mdtensor.api.tuning import verification
from mdtensor.api.tuning.flat_buffer import Flat
from mdtensor.backends.cuda.cuda_comparison import CudaComparison
from mdtensor.backends.host.aligned_memory import aligned_empty
from mdtensor.lower.problem.problem import Problem
from mdtensor.specs import epsilon, kind_of

_GUARD = 64  # elements around each output that must stay as they are
# Inputs of fewer bytes are there several times, and taken in turn.
_ROTATED_BYTES = 128 << 20
_COPIES = 3


def input_span(problem: Problem, number: int) -> tuple[int, int]:
    """The lowest and the highest address that a problem reads of an input."""
    streams = problem.streams
    accesses = [
        (verification.numbers(streams[read.stream].strides), read.offset, read.computed)
        for read in problem.all_reads
        if streams[read.stream].buffer == number
    ]
    return verification.span(problem, accesses)


def output_span(problem: Problem, number: int) -> tuple[int, int]:
    """The lowest and the highest address that a problem writes of an output."""
    accesses = [
        (verification.numbers(write.strides), write.offset, ())
        for write in problem.writes
        if write.buffer == number
    ]
    return verification.span(problem, accesses)


def guarded_outputs(problem: Problem) -> list[Flat]:
    """Memory for a problem's outputs, between guard elements."""
    outputs: list[Flat] = []
    for number, dtype in enumerate(problem.outputs):
        low, high = output_span(problem, number)
        memory = aligned_empty((high - low + 1 + 2 * _GUARD,), dtype)
        outputs.append(Flat(memory, _GUARD - low))
    return outputs


def poison(outputs: Sequence[Flat]) -> None:
    """Fills guarded outputs with a pattern that no kernel computes."""
    for flat in outputs:
        flat.fill(_poison(flat))


def wrote_outside(outputs: Sequence[Flat]) -> bool:
    """Whether a kernel wrote to the guards of poisoned outputs."""
    return any(bool(np.any(flat.ends(_GUARD) != _poison(flat))) for flat in outputs)


class TrialBuffers:
    """Host buffers of a trial: inputs of random values, outputs between guards."""

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        self.problem = problem
        rng = np.random.default_rng(seed)
        self.inputs = [self._input(number, rng) for number in range(len(problem.inputs))]
        self.outputs = guarded_outputs(problem)
        self.expected = verification.expected(problem, self.inputs, rng)
        self.whole: list[Any] | None = None

    def _input(self, number: int, rng: np.random.Generator) -> Flat:
        low, high = input_span(self.problem, number)
        memory = aligned_empty((high - low + 1,), self.problem.inputs[number])
        memory[:] = verification.random_values(rng, memory.dtype, len(memory))
        return Flat(memory, -low)

    def run_of(self, program: Any) -> Callable[[], None]:
        """A run of a program on the inputs and outputs."""
        return partial(program, *(flat.array for flat in (*self.inputs, *self.outputs)))

    def poison(self) -> None:
        """Fills the outputs with a pattern that no kernel computes."""
        poison(self.outputs)

    def wrong(self) -> str:
        """The error in the outputs, or an empty string."""
        if wrote_outside(self.outputs):
            return "wrote outside of its output"
        if self.whole is not None and not self._differs_from_before(self.whole):
            return ""
        if wrong := verification.mismatch(self.problem, self.outputs, self.expected):
            return wrong
        if self.whole is not None:
            return "elements between the sampled ones differ from another schedule's"
        self.whole = [flat.memory.copy() for flat in self.outputs]
        return ""

    def _differs_from_before(self, whole: Sequence[Any]) -> bool:
        """Whether any element differs from the first schedule that matched the reference."""
        for flat, before in zip(self.outputs, whole, strict=True):
            tolerance = 0.0
            if kind_of(flat.memory.dtype) in "fc":
                scale = max(self.expected.scale)
                tolerance = epsilon(flat.memory.dtype) * 8 * max(1.0, scale)
                tolerance += verification.rounding(self.problem, self.expected)
            if self._differs(flat, before, tolerance):
                return True
        return False

    def _differs(self, flat: Flat, before: Any, tolerance: float) -> bool:
        return flat.differs(before, tolerance)


def _poison(flat: Flat) -> int:
    return 0xFF if kind_of(flat.memory.dtype) == "f" else 0xA5


class CudaArena(TrialBuffers):
    """`TrialBuffers` in GPU memory; inputs that would fit in caches are rotated copies."""

    def __init__(self, problem: Problem, comparison: CudaComparison, seed: int = 0) -> None:
        super().__init__(problem, seed)
        self._comparison, cupy = comparison, comparison.cupy
        self.outputs = [_moved(flat, cupy) for flat in self.outputs]
        nbytes = sum(flat.memory.nbytes for flat in self.inputs)
        copies = range(_COPIES if nbytes < _ROTATED_BYTES else 1)
        sets = [[_moved(flat, cupy).array for flat in self.inputs] for _ in copies]
        self._sets = itertools.cycle(sets)

    def run_of(self, program: Any) -> Callable[[], None]:
        """A run of a program on the outputs and the next set of inputs."""
        outputs = [flat.array for flat in self.outputs]

        def run() -> None:
            program(*next(self._sets), *outputs)

        return run

    def _differs(self, flat: Flat, before: Any, tolerance: float) -> bool:
        return self._comparison.differ(flat.memory, before, tolerance)


def _moved(flat: Flat, cupy: Any) -> Flat:
    return Flat(cupy.asarray(flat.memory), flat.origin)
