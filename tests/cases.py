"""One list of einsum cases for every test, their operands, and the tolerance of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mdtensor.specs import as_dtype

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEXES = ("complex64", "complex128")
DTYPES = ("bool", *INTS, *FLOATS, *COMPLEXES)


@dataclass(frozen=True, slots=True)
class Case:
    """An einsum string, and the shapes of its operands."""

    text: str
    shapes: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        return f"{self.text}[{';'.join('x'.join(map(str, shape)) for shape in self.shapes)}]"


def case(text: str, *shapes: tuple[int, ...]) -> Case:
    return Case(text, shapes)


CASES = (
    # sums, traces, copies
    case("i->", (17,)),
    case("i->", (1,)),
    case("ij->", (5, 7)),
    case("ij->i", (5, 7)),
    case("ij->j", (5, 7)),
    case("ijk->j", (3, 5, 2)),
    case("ii->", (7, 7)),
    case("ii", (3, 3)),
    case("iij->j", (3, 3, 4)),
    case("ijij->", (2, 3, 2, 3)),
    case("bbcdc->d", (1, 1, 3, 1, 3)),
    # element by element, outer
    case(",->", (), ()),
    case("i,i->i", (13,), (13,)),
    case("i,j->ij", (5,), (3,)),
    case("i,j->ji", (5,), (3,)),
    case(",ij->ji", (), (2, 3)),
    case("i,ij->ij", (4,), (4, 5)),
    case("ij,ij,ij->ij", (3, 4), (3, 4), (3, 4)),
    # inner products, matrix times vector
    case("i,i->", (31,), (31,)),
    case("ij,ij->", (4, 6), (4, 6)),
    case("ij,ji->", (4, 6), (6, 4)),
    case("ij,j->i", (7, 11), (11,)),
    case("ij,i->j", (7, 11), (7,)),
    case("ii,i->i", (5, 5), (5,)),
    # matrix products
    case("ij,jk->ik", (7, 5), (5, 3)),
    case("ij,jk->ki", (7, 5), (5, 3)),
    case("ji,jk->ik", (5, 7), (5, 3)),
    case("ij,kj->ik", (7, 5), (3, 5)),
    case("ji,kj->ik", (5, 7), (3, 5)),
    case("ij,jk->ik", (1, 33), (33, 2)),
    case("ij,jk->ik", (17, 1), (1, 19)),
    case("ij,jk", (2, 3), (3, 4)),
    case("bij,bjk->bik", (3, 4, 5), (3, 5, 2)),
    case("bij,jk->bik", (3, 4, 5), (5, 2)),
    case("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    # tensor contractions
    case("ijk,jil->kl", (3, 4, 5), (4, 3, 2)),
    case("abcd,cd->ab", (2, 3, 4, 2), (4, 2)),
    case("efbc,adce->abdf", (2, 3, 4, 2), (3, 5, 2, 2)),
    case("abcd,aecf->bfed", (2, 3, 2, 4), (2, 3, 2, 5)),
    case("ij,jk,kl->il", (3, 4), (4, 5), (5, 2)),
    case("ea,fb,abcd,gc,hd->efgh", (2, 3), (3, 2), (3, 2, 4, 2), (2, 4), (3, 2)),
    case("a,ab,abc->abc", (2,), (2, 3), (2, 3, 4)),
    case("ab,ab,cd,cd->ac", (2, 3), (2, 3), (3, 2), (3, 2)),
    # ellipsis, broadcasting
    case("...", (2, 3)),
    case("...i->...", (2, 3, 4)),
    case("i...->...", (2, 3, 4)),
    case("...i,...i", (2, 3, 4), (4,)),
    case("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    case("ij...,j...->i...", (1, 2), (2, 2, 1)),
    case("...lmn,lmno->...o", (1, 2, 3, 2), (2, 3, 2, 2)),
    case("ik,k...->i...", (4, 3), (3, 2)),
    case("ij,ij->j", (10, 2), (1, 2)),
    case("i,i", (2,), (1,)),
    case("ijp,ipq,ikq->ijk", (3, 1, 1), (3, 1, 3), (1, 3, 3)),
    # nothing there
    case("i->", (0,)),
    case("ij,jk->ik", (3, 0), (0, 2)),
    case("ij,jk->ik", (0, 3), (3, 2)),
    case("i,j->ij", (0,), (3,)),
    case("i,i->i", (0,), (1,)),
)


def operands(case: Case, dtype: object, seed: int = 0) -> list[np.ndarray]:
    """Operands of a case: all integers of the type, or floats within [-1, 1]."""
    rng = np.random.default_rng(seed)
    return [values(rng, shape, dtype) for shape in case.shapes]


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: object) -> np.ndarray:
    """A random array; integers take every value, so that sums wrap around."""
    kind = as_dtype(dtype)
    if kind == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    real = rng.uniform(-1, 1, shape)
    return (real + 1j * rng.uniform(-1, 1, shape) if kind.kind == "c" else real).astype(kind)


def tolerance(dtype: object, terms: int, largest: float = 1.0) -> float:
    """The absolute error allowed for a sum of `terms` products that are at most `largest`.

    Twice the bound for a sum in any order in the type of the result, float16 accumulated in
    float32, and one rounding of the result; 0 for integers and bool.
    """
    kind = as_dtype(dtype)
    if kind.kind in "iub":
        return 0.0
    rounding = float(np.finfo(kind).eps)
    accumulated = float(np.finfo(np.float32).eps) if kind == np.float16 else rounding
    return 2 * largest * max(terms, 1) * (accumulated * (terms + 2) + rounding)


def close(result: Any, expected: Any, terms: int = 64) -> None:
    """Equal in shape and type, and in value up to rounding."""
    expected = np.asarray(expected)
    assert (np.shape(result), np.asarray(result).dtype) == (expected.shape, expected.dtype)
    wide = expected.astype(np.float64) if expected.dtype.kind == "f" else expected
    atol = tolerance(expected.dtype, terms, 4.0)
    np.testing.assert_allclose(result, wide, rtol=atol, atol=atol)
