"""The reference for outputs at sampled points, computed in float64.

Large problems cannot be run whole by the reference interpreter between two trials of a search, so
outputs are computed by the definition at some points: all of them for small problems, else a
random choice that includes the corners of the index space, where remainders of tiles lie.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from mdtensor.api.tuning.flat_buffer import Flat
from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.problem.problem import Computed, Problem, Read
from mdtensor.specs import epsilon, kind_of
from mdtensor.translate import reference
from mdtensor.translate.operations import Values
from mdtensor.translate.trees import evaluate, evaluated

# Points of the index space that are evaluated in all, and in one chunk.
_EVALUATIONS = 1 << 22
_CHUNK = 1 << 19
_FEWEST = 4  # points that are checked, however long the reductions are
_ROUNDED = {None: 0.0, "tf32": 2.0**-10}  # of a product, whose factors are both rounded


@dataclass(frozen=True, slots=True)
class Expected:
    """Per write: addresses, the values expected there, and the magnitude of the summands."""

    addresses: tuple[np.ndarray, ...]
    values: tuple[np.ndarray, ...]
    scale: tuple[float, ...]


def span(
    problem: Problem,
    accesses: Sequence[tuple[tuple[int, ...], Index | int, Sequence[Computed]]],
) -> tuple[int, int]:
    """Lowest and highest address of accesses (strides, offset, computed) over the index space."""
    low, high = 0, 0
    for strides, first, computed in accesses:
        offset = _number(first)
        reach = [s * (problem.extent(d) - 1) for d, s in enumerate(strides)]
        for part in computed:
            extent, stride = numbers((part.extent, part.stride))
            reach.append(stride * (extent - 1))
        low = min(low, offset + sum(min(0, r) for r in reach))
        high = max(high, offset + sum(max(0, r) for r in reach))
    return low, high


def numbers(strides: Sequence[object]) -> tuple[int, ...]:
    """Strides of a problem with fixed extents, as integers."""
    return tuple(getattr(stride, "constant", 0) or 0 for stride in strides)


def _number(value: Index | int) -> int:
    constant = as_index(value).constant
    assert constant is not None
    return constant


def random_values(rng: np.random.Generator, dtype: np.dtype, count: int) -> np.ndarray:
    """Random elements of a type: small integers, booleans, or reals around zero."""
    if dtype == np.bool_:
        return rng.random(count) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0, 7, count).astype(dtype)
    return (rng.random(count, dtype=np.float32) - np.float32(0.5)).astype(dtype)


def sampled_points(
    problem: Problem,
    rng: np.random.Generator,
    evaluations: int = _EVALUATIONS,
    fewest: int = _FEWEST,
) -> np.ndarray:
    """Sampled indices of the kept dims, one row per point."""
    extents = [problem.extent(d) for d in problem.kept]
    total = math.prod(extents)
    reduced = math.prod(problem.extent(d) for d in problem.contracted)
    count = max(fewest, evaluations // max(1, reduced * len(problem.reads)))
    flat = np.arange(total) if total <= count else np.unique(rng.integers(0, total, count))
    points = np.stack(np.unravel_index(flat, extents), axis=1) if extents else np.zeros((1, 0), int)
    if total > count:
        edges = [sorted({0, 1, n // 2, n - 2, n - 1} & set(range(n))) for n in extents]
        if math.prod(map(len, edges)) <= 4096:
            corners = np.array(list(itertools.product(*edges)))
            corners = rng.permutation(corners)[: 4 * count]
            points = np.concatenate([points, corners])
    return points.astype(np.int64)


def expected(
    problem: Problem,
    inputs: Sequence[Flat],
    rng: np.random.Generator,
    evaluations: int = _EVALUATIONS,
    fewest: int = _FEWEST,
) -> Expected:
    """The reference values at sampled points of the outputs, and everywhere along a scanned dim.

    The points are as many as take so many `evaluations` of the scalar function, and the `fewest`
    at least, beside some corners.
    """
    points = sampled_points(problem, rng, evaluations, fewest)
    extents = [problem.extent(d) for d in problem.contracted]
    grid = np.indices(extents).reshape(len(extents), -1) if extents else np.zeros((0, 1), int)
    rows = max(1, _CHUNK // grid.shape[1])
    chunks = [
        _evaluate(problem, inputs, points[start : start + rows], grid)
        for start in range(0, len(points), rows)
    ]
    count = len(problem.writes)
    values = tuple(np.concatenate([c[0][k] for c in chunks]).ravel() for k in range(count))
    scale = tuple(max(c[1][k] for c in chunks) for k in range(count))
    written = grid if problem.scanned >= 0 else grid[:, :1] * 0
    addresses = tuple(
        _places(problem, numbers(write.strides), points, written).ravel() + _number(write.offset)
        for write in problem.writes
    )
    return Expected(addresses, values, scale)


def _places(
    problem: Problem, strides: Sequence[int], points: np.ndarray, grid: np.ndarray
) -> np.ndarray:
    """The addresses of an access at points of the kept dims and of the combined dims."""
    steps = np.array(strides, np.int64)
    kept = points @ steps[list(problem.kept)]
    return kept[:, None] + (steps[list(problem.contracted)] @ grid)[None, :]


def _evaluate(
    problem: Problem, inputs: Sequence[Flat], points: np.ndarray, grid: np.ndarray
) -> tuple[list[np.ndarray], list[float]]:
    """The values at sampled points, and the magnitude of their summands."""
    indices = _indices(problem, points, grid)
    shape = (len(points), grid.shape[1])
    params: list[Values] = []
    for read in problem.reads:
        params.append(_read(problem, inputs, read, points, grid, params, indices))
    results = [np.asarray(r) for r in evaluated(problem.scalar.results, params, indices)]
    results = [np.broadcast_to(r, shape) for r in _inside(problem, results, params, indices)]
    scale = [_magnitude(r) for r in results]
    operator = problem.operator
    if operator is not None and problem.scanned >= 0:
        results = reference.scanned(operator, 1, results)
    elif operator is not None and problem.contracted:
        results, grid = reference.combined(operator, 1, results), grid[:, :1] * 0
    if problem.finish is None:
        return [np.asarray(r) for r in results], scale
    indices = _indices(problem, points, grid)
    params = [
        *results,
        *(_read(problem, inputs, r, points, grid, (), indices) for r in problem.finish.reads),
    ]
    done = [np.asarray(r) for r in evaluated(problem.finish.function.results, params, indices)]
    shape = (len(points), grid.shape[1])
    largest = max(1.0, *scale, *(largest_finite(np.asarray(p, np.float64)) for p in params))
    return [np.broadcast_to(r, shape) for r in done], [largest] * len(done)


def _inside(
    problem: Problem,
    results: Sequence[np.ndarray],
    params: Sequence[Values],
    indices: dict[str, Values],
) -> list[np.ndarray]:
    """Results with the operator's identity outside of the ranges that arrays give."""
    bounds = problem.bounds
    if bounds is None:
        return [*results]
    assert problem.operator is not None and problem.operator.identity is not None
    ends = evaluated((bounds.begin, bounds.end), params, indices)
    begin, end = (np.asarray(side, np.int64) for side in ends)
    index = np.asarray(indices[problem.labels[bounds.dim]], np.int64)
    counts = (begin <= index) & (index < end)
    return [
        np.where(counts, result, value)
        for result, value in zip(results, problem.operator.identity, strict=True)
    ]


