"""Random combine operators, and what the scalar function must give them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdtensor.translate.combine import Operator, named
from mdtensor.translate.scalar import Expr, apply, param, select

_INTEGERS = ("i1", "i2", "i4", "i4", "i8", "u1", "u2", "u4", "u8")
_FLOATS = ("f4", "f4", "f4", "f8", "f2")
# Sums of as many elements as an index space has points stay exact.
_LIMITS = {"f2": 2, "f4": 50, "f8": 50, "c8": 100, "c16": 100}


@dataclass(frozen=True)
class Combining:
    """Operators on tuples of one kind, any of which may combine a dim.

    `limits` are the largest magnitudes of the tuple's elements before they are combined, `sums`
    those of what comes out. `exact` tells whether the elements must be exact. `mean` tells that
    the tuple is a sum and a count.
    """

    operators: tuple[Operator, ...]
    limits: tuple[float, ...]
    sums: tuple[float, ...]
    exact: bool = True
    mean: bool = False

    @property
    def dtypes(self) -> tuple[np.dtype, ...]:
        return self.operators[0].dtypes


def random_combining(rng: random.Random, points: int, *, several: bool) -> Combining:
    """Operators for an index space of at most so many points; `several` of them, or one."""
    if several:
        return _several(rng, points)
    kind = rng.choice(("named", "named", "named", "extremum", "order", "affine", "matrix", "mean"))
    match kind:
        case "named":
            return _named(rng, points)
        case "extremum":
            dtype = np.dtype(rng.choice((*_FLOATS, "i4", "u1", "i8")))
            held = 50 if dtype.kind == "f" else np.inf
            ordered, identity = rng.random() < 0.5, rng.random() < 0.6
            operator = extremum(dtype, rng.choice(("lt", "gt")), ordered=ordered, identity=identity)
            return Combining((operator,), (held, np.inf), (held, np.inf))
        case "order":
            dtypes = [np.dtype(rng.choice((*_INTEGERS, *_FLOATS, "?"))) for _ in range(2)]
            dtypes = dtypes[: rng.choice((1, 1, 2))]
            limits = _limits(dtypes)
            return Combining((either_end(dtypes, last=rng.random() < 0.5),), limits, limits)
        case "affine":
            dtype = np.dtype(rng.choice(("i4", "i8", "i2", "f4")))
            limits = (1, 50) if dtype.kind == "f" else (np.inf, np.inf)
            sums = (1, 50 * points) if dtype.kind == "f" else limits
            operator = composition(dtype, identity=rng.random() < 0.7)
            return Combining((operator,), limits, sums)
        case "matrix":
            operator = matrix_product(np.dtype(rng.choice(("i4", "u4", "i8"))))
            return Combining((operator,), (np.inf,) * 4, (np.inf,) * 4)
        case _:
            dtypes = (rng.choice(("f4", "f8")), "i4")
            limits = (50, 1)
            sums = (50 * points, points)
            return Combining((named("add", dtypes),), limits, sums, exact=False, mean=True)


def _named(rng: random.Random, points: int) -> Combining:
    if rng.random() < 0.08:
        dtypes: Sequence[str] = (rng.choice(("c8", "c16")),)
    elif rng.random() < 0.2:
        dtypes = [rng.choice((*_INTEGERS, *_FLOATS)) for _ in range(rng.choice((2, 2, 3)))]
    else:
        dtypes = (rng.choice((*_INTEGERS, *_FLOATS, *_FLOATS, "?")),)
    types = [np.dtype(dtype) for dtype in dtypes]
    names = ["add", "add", "add"]
    if all(dtype.kind != "c" for dtype in types):
        names += ["min", "max", "mul"]
    if all(dtype.kind in "biu" for dtype in types):
        names += ["and", "or", "xor"]
    name = rng.choice(names)
    operator = named(name, types)
    if rng.random() < 0.2:
        operator = replace(operator, identity=None)
    limits = tuple(1 if name == "mul" else limit for limit in _limits(types))
    sums = tuple(limit * (points if name == "add" else 1) for limit in limits)
    return Combining((operator,), limits, sums, exact=name == "mul")


def _several(rng: random.Random, points: int) -> Combining:
    count = rng.choice((1, 1, 2))
    types = [np.dtype(rng.choice((*_INTEGERS, "f4", "f4", "f4", "f8", "?"))) for _ in range(count)]
    choices = [named(name, types) for name in ("add", "min", "max")]
    choices.append(replace(named(rng.choice(("min", "add")), types), identity=None, name="bare"))
    choices.append(either_end(types, last=rng.random() < 0.5))
    if all(dtype.kind in "biu" for dtype in types):
        choices += [named("mul", types), named("xor", types)]
    limits = _limits(types)
    sums = tuple(limit * points for limit in limits)
    return Combining(tuple(rng.sample(choices, rng.randint(2, 3))), limits, sums)


def _limits(dtypes: Sequence[np.dtype]) -> tuple[float, ...]:
    return tuple(_LIMITS.get(dtype.str[1:], np.inf) for dtype in dtypes)


def _params(dtypes: Sequence[np.dtype]) -> tuple[list[Expr], list[Expr]]:
    count = len(dtypes)
    lhs = [param(n, dtype) for n, dtype in enumerate(dtypes)]
    return lhs, [param(count + n, dtype) for n, dtype in enumerate(dtypes)]


def extremum(dtype: np.dtype, better: str, *, ordered: bool, identity: bool) -> Operator:
    """The best value with its place: of equal ones the first in order, or the smallest place.

    Its identity is one for finite floats.
    """
    types = (dtype, np.dtype("i8"))
    (value, place), (other, its_place) = _params(types)
    takes = apply(better, other, value)
    if not ordered:
        takes = apply(
            "or", takes, apply("and", apply("eq", other, value), apply("lt", its_place, place))
        )
    results = (select(takes, other, value), select(takes, its_place, place))
    worst = float("-inf") if better == "gt" else float("inf")
    neutral = (worst, 1 << 62) if identity and dtype.kind == "f" else None
    return Operator(types, results, neutral, not ordered, "extremum")


def composition(dtype: np.dtype, *, identity: bool) -> Operator:
    """Affine maps x -> a x + b, the left one first."""
    (a, b), (c, d) = _params((dtype, dtype))
    return Operator((dtype, dtype), (a * c, b * c + d), (1, 0) if identity else None, False, "then")


def matrix_product(dtype: np.dtype) -> Operator:
    """Products of two by two matrices."""
    (a, b, c, d), (e, f, g, h) = _params((dtype,) * 4)
    results = (a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h)
    return Operator((dtype,) * 4, results, (1, 0, 0, 1), False, "matmul")


def either_end(dtypes: Sequence[np.dtype], *, last: bool) -> Operator:
    """The first element, or the last one: associative, without an identity."""
    ends = _params(dtypes)
    name = "last" if last else "first"
    return Operator(tuple(dtypes), tuple(ends[last]), None, False, name)
