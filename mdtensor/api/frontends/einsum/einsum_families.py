"""Families of einsum calls: on a new shape, kernel sizes are products of its extents.

On arrays in C or Fortran order whose axes have two elements or more, every size that a kernel
takes, an extent or a stride, is a product of the string's extents. Of which ones, a translation
tells of arrays whose extents are different primes. So the first call on a new shape need not be
translated: it multiplies extents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import ordered_allocator
from mdtensor.api.calls import statistics
from mdtensor.api.calls.launchers import Launch, scalar_result, single_launch
from mdtensor.api.engine import tuning_mode
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.generic_kernels import Reference
from mdtensor.api.engine.kernel_choice import Kernels
from mdtensor.api.frontends.einsum.einsum_planner import Prepared, ordered_strides, prepare
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.specs import TensorSpec, contiguous_strides
from mdtensor.translate.views import AffineIndex

Array = Any

# Bits of `flags.num`: in C order without gaps and aligned, and the same for Fortran's.
_IN_C_ORDER, _IN_FORTRAN_ORDER = 0x101, 0x102
_PRIMES = (37, 41, 43, 47, 53, 59, 61, 67, 71)
# The numbers of a complex one, which come after all extents.
_HALVES = 2
# Of a result that is made at once.
_MOST_ELEMENTS = 2**48
# The axes, counted over all operands, whose extents a size is the product of.
Factors = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """Calls of one string on contiguous operands of given types, numbers of axes and orders.

    `equal` are pairs of axes, counted over all operands, whose extents are one of the string's.
    `products` are the structure's sizes, so many as are `sized`, and behind them the extents of the
    result, whose axes lie in memory in this order; `axes` says where each of its axes is there.
    """

    text: str
    dtypes: tuple[np.dtype, ...]
    orders: tuple[str, ...]
    engine: Engine
    structure: Reference[Kernels]
    equal: tuple[tuple[int, int], ...]
    products: tuple[Factors, ...]
    sized: int
    axes: tuple[int, ...]
    dtype: np.dtype
    tally: statistics.Tally

    @classmethod
    def of(cls, text: str, operands: Sequence[Array], engine: Engine) -> Family | None:
        """The family of a valid call, on operands that have an order (see `order_of`).

        None where it takes several kernels, copies of operands, sums as indices, an index twice in
        an operand or very many indices, and where some size is no product.
        """
        dtypes = tuple([operand.dtype for operand in operands])
        orders = tuple([order_of(operand) or "" for operand in operands])
        called = _prepared(text, [operand.shape for operand in operands], dtypes, orders)
        if not called.is_single or len(operands) > 2:  # how more are contracted, extents decide
            return None
        md_hom = called.steps[0].md_hom
        if len(md_hom.dims) > len(_PRIMES):
            return None
        numbers = {dim.name: number for number, dim in enumerate(md_hom.dims)}
        axes: list[list[int]] = []
        for access in md_hom.inp_view:
            names = [name for axis in access.index for name in axis.dims]
            if access.index != tuple(map(AffineIndex.of, names)) or len(set(names)) < len(names):
                return None
            axes.append([numbers[name] for name in names])
        primes = [[_PRIMES[n] for n in of_operand] for of_operand in axes]
        told = _prepared(text, primes, dtypes, orders)
        general, sizes = generalised(problem_from_md_hom(told.steps[0].md_hom))
        shape, strides = told.result.shape, told.result.strides
        inwards = sorted(range(len(shape)), key=lambda axis: -strides[axis])
        in_memory = [shape[axis] for axis in inwards]
        if [strides[axis] for axis in inwards] != [*contiguous_strides(in_memory)]:
            return None
        flat = [n for of_operand in axes for n in of_operand]
        found = [_factors(size, flat) for size in (*sizes, *in_memory)]
        products = [factors for factors in found if factors is not None]
        if len(products) < len(found):
            return None
        return cls(
            text,
            dtypes,
            orders,
            engine,
            Reference(engine.structure(general), engine.structure),
            tuple([(flat.index(n), axis) for axis, n in enumerate(flat) if flat.index(n) < axis]),
            tuple(products),
            len(sizes),
            tuple([inwards.index(axis) for axis in range(len(shape))]),
            told.result.dtype,
            statistics.tally(statistics.GENERATED, told.result.dtype),
        )

    def launch(self, operands: Sequence[Array]) -> Launch | None:
        """The launch on a new shape; None where extents contradict or its `md_hom` is needed."""
        shapes = [operand.shape for operand in operands]
        values = self.values_of(shapes)
        if values is None:
            return None
        sizes, shape = values[: self.sized], values[self.sized :]
        if math.prod(shape) > _MOST_ELEMENTS:
            return None
        program = self.engine.at_once(
            self.structure(),
            sizes,
            lambda: self._problem(shapes),
            use_store=tuning_mode.uses_store(),
        )
        if program is None:
            return None
        make = ordered_allocator(shape, self.axes, self.dtype)
        launch = single_launch(program.launcher(), make, self.tally, len(operands))
        return launch if shape else scalar_result(launch)

    def values_of(self, shapes: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
        """The products for operands of some shapes, or None where these contradict each other."""
        flat = [extent for shape in shapes for extent in shape]
        for first, again in self.equal:
            if flat[first] != flat[again]:
                return None
        flat.append(_HALVES)
        values: list[int] = []
        for factors in self.products:
            product = 1
            for axis in factors:
                product *= flat[axis]
            values.append(product)
        return tuple(values)

    def _problem(self, shapes: Sequence[Sequence[int]]) -> Problem:
        prepared = _prepared(self.text, shapes, self.dtypes, self.orders)
        return problem_from_md_hom(prepared.steps[0].md_hom)


def order_of(array: np.ndarray) -> str | None:
    """The order, C or F, of an array without gaps whose axes have two elements or more; or None.

    >>> order_of(np.ones((3, 4))), order_of(np.ones((3, 4)).T), order_of(np.ones((3, 1)))
    ('C', 'F', None)
    """
    flags = array.flags.num
    if min(array.shape, default=2) < 2:
        return None
    if flags & _IN_C_ORDER == _IN_C_ORDER:
        return "C"
    return "F" if flags & _IN_FORTRAN_ORDER == _IN_FORTRAN_ORDER else None


def _prepared(
    text: str,
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[np.dtype],
    orders: Sequence[str],
) -> Prepared:
    specs = [
        TensorSpec.of(shape, dtype, ordered_strides(shape, order))
        for shape, dtype, order in zip(shapes, dtypes, orders, strict=True)
    ]
    return prepare(text, specs)


def _factors(size: int, numbers: Sequence[int]) -> Factors | None:
    """The axes whose extents have the given product; None where no axes do.

    `numbers` are those of the axes' primes. The number 2 counts as an axis behind all others.

    >>> [_factors(size, (1, 0, 1)) for size in (37 * 41 * 41, 1, 2 * 37, 3)]
    [(1, 0, 0), (), (3, 1), None]
    """
    found: list[int] = []
    for axis, factor in (
        (len(numbers), _HALVES),
        *((numbers.index(n), _PRIMES[n]) for n in sorted({*numbers})),
    ):
        while size % factor == 0:
            size //= factor
            found.append(axis)
    return tuple(found) if size == 1 else None
