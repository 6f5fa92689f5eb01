"""The check of a candidate in a user's call, against the trusted kernel on the same arrays.

Both write to memory of their own, poisoned and between guards. What the trusted kernel leaves
alone must stay poisoned, too; the rest has to be equal, or as near as rounding explains on these
very arrays. Where it is not equal, the definition is evaluated at some points besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.api.tuning import verification
from mdtensor.api.tuning.flat_buffer import Flat
from mdtensor.api.tuning.harness import (
    guarded_outputs,
    input_span,
    output_span,
    poison,
    wrote_outside,
)
from mdtensor.api.tuning.verification import Expected
from mdtensor.lower.problem.problem import Problem

Array = Any
Run = Callable[..., None]
# Evaluations of the scalar function for a reference, and points at least.
_EVALUATIONS, _FEWEST = 1 << 14, 1
# About what is taken, beside the runs, for each check, byte of an output and evaluation.
_CHECK_S, _BYTE_S, _EVALUATION_S = 1e-3, 3e-9, 20e-9
# Of two results, each is off by as much as rounding explains.
_BOTH = 2.0


class CallCheck:
    """A check of candidates on the arrays of a user's calls; `outputs` is for their results."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.outputs = guarded_outputs(problem)
        self._rng = np.random.default_rng(0)

    def inputs_of(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """The inputs among the arrays of a launch."""
        return arrays[: len(self.problem.inputs)]

    def run(self, candidate: Run, arrays: Sequence[Array]) -> None:
        """Runs a candidate on the inputs of a launch, into separate outputs."""
        candidate(*self.inputs_of(arrays), *[flat.array for flat in self.outputs])

    def wrong(self, trusted: Run, candidate: Run, arrays: Sequence[Array]) -> str:
        """The error in a candidate's results on these arrays, or an empty string."""
        inputs, theirs = self.inputs_of(arrays), guarded_outputs(self.problem)
        poison(theirs)
        trusted(*inputs, *[flat.array for flat in theirs])
        poison(self.outputs)
        self.run(candidate, arrays)
        if wrote_outside(self.outputs):
            return "wrote outside of its output"
        pairs = list(zip(self.outputs, theirs, strict=True))
        if all(_same_bytes(flat, other) for flat, other in pairs):
            return ""
        with np.errstate(all="ignore"):
            want = self._expected(inputs)
            if wrong := verification.mismatch(self.problem, self.outputs, want):
                return wrong
            for number, (flat, other) in enumerate(pairs):
                if flat.differs(other.memory, self._tolerance(number, want, other)):
                    return "differs from the kernel that is trusted"
        return ""

    def _expected(self, inputs: Sequence[Array]) -> Expected:
        """The reference results at some points, from the inputs of a call."""
        flats = [
            flat_of(array, dtype, *input_span(self.problem, number))
            for number, (array, dtype) in enumerate(zip(inputs, self.problem.inputs, strict=True))
        ]
        return verification.expected(self.problem, flats, self._rng, _EVALUATIONS, _FEWEST)

    def _tolerance(self, number: int, want: Expected, theirs: Flat) -> float:
        """The tolerance between two correct results, by the magnitude of the summands."""
        if theirs.memory.dtype.kind != "f":
            return 0.0
        low, high = output_span(self.problem, number)
        results = theirs.memory[theirs.origin + low : theirs.origin + high + 1]
        largest = verification.largest_finite(results)
        writes = zip(self.problem.writes, self.problem.written_dtypes, strict=True)
        computed = [dtype for write, dtype in writes if write.buffer == number]
        resolution = max([float(np.finfo(d).eps) for d in computed if d.kind == "f"], default=0.0)
        scale = max(*want.scale, largest)
        tolerance = resolution * (4 + math.sqrt(_terms(self.problem))) * scale
        tolerance += float(np.finfo(results.dtype).eps) * largest
        return _BOTH * (tolerance + verification.rounding(self.problem, want))


def seconds_of_check(problem: Problem) -> float:
    """The approximate seconds of a check, without the runs of both kernels."""
    evaluations = max(_EVALUATIONS, 5 * _FEWEST * _terms(problem) * len(problem.reads))
    return _CHECK_S + _BYTE_S * written_bytes(problem) + _EVALUATION_S * evaluations


def written_bytes(problem: Problem) -> int:
    """The total bytes from the first to the last that a problem writes in each output."""
    return _bytes_of(problem, problem.outputs, output_span)


def read_bytes(problem: Problem) -> int:
    """The total bytes from the first to the last that a problem reads of each input."""
    return _bytes_of(problem, problem.inputs, input_span)


def _bytes_of(
    problem: Problem,
    dtypes: Sequence[np.dtype],
    span: Callable[[Problem, int], tuple[int, int]],
) -> int:
    spans = [span(problem, number) for number in range(len(dtypes))]
    sizes = zip(spans, dtypes, strict=True)
    return sum((high - low + 1) * dtype.itemsize for (low, high), dtype in sizes)


def flat_of(array: Array, dtype: np.dtype, low: int, high: int) -> Flat:
    """A read-only view of an array's memory between two addresses, in elements from its first."""
    first, nbytes = array.__array_interface__["data"][0], (high - low + 1) * dtype.itemsize
    memory = np.asarray(_Memory(array, first + low * dtype.itemsize, nbytes))
    return Flat(memory.view(dtype), -low)


class _Memory:
    """Raw bytes at an address, kept alive by an array."""

    def __init__(self, array: Array, address: int, nbytes: int) -> None:
        self.array = array
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, True),
        }


def _same_bytes(flat: Flat, other: Flat) -> bool:
    return bool((flat.memory.view(np.uint8) == other.memory.view(np.uint8)).all())


def _terms(problem: Problem) -> int:
    return math.prod(problem.extent(d) for d in problem.contracted)
