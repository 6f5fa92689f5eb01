"""Columns: arrays of records and strings as arrays of numbers, which kernels can read.

A string becomes words of 32 bits, padded with zeros, so that equal strings have equal words, as
NumPy's have.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec

Path = tuple[str | int, ...]
WORD, CODE = np.dtype("u4"), np.dtype("i4")


@dataclass(frozen=True, slots=True)
class Column:
    """A number in every element of an array of records or strings.

    `path` leads from the element to it: names of fields, positions in sub-arrays. Where it ends at
    a string, `word` says which of its words it is. Or it is the string's code, equal to that of
    equal strings of a `peer`: of an operand, at a path (see `codes_of`).
    """

    path: Path = ()
    word: int | None = None
    peer: tuple[int, Path] | None = None


def column_dtype(dtype: np.dtype, column: Column) -> np.dtype:
    """The type of a column of an array, in native byte order."""
    if column.peer is not None:
        return CODE
    inner = reduce(part_dtype, column.path, dtype)
    return WORD if inner.kind in "SU" else inner.newbyteorder("=")


def part_dtype(dtype: np.dtype, step: str | int) -> np.dtype:
    """The type of a field, or of an element of a sub-array."""
    if isinstance(step, str):
        return dtype[step]
    shape = dtype.shape[1:]
    return np.dtype((dtype.base, shape)) if shape else dtype.base


def columns_of(array: np.ndarray, columns: Sequence[Column], *, apart: bool) -> list[np.ndarray]:
    """Extract columns, other than codes, as arrays of the array's shape.

    Numbers are views where they are aligned; strings are copied. With `apart`, all columns are
    contiguous copies, which are faster to read many times.

    >>> people = np.array([(1, b"Ann")], [("id", "<i8"), ("name", "S8")])
    >>> columns_of(people, [Column(("id",)), Column(("name",), 0)], apart=False)
    [array([1]), array([7237185], dtype=uint32)]
    """
    words: dict[Path, np.ndarray] = {}
    found: list[np.ndarray] = []
    for column in columns:
        values = at_path(array, column.path)
        if column.word is not None:
            if column.path not in words:
                words[column.path] = words_of(values)
            values = words[column.path][..., column.word]
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        found.append(np.ascontiguousarray(native).reshape(array.shape) if apart else native)
    return found


def at_path(array: np.ndarray, path: Path) -> np.ndarray:
    """The parts of all elements at a path; axes of sub-arrays come last."""
    values = array
    for step in path:
        values = (
            values[step] if isinstance(step, str) else values[(slice(None),) * array.ndim + (step,)]
        )
    return values


def word_count(dtype: np.dtype) -> int:
    """Number of 32-bit words of a string; at least one.

    >>> word_count(np.dtype("S10")), word_count(np.dtype("U10"))
    (3, 10)
    """
    return max(1, -(-dtype.itemsize // WORD.itemsize))


def word_spec(spec: TensorSpec) -> TensorSpec:
    """The spec of an array of strings as words.

    >>> word_spec(TensorSpec.of((5,), "S10"))
    uint32[5, 3]
    """
    return TensorSpec.of((*spec.shape, word_count(spec.dtype)), WORD)


def words_of(texts: np.ndarray) -> np.ndarray:
    """A copy of strings as words along a new last axis, which is outermost in memory.

    >>> words_of(np.array([b"Ann", b"Annegret"])).tolist()
    [[7237185, 0], [1701736001, 1952805479]]
    """
    count = word_count(texts.dtype)
    length = count * WORD.itemsize if texts.dtype.kind == "S" else count
    padded = texts.astype(f"{texts.dtype.kind}{length}", order="C").reshape(texts.size)
    by_word = np.ascontiguousarray(padded.view(WORD).reshape(texts.size, count).T)
    return np.moveaxis(by_word.reshape(count, *texts.shape), 0, -1)


def codes_of(lhs: np.ndarray, rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integer codes for strings of two arrays, equal where strings are; -1 for some without equal.

    >>> codes_of(np.array([b"Ann", b"Max"]), np.array([b"Max", b"Eve", b"Annegret"]))
    (array([0, 1], dtype=int32), array([ 1, -1, -1], dtype=int32))
    """
    if lhs.size > rhs.size:
        of_rhs, of_lhs = codes_of(rhs, lhs)
        return of_lhs, of_rhs
    few, many = _words_side_by_side(lhs, rhs)
    known, first, codes = np.unique(_mixed(few), return_index=True, return_inverse=True)
    if few.size and np.array_equal(few[:, first[codes]], few):
        place = np.minimum(np.searchsorted(known, _mixed(many)), len(known) - 1)
        found = np.where((few[:, first[place]] == many).all(axis=0), place, -1)
    else:
        # Different strings have one mixture; sorting them all is slow, but always right.
        _, both = np.unique(np.concatenate([few, many], axis=1), axis=1, return_inverse=True)
        codes, found = np.split(both.reshape(-1), [lhs.size])
    return codes.astype(CODE).reshape(lhs.shape), found.astype(CODE).reshape(rhs.shape)


def _words_side_by_side(lhs: np.ndarray, rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The words of two arrays of strings, padded to equal length; words come first."""
    length = max(lhs.dtype.itemsize, rhs.dtype.itemsize) // (4 if lhs.dtype.kind == "U" else 1)
    padded = (side.astype(f"{side.dtype.kind}{length}").reshape(-1) for side in (lhs, rhs))
    few, many = (words_of(side).T for side in padded)
    return few, many


def _mixed(words: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each string's words."""
    mixture = np.zeros(words.shape[1], np.uint64)
    for row in words:
        mixture = (mixture ^ row) * np.uint64(0x9E3779B97F4A7C15)
        mixture ^= mixture >> np.uint64(29)
    return mixture
