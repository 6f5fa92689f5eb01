"""The cases as data: what is computed, on which shapes, and how fast it should be."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdtensor.backends.memory import aligned_empty

SEED = 2002


@dataclass(frozen=True)
class Workload:
    """A contraction of two operands.

    `floor` is the least accepted ratio to the best peer, `limit_floor` the least accepted share of
    the limit. `shared` cases are bound by memory: how fast it can be read depends on where a
    process got its pages, so all engines read the same arrays in one process.

    >>> case = Workload("matmul", "ik,kj->ij", ((4, 5), (5, 6)))
    >>> case.output_shape, case.reduction, case.flops
    ((4, 6), 5, 240)
    """

    name: str
    subscripts: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"
    floor: float | None = None
    limit_floor: float | None = None
    shared: bool = False

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
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(self.extents[index] for index in self.output)

    @property
    def reduction(self) -> int:
        """The number of products summed for each element of the result."""
        return math.prod(n for index, n in self.extents.items() if index not in self.output)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * math.prod(self.extents.values())

    @property
    def bytes_read(self) -> int:
        """Bytes of the operands."""
        return sum(math.prod(shape) for shape in self.shapes) * np.dtype(self.dtype).itemsize

    @property
    def bytes_written(self) -> int:
        """Bytes of the result."""
        return math.prod(self.output_shape) * np.dtype(self.dtype).itemsize

    @property
    def is_small(self) -> bool:
        """Whether overheads matter: less than a million operations."""
        return self.flops < 1_000_000

    @property
    def tolerance(self) -> float:
        """Accepted error, relative to an element plus the typical size of all elements."""
        if not np.issubdtype(self.dtype, np.floating):
            return 0.0
        return 4 * float(np.finfo(self.dtype).eps) * math.sqrt(self.reduction)

    def operands(self) -> list[np.ndarray]:
        """The operands, the same in every process, on 64-byte boundaries for every engine alike."""
        generator = np.random.default_rng(SEED)
        if np.issubdtype(self.dtype, np.integer):
            # Sums of products stay exact in float64, which computes the reference.
            most = min(1000, np.iinfo(self.dtype).max)
            drawn = [generator.integers(-most, most, shape, np.int64) for shape in self.shapes]
        elif self.dtype == "float64":
            drawn = [generator.standard_normal(shape) for shape in self.shapes]
        else:
            drawn = [generator.standard_normal(shape, np.float32) for shape in self.shapes]
        return [_aligned(array.astype(self.dtype, copy=False)) for array in drawn]

    def empty_output(self) -> np.ndarray:
        """A result that every correct engine overwrites: NaN, or the least integer."""
        dtype = np.dtype(self.dtype)
        poison = np.nan if dtype.kind == "f" else np.iinfo(dtype).min
        return _aligned(np.full(self.output_shape, poison, dtype))

    def reference(self, operands: list[np.ndarray]) -> np.ndarray:
        """The result in float64; exact and wrapped around for integers."""
        wide = [operand.astype(np.float64, copy=False) for operand in operands]
        result = np.asarray(np.einsum(self.subscripts, *wide, optimize=True))
        if np.issubdtype(self.dtype, np.integer):
            return result.astype(np.int64).astype(self.dtype)
        return np.asarray(result, order="C")

    def error(self, result: np.ndarray, reference: np.ndarray) -> float:
        """The largest error, measured as `tolerance` is; NaN and infinities count as infinite."""
        if result.shape != reference.shape:
            return math.inf
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


def _matmul(
    m: int, n: int, k: int, dtype: str = "float32", floor: float | None = None, name: str = ""
) -> Workload:
    name = name or f"matmul-{m}x{n}x{k}" + ("" if dtype == "float32" else f"-{dtype}")
    return Workload(name, "ik,kj->ij", ((m, k), (k, n)), dtype, floor)


def _dot(n: int, label: str) -> Workload:
    return Workload(f"dot-{label}", "k,k->", ((n,), (n,)), "float32", 0.95, 0.85, shared=True)


def _matvec(n: int) -> Workload:
    return Workload(f"matvec-{n}", "ik,k->i", ((n, n), (n,)), "float32", 1.05, 0.85, shared=True)


# The case studies: 002, section 4.5; 003, figure 3. Sizes of matrix products are M×N×K.
CASE_STUDIES = (
    _dot(2**24, "2^24"),
    _dot(10**7, "10^7"),
    _matvec(4096),
    _matvec(8192),
    _matmul(10, 500, 64),
    _matmul(1024, 1024, 1024, floor=1.0),
    _matmul(2048, 2048, 2048, floor=1.05),
    _matmul(1024, 1024, 1024, "float64", floor=1.15),
    _matmul(1, 1000, 2048, floor=1.05),
    _matmul(16, 1000, 2048, floor=1.3),
    _matmul(64, 800, 500, floor=1.15),
    _matmul(333, 777, 513, floor=1.1),
    Workload("matmulT-10x500x64", "ki,jk->ji", ((64, 10), (500, 64))),
    Workload("bmatmul-16x10x500x64", "bik,bkj->bij", ((16, 10, 64), (16, 64, 500)), floor=1.3),
    _matmul(256, 256, 256, "int32", floor=4.0),
    _matmul(256, 256, 256, "int8", floor=4.0),
    _matmul(256, 256, 256, "float16", floor=4.0),
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
    Workload(
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
    _matmul(*shape, name=f"table6-{number:02}-{'x'.join(map(str, shape))}")
    for number, shape in enumerate(TABLE_6_SHAPES, start=1)
)

WORKLOADS = (*CASE_STUDIES, *CCSDT, *TABLE_6)


def selected(pattern: str | None) -> list[Workload]:
    """The cases whose name fits a pattern, or contains it; all cases for None."""
    if pattern is None:
        return list(WORKLOADS)
    patterns = [part.strip() for part in pattern.split(",")]
    return [
        w
        for w in WORKLOADS
        if any(fnmatch.fnmatchcase(w.name, part) or part in w.name for part in patterns)
    ]
