"""The contractions as data: what is computed, on which shapes, and how fast it should be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bench.workload import Arrays, Workload
from mdtensor.specs import TensorSpec


@dataclass(frozen=True)
class Contraction(Workload):
    """A contraction of two operands.

    >>> case = Contraction("matmul", "ik,kj->ij", ((4, 5), (5, 6)))
    >>> case.outputs, case.reduction, case.flops
    ((float32[4, 6],), 5, 240)
    """

    name: str
    subscripts: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"
    floor: float | None = None
    limit_floor: float | None = None
    shared: bool = False

    words = ("mdtensor", "numpy", "opt_einsum", "torch", "jax")

    @property
    def formula(self) -> str:
        """The einsum string."""
        return self.subscripts

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The indices of each operand."""
        return tuple(self.subscripts.partition("->")[0].split(","))

    @cached_property
    def output(self) -> str:
        """The indices of the result."""
        return self.subscripts.partition("->")[2]

    @cached_property
    def extents(self) -> dict[str, int]:
        """The extent of every index; ValueError where string and shapes do not fit."""
        extents: dict[str, int] = {}
        for term, shape in zip(self.terms, self.shapes, strict=True):
            for index, extent in zip(term, shape, strict=True):
                if extents.setdefault(index, extent) != extent:
                    raise ValueError(f"{self.name}: index {index!r} has two extents")
        return extents

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Types and shapes of the operands."""
        return tuple(TensorSpec.of(shape, self.dtype) for shape in self.shapes)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Type and shape of the result."""
        return (TensorSpec.of([self.extents[index] for index in self.output], self.dtype),)

    @property
    def reduction(self) -> int:
        """The number of products summed for each element of the result."""
        return math.prod(n for index, n in self.extents.items() if index not in self.output)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * math.prod(self.extents.values())

    def drawn(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Normally distributed numbers; integers whose sums of products float64 holds exactly."""
        if np.issubdtype(self.dtype, np.integer):
            most = min(1000, np.iinfo(self.dtype).max)
            return [generator.integers(-most, most, shape, np.int64) for shape in self.shapes]
        if self.dtype == "float64":
            return [generator.standard_normal(shape) for shape in self.shapes]
        return [generator.standard_normal(shape, np.float32) for shape in self.shapes]

    def reference(self, operands: list[np.ndarray]) -> Arrays:
        """The result in float64; exact and wrapped around for integers."""
        wide = [operand.astype(np.float64, copy=False) for operand in operands]
        result = np.asarray(np.einsum(self.subscripts, *wide, optimize=True))
        if np.issubdtype(self.dtype, np.integer):
            return (result.astype(np.int64).astype(self.dtype),)
        return (np.asarray(result, order="C"),)


def matmul(
    m: int, n: int, k: int, dtype: str = "float32", floor: float | None = None, name: str = ""
) -> Contraction:
    name = name or f"matmul-{m}x{n}x{k}" + ("" if dtype == "float32" else f"-{dtype}")
    return Contraction(name, "ik,kj->ij", ((m, k), (k, n)), dtype, floor)


def _dot(n: int, label: str) -> Contraction:
    return Contraction(f"dot-{label}", "k,k->", ((n,), (n,)), "float32", 0.95, 0.85, shared=True)


def _matvec(n: int) -> Contraction:
    return Contraction(f"matvec-{n}", "ik,k->i", ((n, n), (n,)), "float32", 1.05, 0.85, shared=True)


# The case studies: 002, section 4.5; 003, figure 3. Sizes of matrix products are M×N×K.
CASE_STUDIES = (
    _dot(2**24, "2^24"),
    _dot(10**7, "10^7"),
    _matvec(4096),
    _matvec(8192),
    matmul(10, 500, 64),
    matmul(1024, 1024, 1024, floor=1.0),
    matmul(2048, 2048, 2048, floor=1.05),
    matmul(1024, 1024, 1024, "float64", floor=1.15),
    matmul(1, 1000, 2048, floor=1.05),
    matmul(16, 1000, 2048, floor=1.3),
    matmul(64, 800, 500, floor=1.15),
    matmul(333, 777, 513, floor=1.1),
    Contraction("matmulT-10x500x64", "ki,jk->ji", ((64, 10), (500, 64))),
    Contraction("bmatmul-16x10x500x64", "bik,bkj->bij", ((16, 10, 64), (16, 64, 500)), floor=1.3),
    matmul(256, 256, 256, "int32", floor=4.0),
    matmul(256, 256, 256, "int8", floor=4.0),
    matmul(256, 256, 256, "float16", floor=4.0),
)

_CCSDT_EXTENTS = dict(zip("abcdefg", (24, 16, 16, 24, 16, 16, 24), strict=True))
_CCSDT_INPUTS = (
    ("gdab", "efgc"),
    ("gdac", "efgb"),
    ("gdbc", "efga"),
    ("geab", "dfgc"),
    ("geac", "dfgb"),
    ("gebc", "dfga"),
    ("gfab", "degc"),
    ("gfac", "degb"),
    ("gfbc", "dega"),
)

# Coupled cluster: 002, figure 25; a…g as in 002, section 5.7.
CCSDT = tuple(
    Contraction(
        f"ccsdt-abcdef-{left}-{right}",
        f"{left},{right}->abcdef",
        tuple(tuple(_CCSDT_EXTENTS[index] for index in term) for term in (left, right)),
        floor=3.0,
    )
    for left, right in _CCSDT_INPUTS
)

# The matrix products of a siamese network, M×N×K: 002, table 6.
TABLE_6_SHAPES = (
    (50, 64, 500),
    (20, 576, 25),
    (20, 576, 1),
    (50, 64, 1),
    (500, 64, 50),
    (50, 500, 64),
    (20, 25, 576),
    (64, 500, 800),
    (64, 10, 500),
    (64, 500, 1),
    (64, 10, 1),
    (64, 2, 10),
    (64, 2, 1),
    (500, 800, 64),
    (64, 800, 500),
    (64, 500, 10),
    (10, 500, 64),
    (64, 10, 2),
    (2, 10, 64),
    (100, 500, 800),
    (100, 10, 500),
    (100, 500, 1),
    (100, 10, 1),
    (100, 2, 10),
    (100, 2, 1),
)
TABLE_6 = tuple(
    matmul(*shape, name=f"table6-{number:02}-{'x'.join(map(str, shape))}")
    for number, shape in enumerate(TABLE_6_SHAPES, start=1)
)

WORKLOADS = (*CASE_STUDIES, *CCSDT, *TABLE_6)
