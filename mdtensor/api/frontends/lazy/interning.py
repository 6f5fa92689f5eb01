"""Interning of lazy expressions: equal expressions are built once.

Leaf n of a value is array n of the lazy array that has it, so that the same expression of other
arrays is the same value. What gave a value before gives that very one, so a look finds what
follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.translate import scalar
from mdtensor.translate.arithmetic import rounded
from mdtensor.translate.operations import MIRRORED, UFUNCS
from mdtensor.translate.scalar import Expr, apply
from mdtensor.translate.stencils import slices
from mdtensor.translate.stencils.slices import ArrayPart, FusedValue, Leaf
from mdtensor.translate.views import AffineIndex

_MOST, _LARGEST = 1024, 128  # values that are remembered, and nodes of what they are made of

# What NumPy's functions become where their arguments are lazy arrays.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}

Result = TypeVar("Result")


def register(functions: Mapping[Any, Callable[..., Any]]) -> None:
    """Registers implementations of NumPy's functions for lazy arrays."""
    FUNCTIONS.update(functions)


def _remembered(function: Callable[..., Result]) -> Callable[..., Result]:
    """Memoizes a function of values, unless its arguments are very large."""
    kept = lru_cache(_MOST)(function)

    def called(*arguments: Any) -> Result:
        size = sum([a.expr.size for a in arguments if type(a) is FusedValue])
        return kept(*arguments) if size <= _LARGEST else function(*arguments)

    return called


# Functions of expressions that give the same value for the same arguments.
transposed = _remembered(slices.transposed)
scanned = _remembered(slices.scanned)
stored = _remembered(slices.stored)
spread = _remembered(slices.spread)
reshaped = _remembered(slices.reshaped)


def of_scalar(value: scalar.Operand) -> Expr:
    """The node of a scalar; equal numbers share one, so that values of them are found by identity.

    Floats of 0.0 and complex numbers have signs that `==` does not see.
    """
    if type(value) is int or (type(value) is float and value):
        return _of_number(type(value), value)
    return scalar.as_expr(value)


@lru_cache(_MOST)
def _of_number(_: type, value: float) -> Expr:
    return scalar.weak(value)


@_remembered
def of_array(shape: tuple[int, ...], dtype: np.dtype) -> FusedValue:
    """The expression that reads an array as it is."""
    return slices.fused_from_source(Leaf(0, shape, dtype.newbyteorder("=")))


@_remembered
def combined(build: Callable[..., Expr], *operands: FusedValue | Expr) -> FusedValue:
    """An elementwise expression of operands; equal functions give equal expressions."""
    return slices.combined(operands, build)


@_remembered
def reduced(value: FusedValue, op: str, axes: tuple[int, ...], keepdims: bool) -> FusedValue:
    """The value reduced over axes by a named operator."""
    return slices.reduced(value, op, axes, keepdims=keepdims)


@_remembered
def assembled(
    shape: tuple[int, ...], places: tuple[tuple[AffineIndex, ...], ...], *values: FusedValue
) -> FusedValue:
    """An array assembled from values at given places."""
    return slices.assembled(shape, list(map(ArrayPart, places, values)))


def sliced(value: FusedValue, key: object) -> FusedValue:
    """The value under a basic index of NumPy."""
    items = [_hashable(item) for item in _listed(key)]
    if None in items:
        return slices.sliced(value, key)
    return _sliced(value, *items)


def _listed(key: object) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)


def _hashable(item: Any) -> tuple[Any, ...] | None:
    """A hashable key of a common index item; None for any other."""
    if type(item) is slice:
        parts = (item.start, item.stop, item.step)
        return parts if all(part is None or type(part) is int for part in parts) else None
    return (item,) if item is None or item is ... or type(item) is int else None


@_remembered
def _sliced(value: FusedValue, *items: tuple[Any, ...]) -> FusedValue:
    key = tuple([slice(*item) if len(item) == 3 else item[0] for item in items])
    return slices.sliced(value, key)


@_remembered
def renumbered(value: FusedValue, numbers: tuple[int, ...]) -> FusedValue:
    """The value with its leaves renumbered: `numbers[n]` in place of leaf n."""
    if numbers == tuple(range(len(numbers))):
        return value
    return slices.renumbered(value, numbers)


@_remembered
def in_order(value: FusedValue) -> tuple[FusedValue, tuple[int, ...]]:
    """The value with leaves renumbered in order of their first read, and the former numbers."""
    numbers = tuple([leaf.number for leaf in value.leaves])
    places = {number: place for place, number in enumerate(numbers)}
    return slices.renumbered(value, places), numbers


@dataclass(frozen=True, slots=True)
class OfUfunc:
    """One result of a ufunc as a function of elements, for the types of a given loop."""

    ufunc: np.ufunc
    taken: tuple[np.dtype, ...]
    made: np.dtype
    number: int

    def __call__(self, *elements: Expr) -> Expr:
        """The expression of the operands' elements."""
        # A number of Python's may lie beyond a type that it is compared with.
        compares = UFUNCS.get(self.ufunc) in MIRRORED
        converted = [
            x if compares and x.weak else scalar.cast(x, to)
            for x, to in zip(elements, self.taken, strict=True)
        ]
        found: Any = self.ufunc(*converted)
        return scalar.cast(found if self.ufunc.nout == 1 else found[self.number], self.made)


@lru_cache(_MOST)
def of_ufunc(ufunc: np.ufunc, given: Sequence[Any], weak: Sequence[bool]) -> tuple[OfUfunc, ...]:
    """The results of a ufunc for operand types; `weak` marks Python numbers.

    Raises TypeError where NumPy has none.
    """
    assert len(given) == len(weak)
    loop = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout))
    taken, made = loop[: ufunc.nin], loop[ufunc.nin :]
    return tuple([OfUfunc(ufunc, taken, dtype, n) for n, dtype in enumerate(made)])


@dataclass(frozen=True, slots=True)
class Converted:
    """A conversion of an element through a sequence of types."""

    dtypes: tuple[np.dtype, ...]

    def __call__(self, element: Expr) -> Expr:
        """The expression of the converted element."""
        for dtype in self.dtypes:
            element = scalar.cast(element, dtype)
        return element


@dataclass(frozen=True, slots=True)
class Divided:
    """A division of a sum by a count, for means."""

    count: int
    dtype: np.dtype

    def __call__(self, total: Expr) -> Expr:
        """The expression of the mean."""
        # Kernels multiply complex numbers, but do not divide them.
        is_complex = total.dtype.kind == "c" and self.count
        return scalar.cast(
            total * (1 / self.count) if is_complex else total / self.count, self.dtype
        )


@dataclass(frozen=True, slots=True)
class Rounded:
    """A rounding of an element to a number of decimals."""

    decimals: int

    def __call__(self, element: Expr) -> Expr:
        """The expression of the rounded element."""
        return scalar.cast(rounded(apply, element, self.decimals), element.dtype)