def largest_finite(values: np.ndarray) -> float:
    """The largest finite magnitude, the scale of the tolerance for finite results."""
    return float(np.nan_to_num(np.abs(values), posinf=0.0).max(initial=0))


def _magnitude(values: np.ndarray) -> float:
    """The largest sum of absolute values along the combined dims."""
    finite = np.nan_to_num(values.astype(np.float64), posinf=0.0, neginf=0.0)
    return float(np.abs(finite).sum(axis=1).max(initial=0))


def _indices(problem: Problem, points: np.ndarray, grid: np.ndarray) -> dict[str, Values]:
    kept = {problem.labels[d]: points[:, n : n + 1] for n, d in enumerate(problem.kept)}
    combined = {problem.labels[d]: grid[n : n + 1] for n, d in enumerate(problem.contracted)}
    return {**kept, **combined}


def _read(
    problem: Problem,
    inputs: Sequence[Flat],
    read: Read,
    points: np.ndarray,
    grid: np.ndarray,
    params: Sequence[Values],
    indices: dict[str, Values],
) -> np.ndarray:
    stream = problem.streams[read.stream]
    places = _places(problem, numbers(stream.strides), points, grid) + _number(read.offset)
    for part in read.computed:
        extent, stride = numbers((part.extent, part.stride))
        index = np.asarray(evaluate(part.expr, params, indices)).astype(np.int64)
        index = np.clip(np.where(index < 0, index + extent, index), 0, extent - 1)
        places = places + index * stride
    flat = inputs[stream.buffer]
    return flat.memory[flat.origin + places]


def rounding(problem: Problem, want: Expected) -> float:
    """The tolerance for results of hardware that rounds factors to a lower precision.

    Errors of random factors add up as a random walk does: many have four times the length that
    all of them together would take one after the other, over the square root of their number.
    """
    terms = math.prod(problem.extent(d) for d in problem.contracted)
    return 4 * _ROUNDED[problem.scalar.precision] * max(want.scale) / math.sqrt(terms)


def mismatch(problem: Problem, outputs: Sequence[Flat], want: Expected) -> str:
    """The error in outputs against the reference, or an empty string."""
    terms = math.prod(problem.extent(d) for d in problem.contracted)
    rounded = rounding(problem, want)
    for write, addresses, values, scale, computed in zip(
        problem.writes,
        want.addresses,
        want.values,
        want.scale,
        problem.written_dtypes,
        strict=True,
    ):
        flat = outputs[write.buffer]
        got = flat.at(addresses)
        if kind_of(got.dtype) not in "fc":
            wrong = np.flatnonzero(got != values.astype(got.dtype))
            if len(wrong):
                first = wrong[0]
                return (
                    f"{len(wrong)} of {len(got)} values differ: {got[first]} is not {values[first]}"
                )
            continue
        resolution = epsilon(computed) if kind_of(computed) == "f" else 0.0
        tolerance = resolution * (4 + math.sqrt(terms)) * scale + rounded
        tolerance += epsilon(got.dtype) * largest_finite(values) * 2
        with np.errstate(invalid="ignore"):
            error = np.abs(got.astype(np.float64) - values)
        if not np.all((error <= tolerance) | (got == values) | (np.isnan(got) & np.isnan(values))):
            largest = np.fmax.reduce(error, initial=0.0)  # without warnings, whatever there is
            return f"error {largest:.3g} exceeds {tolerance:.3g} (or a value is missing)"
    return ""
