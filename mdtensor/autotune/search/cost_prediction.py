"""Prediction of costs from measurements, by a Gaussian process over configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mdtensor.autotune.space.space import Space
from mdtensor.dataclass import dataclass
from mdtensor.lower.schedule.parameter import Value
from mdtensor.originals import original

Numbers: TypeAlias = NDArray[np.float64]

# Deviations of logarithms of times: of one measurement, and of a model at the least.
_NOISE, _LEAST = 0.02, 0.05
# Of more values of a parameter, several are taken to be the same.
_MOST_VALUES = 128
# Measurements count less the slower they are than the best: half at this logarithm.
_NEAR = 0.4
# Of what a model leaves open, the share that values of single parameters explain; the rest is of
# configurations that differ in few parameters, about so many.
_ALONE, _APART = 0.7, 2.5
# By how much costs may grow slower or faster than a model expects, by logarithms.
_SLOPE = 0.3
# Multiplications of a product of matrices that libraries leave to one thread.
_ALONE_IN_THREAD = 1 << 18

_einsum = original("numpy.einsum")


class Features:
    """Feature vectors of configurations; dot products measure similarity per parameter.

    Integers are the more alike the fewer doublings lie between them, other values not at all.
    """

    def __init__(self, space: Space) -> None:
        self.domains = space.domains
        self.names = tuple(self.domains)
        self._vectors = {name: _vectors_of(domain) for name, domain in self.domains.items()}

    def of(self, configuration: Mapping[str, Value]) -> Numbers:
        """The vector of a configuration."""
        return np.concatenate([self._vectors[name][configuration[name]] for name in self.names])


def _vectors_of(domain: Sequence[Value]) -> dict[Value, Numbers]:
    if len(domain) > _MOST_VALUES:
        return _vectors_of_many(domain)
    alike = np.array([[_likeness(one, other) for other in domain] for one in domain])
    factor = np.linalg.cholesky(alike + 1e-9 * np.eye(len(domain)))
    return dict(zip(domain, factor, strict=True))


def _vectors_of_many(domain: Sequence[Value]) -> dict[Value, Numbers]:
    """The vectors of a large domain: each value shares that of one of `_MOST_VALUES` samples."""
    few = [domain[n * (len(domain) - 1) // (_MOST_VALUES - 1)] for n in range(_MOST_VALUES)]
    vectors = [*_vectors_of(few).values()]
    last, most = len(domain) - 1, _MOST_VALUES - 1
    return {value: vectors[(n * most + last // 2) // last] for n, value in enumerate(domain)}


def _likeness(one: Value, other: Value) -> float:
    if one == other:
        return 1.0
    if type(one) is int and type(other) is int:
        less, more = sorted((abs(one), abs(other)))
        return (less + 1) / (more + 1)
    return 0.0


def product(one: Numbers, other: Numbers) -> Numbers:
    """A matrix product in row blocks small enough for BLAS to stay on one thread.

    For more, libraries wake threads, which would take turns with the compilers of a search.
    """
    step = max(1, _ALONE_IN_THREAD // other.size)
    parts = [one[n : n + step] @ other for n in range(0, len(one), step)]
    return np.concatenate(parts)


def whitening(matrix: Numbers) -> Numbers:
    """The inverse Cholesky factor W of a positive definite matrix M: WᵀW is the inverse of M.

    Computed row by row, so that BLAS stays on one thread: there are some hundred rows.
    """
    count = len(matrix)
    found = np.zeros((count, count))
    for n in range(count):
        row = _einsum("ij,j->i", found[:n, :n], matrix[n, :n])
        diagonal = np.sqrt(matrix[n, n] - _einsum("i,i->", row, row))
        found[n, :n] = -_einsum("i,ij->j", row, found[:n, :n]) / diagonal
        found[n, n] = 1 / diagonal
    return found


@dataclass(frozen=True, slots=True)
class Prediction:
    """A Gaussian process fitted to measurements, with a cost model as its mean.

    All costs are logarithms. Configurations are rows of features; what is `expected` of them has a
    place for each. How far the model errs is taken from the measurements.

    >>> from mdtensor.lower.schedule.parameter import SpaceParameter
    >>> space = Space([SpaceParameter("tile", (1, 2, 4, 8)), SpaceParameter("unroll", (1, 2, 4))])
    >>> features = Features(space)
    >>> def rows(*places): return np.array([features.of(dict(zip(("tile", "unroll"), place)))
    ...     for place in places])
    >>> measured = rows((1, 1), (2, 1), (4, 1), (1, 2))
    >>> known = Prediction.of(measured, np.zeros(4), [1.2, 1.0, 1.1, 1.5], 2)
    >>> costs, deviations = known.at(rows((2, 1), (2, 2), (8, 4)), np.zeros(3))
    >>> costs.round(1), bool(deviations[0] < deviations[1] < deviations[2])
    (array([1. , 1.3, 1.3]), True)
    """

    rows: Numbers
    expected: Numbers
    mean: float
    slope_at: float
    variance: float
    count: int
    whitening: Numbers
    weights: Numbers

    @staticmethod
    def of(
        rows: Numbers, expected: Numbers, costs: Sequence[float] | Numbers, count: int
    ) -> Prediction:
        """Fits the process to measurements; `count` is the number of parameters."""
        costs = np.asarray(costs, float)
        near = 1 / (1 + ((costs - costs.min()) / _NEAR) ** 2)
        errors = costs - expected
        mean = float(np.average(errors, weights=near))
        variance = max(_LEAST**2, float(np.average((errors - mean) ** 2, weights=near)))
        middle = float(np.average(expected, weights=near))
        learned = Prediction(rows, expected, mean, middle, variance, count, rows, costs)
        covariances = learned.covariances(rows, expected) + np.diag(_NOISE**2 / near)
        found = whitening(covariances)
        white = _einsum("ij,j->i", found, errors - mean)
        return replace(learned, whitening=found, weights=_einsum("ij,i->j", found, white))

    def covariances(self, rows: Numbers, expected: Numbers) -> Numbers:
        """Covariances of configurations with the measured ones, row by row."""
        alike = product(rows, self.rows.T)
        slopes = np.multiply.outer(expected - self.slope_at, self.expected - self.slope_at)
        apart = np.exp((alike - self.count) / _APART)
        found = self.variance * (_ALONE * alike / self.count + (1 - _ALONE) * apart)
        return found + _SLOPE**2 * slopes

    def at(self, rows: Numbers, expected: Numbers) -> tuple[Numbers, Numbers]:
        """Predicted costs of configurations, and their standard deviations."""
        shared = self.covariances(rows, expected)
        found = expected + self.mean + _einsum("ij,j->i", shared, self.weights)
        own = self.variance + (_SLOPE * (expected - self.slope_at)) ** 2
        left = own - np.sum(product(shared, self.whitening.T) ** 2, axis=1)
        return found, np.sqrt(np.maximum(left, 1e-8))
