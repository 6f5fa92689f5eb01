"""The reference at sampled points: what a problem's outputs must hold, computed in float64.

Large problems cannot be run whole by the reference interpreter between two trials of a search, so
outputs are computed by the definition at some points: all of them for small problems, else a
random choice that includes the corners of the index space, where remainders of tiles lie.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdtensor.lower.problem import Problem
from mdtensor.translate.scalar import Values, evaluate

# Points of the index space that are evaluated in all, and in one chunk.
_EVALUATIONS = 1 << 22
_CHUNK = 1 << 19


@dataclass(frozen=True, slots=True)
class Flat:
    """A buffer's elements as one-dimensional memory, and where its element 0 lies in it."""

    memory: np.ndarray
    origin: int

    @property
    def array(self) -> np.ndarray:
        """The memory from element 0 on: what a kernel takes."""
        return self.memory[self.origin :]


@dataclass(frozen=True, slots=True)
class Expected:
    """Per write: addresses in its buffer, the values there, and the size of the summands."""

    addresses: tuple[np.ndarray, ...]
    values: tuple[np.ndarray, ...]
    scale: tuple[float, ...]


def span(problem: Problem, accesses: Sequence[tuple[tuple[int, ...], int]]) -> tuple[int, int]:
    """Lowest and highest address of accesses (strides, offset) over the index space."""
    low, high = 0, 0
    for strides, offset in accesses:
        reach = [s * (problem.extent(d) - 1) for d, s in enumerate(strides)]
        low = min(low, offset + sum(min(0, r) for r in reach))
        high = max(high, offset + sum(max(0, r) for r in reach))
    return low, high


def numbers(strides: Sequence[object]) -> tuple[int, ...]:
    """Strides of a problem with fixed extents, as integers."""
    return tuple(getattr(stride, "constant", 0) or 0 for stride in strides)


def random_values(rng: np.random.Generator, dtype: np.dtype, count: int) -> np.ndarray:
    """Random elements of a type: small integers, booleans, or reals around zero."""
    if dtype == np.bool_:
        return rng.random(count) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0, 7, count).astype(dtype)
    return (rng.random(count, dtype=np.float32) - np.float32(0.5)).astype(dtype)


def sampled_points(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """Indices of the kept dims, one row a point."""
    extents = [problem.extent(d) for d in problem.kept]
    total = math.prod(extents)
    reduced = math.prod(problem.extent(d) for d in problem.contracted)
    count = max(64, _EVALUATIONS // max(1, reduced))
    flat = np.arange(total) if total <= count else np.unique(rng.integers(0, total, count))
    points = np.stack(np.unravel_index(flat, extents), axis=1) if extents else np.zeros((1, 0), int)
    if total > count:
        edges = [sorted({0, 1, n // 2, n - 2, n - 1} & set(range(n))) for n in extents]
        if math.prod(map(len, edges)) <= 4096:
            corners = np.array(list(itertools.product(*edges)))
            points = np.concatenate([points, corners])
    return points.astype(np.int64)


def expected(problem: Problem, inputs: Sequence[Flat], rng: np.random.Generator) -> Expected:
    """The reference at sampled points of the outputs."""
    points = sampled_points(problem, rng)
    extents = [problem.extent(d) for d in problem.contracted]
    grid = np.indices(extents).reshape(len(extents), -1) if extents else np.zeros((0, 1), int)
    rows = max(1, _CHUNK // grid.shape[1])
    chunks = [
        _evaluate(problem, inputs, points[start : start + rows], grid)
        for start in range(0, len(points), rows)
    ]
    values = tuple(np.concatenate([c[0][k] for c in chunks]) for k in range(len(problem.writes)))
    scale = tuple(max(c[1][k] for c in chunks) for k in range(len(problem.writes)))
    addresses = tuple(
        points @ np.array([numbers(w.strides)[d] for d in problem.kept], np.int64).reshape(-1)
        + w.offset
        for w in problem.writes
    )
    return Expected(addresses, values, scale)


def _evaluate(
    problem: Problem, inputs: Sequence[Flat], points: np.ndarray, grid: np.ndarray
) -> tuple[list[np.ndarray], list[float]]:
    params: list[Values] = []
    for read in problem.reads:
        stream = problem.streams[read.stream]
        strides = np.array(numbers(stream.strides), np.int64)
        kept = points @ strides[list(problem.kept)]
        reduced = strides[list(problem.contracted)] @ grid
        flat = inputs[stream.buffer]
        params.append(flat.memory[flat.origin + read.offset + kept[:, None] + reduced[None, :]])
    results = [np.asarray(evaluate(r, params)) for r in problem.scalar.results]
    shape = (len(points), grid.shape[1])
    results = [np.broadcast_to(r, shape) for r in results]
    scale = [float(np.abs(r.astype(np.float64)).sum(axis=1).max(initial=0)) for r in results]
    operator = problem.operator
    while operator is not None and results[0].shape[1] > 1:
        odd = results[0].shape[1] % 2
        last = [r[:, -1:] for r in results]
        even = [r[:, : r.shape[1] - odd] for r in results]
        combined = operator([r[:, ::2] for r in even], [r[:, 1::2] for r in even])
        results = [np.asarray(r) for r in combined]
        if odd:
            results = [np.concatenate([r, x], axis=1) for r, x in zip(results, last, strict=True)]
    return [r[:, 0] for r in results], scale


def mismatch(problem: Problem, outputs: Sequence[Flat], want: Expected) -> str:
    """What is wrong with outputs, or an empty string."""
    terms = math.prod(problem.extent(d) for d in problem.contracted)
    for write, addresses, values, scale, computed in zip(
        problem.writes,
        want.addresses,
        want.values,
        want.scale,
        problem.scalar.result_dtypes,
        strict=True,
    ):
        flat = outputs[write.buffer]
        got = flat.memory[flat.origin + addresses]
        if got.dtype.kind not in "fc":
            wrong = np.flatnonzero(got != values.astype(got.dtype))
            if len(wrong):
                first = wrong[0]
                return (
                    f"{len(wrong)} of {len(got)} values differ: {got[first]} is not {values[first]}"
                )
            continue
        resolution = float(np.finfo(computed).eps) if computed.kind == "f" else 0.0
        tolerance = resolution * (4 + math.sqrt(terms)) * scale
        tolerance += float(np.finfo(got.dtype).eps) * float(np.abs(values).max(initial=0)) * 2
        error = np.abs(got.astype(np.float64) - values)
        if not np.all(error <= tolerance):
            return f"error {np.nanmax(error):.3g} exceeds {tolerance:.3g} (or a value is missing)"
    return ""
