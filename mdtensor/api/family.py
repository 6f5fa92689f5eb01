"""Families of calls: what follows from a string, types and numbers of axes alone is found once.

On arrays in C order whose axes have two elements or more, every size that a kernel takes, an
extent or a stride, is a product of the string's extents. Of which ones, a translation tells of
arrays whose extents are different primes. So the first call on a new shape need not be translated:
it multiplies extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdtensor.api import modes, statistics
from mdtensor.api.engine import Engine, Structures
from mdtensor.api.launch import Launch, scalar_result, single_launch
from mdtensor.api.operands import allocator
from mdtensor.api.prepare import Prepared, prepare
from mdtensor.lower.generalised import generalised
from mdtensor.lower.problem import Problem, problem_from_md_hom
from mdtensor.specs import TensorSpec
from mdtensor.translate.views import AffineIndex

Array = Any

_PRIMES = (37, 41, 43, 47, 53, 59, 61, 67, 71)
# The numbers of a complex one, which come after all extents.
_HALVES = 2
# Numbers of the extents that a size is the product of.
Factors = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """Calls of one string on contiguous operands of given types and numbers of axes.

    `axes` has the number of the extent of every axis of every operand; `sizes`, `shape` and
    `strides` are those of the structure and of the result.
    """

    text: str
    dtypes: tuple[np.dtype, ...]
    axes: tuple[tuple[int, ...], ...]
    count: int
    engine: Engine
    structure: Structures
    sizes: tuple[Factors, ...]
    dtype: np.dtype
    shape: tuple[Factors, ...]
    strides: tuple[Factors, ...]

    @classmethod
    def of(cls, text: str, operands: Sequence[Array], engine: Engine) -> Family | None:
        """The family of a call that was right, on operands that are typical.

        None where it takes several kernels, copies of operands, sums as indices, an index twice in
        an operand or very many indices, and where some size is no product.
        """
        dtypes = tuple([operand.dtype for operand in operands])
        called = _prepared(text, [operand.shape for operand in operands], dtypes)
        if not called.is_single or len(operands) > 2:  # how more are contracted, extents decide
            return None
        md_hom = called.steps[0].md_hom
        if len(md_hom.dims) > len(_PRIMES):
            return None
        numbers = {dim.name: number for number, dim in enumerate(md_hom.dims)}
        axes: list[tuple[int, ...]] = []
        for access in md_hom.inp_view:
            names = [name for axis in access.index for name in axis.dims]
            if access.index != tuple(map(AffineIndex.of, names)) or len(set(names)) < len(names):
                return None
            axes.append(tuple([numbers[name] for name in names]))
        told = _prepared(text, [[_PRIMES[n] for n in numbers] for numbers in axes], dtypes)
        general, sizes = generalised(problem_from_md_hom(told.steps[0].md_hom))
        result = told.result
        found = [_factors(size) for size in (*sizes, *result.shape, *result.strides)]
        products = [factors for factors in found if factors is not None]
        if len(products) < len(found):
            return None
        end, count = len(sizes), len(result.shape)
        return cls(
            text,
            dtypes,
            tuple(axes),
            len(numbers),
            engine,
            engine.structure(general),
            tuple(products[:end]),
            result.dtype,
            tuple(products[end : end + count]),
            tuple(products[end + count :]),
        )

    def launch(self, operands: Sequence[Array]) -> Launch | None:
        """What runs a call on a new shape; None where its `md_hom` is needed, or it is wrong."""
        extents = self.extents(operands)
        if extents is None:
            return None
        shapes = [operand.shape for operand in operands]
        program = self.engine.at_once(
            self.structure,
            self.sizes_of(extents),
            lambda: self._problem(shapes),
            use_store=modes.current_mode() != "off",
        )
        if program is None:
            return None
        make = allocator(self.result_of(extents), np)
        tally = statistics.tally(statistics.GENERATED, self.dtype)
        launch = single_launch(program.launcher(), make, tally, len(operands))
        return launch if self.shape else scalar_result(launch)

    def extents(self, operands: Sequence[Array]) -> list[int] | None:
        """The string's extents, or None where operands contradict each other."""
        extents = [*[0] * self.count, _HALVES]
        for operand, numbers in zip(operands, self.axes, strict=True):
            for number, extent in zip(numbers, operand.shape, strict=True):
                if extents[number] not in (0, extent):
                    return None
                extents[number] = extent
        return extents

    def sizes_of(self, extents: Sequence[int]) -> tuple[int, ...]:
        """The values of the structure's sizes."""
        return tuple([_product(extents, factors) for factors in self.sizes])

    def result_of(self, extents: Sequence[int]) -> TensorSpec:
        """The spec of the result."""
        shape = tuple([_product(extents, factors) for factors in self.shape])
        strides = tuple([_product(extents, factors) for factors in self.strides])
        return TensorSpec(self.dtype, shape, strides)

    def _problem(self, shapes: Sequence[Sequence[int]]) -> Problem:
        return problem_from_md_hom(_prepared(self.text, shapes, self.dtypes).steps[0].md_hom)


def is_typical(array: np.ndarray) -> bool:
    """Whether an array lies in C order without gaps, and each axis has two elements or more."""
    flags = array.flags
    return flags.c_contiguous and flags.aligned and min(array.shape, default=2) > 1


def _prepared(text: str, shapes: Sequence[Sequence[int]], dtypes: Sequence[np.dtype]) -> Prepared:
    specs = [TensorSpec.of(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    return prepare(text, specs)


def _factors(size: int) -> Factors | None:
    """The numbers of the primes that a size is the product of; None where it is none.

    >>> _factors(37 * 43 * 43), _factors(1), _factors(2 * 37), _factors(3)
    ((0, 2, 2), (), (-1, 0), None)
    """
    found: list[int] = []
    for number, prime in ((-1, _HALVES), *enumerate(_PRIMES)):
        while size % prime == 0:
            size //= prime
            found.append(number)
    return tuple(found) if size == 1 else None


def _product(extents: Sequence[int], factors: Factors) -> int:
    product = 1
    for number in factors:
        product *= extents[number]
    return product
