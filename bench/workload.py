"""What all cases have in common: operands, a reference, and what counts as a right result."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mdtensor.backends.host.aligned_memory import aligned_empty
from mdtensor.specs import TensorSpec

SEED = 2002

# A computation on arrays that stay the same; it returns an array, or a tuple of several.
Call = Callable[[], Any]
Arrays = tuple[np.ndarray, ...]
# Arrays for the results; None where each call makes its result.
Outs = tuple[np.ndarray, ...] | tuple[None, ...]

# The calls of mdtensor that are compared: a plan that writes into `out`, and the public function
# of a case beyond einsum.
PLAN = "plan"
CALL = "call"


class Workload(ABC):
    """A case: what is computed on which arrays, and how fast it should be.

    - `formula`: what is computed, in a line.
    - `words`: the libraries that can say it, as `engines.Library.word` calls them.
    - `inputs`, `outputs`: types and shapes of operands and results.
    - `reduction`: the number of values that make up each element of a result.
    - `flops`: operations on elements.
    - `floor`: the least accepted ratio to the best peer; `limit_floor`: to the limit.
    - `shared`: bound by memory. How fast it can be read depends on where a process got its pages,
      so all engines read the same arrays in one process.
    """

    name: str
    formula: str
    words: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    reduction: int
    flops: int
    floor: float | None
    limit_floor: float | None
    shared: bool

    @abstractmethod
    def drawn(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Operands, for the same generator always the same."""

    @abstractmethod
    def reference(self, operands: list[np.ndarray]) -> Arrays:
        """The results, floating-point ones in float64."""

    @property
    def bytes_read(self) -> int:
        """Bytes of the operands."""
        return sum(spec.nbytes for spec in self.inputs)

    @property
    def bytes_written(self) -> int:
        """Bytes of the results."""
        return sum(spec.nbytes for spec in self.outputs)

    @property
    def is_small(self) -> bool:
        """Whether overheads matter: less than a million operations."""
        return self.flops < 1_000_000

    @property
    def tolerance(self) -> float:
        """Accepted error, relative to an element plus the typical size of all elements."""
        floats = [spec.dtype for spec in self.outputs if spec.dtype.kind == "f"]
        epsilon = max((float(np.finfo(dtype).eps) for dtype in floats), default=0.0)
        return 4 * epsilon * math.sqrt(self.reduction)

    def operands(self) -> list[np.ndarray]:
        """The operands, the same in every process, on 64-byte boundaries for every engine alike."""
        drawn = self.drawn(np.random.default_rng(SEED))
        return [
            _aligned(array.astype(spec.dtype, copy=False))
            for array, spec in zip(drawn, self.inputs, strict=True)
        ]

    def empty_outputs(self) -> Arrays:
        """Results that every correct engine overwrites: NaN, or the least integer."""
        made = tuple(aligned_empty(spec.shape, spec.dtype) for spec in self.outputs)
        for array in made:
            poison(array)
        return made

    def no_outputs(self) -> tuple[Any, ...]:
        """None for every result: calls make theirs."""
        return (None,) * len(self.outputs)

    def error(self, results: Any, references: Arrays) -> float:
        """The largest error, measured as `tolerance` is.

        NaN, infinities, wrong shapes and wrong integers count as infinite.
        """
        found = results if isinstance(results, tuple) else (results,)
        if len(found) != len(references):
            return math.inf
        pairs = zip(found, references, strict=True)
        return max(_error(np.asarray(result), expected) for result, expected in pairs)


def poison(array: np.ndarray) -> None:
    """Fills a result with what no computation gives: NaN, or the least integer."""
    array.fill(np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).min)


def _error(result: np.ndarray, reference: np.ndarray) -> float:
    if result.shape != reference.shape:
        return math.inf
    if reference.dtype.kind != "f":
        return 0.0 if np.array_equal(result, reference) else math.inf
    worst, scale = 0.0, float(np.sqrt(np.mean(np.square(reference, dtype=np.float64))))
    # In pieces: temporaries of a large result would fill the memory.
    for got, expected in zip(_pieces(result), _pieces(reference), strict=True):
        difference = np.abs(got.astype(np.float64) - expected)
        relative = float(np.max(difference / (np.abs(expected.astype(np.float64)) + scale)))
        worst = max(worst, relative if math.isfinite(relative) else math.inf)
    return worst


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    flat = np.ascontiguousarray(array).reshape(-1)
    for start in range(0, flat.size, 1 << 22):
        yield flat[start : start + (1 << 22)]


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins at a cache line, wherever the allocator would have put it."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
