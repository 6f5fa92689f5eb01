"""Ragged batches: how they are made, and what they show of themselves."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import DTypeError, IndexingError, MdtensorError, ShapeError

ARRAYS = [np.arange(6.0).reshape(3, 2), np.empty((0, 2)), np.ones((1, 2))]


def test_a_list_of_arrays() -> None:
    r = mdt.ragged(ARRAYS)
    np.testing.assert_array_equal(r.values, np.concatenate(ARRAYS))
    assert r.offsets.tolist() == [0, 3, 3, 4]
    assert r.lengths.tolist() == [3, 0, 1]
    assert (len(r), r.ndim, r.dtype, repr(r)) == (3, 3, np.float64, "Ragged(3, 0..3, 2; float64)")
    for one, other in zip(r, ARRAYS, strict=True):
        np.testing.assert_array_equal(one, other)


def test_sequences_are_views() -> None:
    r = mdt.ragged(ARRAYS)
    r[0][1, 0] = 70
    assert r.values[1, 0] == 70
    assert np.shares_memory(r[-1], r.values)
    assert ARRAYS[0][1, 0] == 2  # a list is copied
    values = np.arange(5)
    assert mdt.ragged(values, [0, 2, 5]).values is values


def test_slices_are_batches() -> None:
    r = mdt.ragged(ARRAYS)
    part = r[1:]
    assert part.offsets.tolist() == [0, 0, 1]
    assert np.shares_memory(part.values, r.values)
    assert (len(r[5:]), len(r[2:1]), len(r[:0].values)) == (0, 0, 0)


def test_padding() -> None:
    r = mdt.ragged(ARRAYS)
    dense = r.padded(-1)
    assert dense.shape == (3, 3, 2)
    for n, one in enumerate(ARRAYS):
        np.testing.assert_array_equal(dense[n, : len(one)], one)
        assert (dense[n, len(one) :] == -1).all()
    assert mdt.ragged(np.empty((0, 4)), [0]).padded().shape == (0, 0, 4)


def test_lists_of_numbers() -> None:
    r = mdt.ragged([[1, 2], [], [3]])
    assert r.dtype == np.int64
    assert r.values.tolist() == [1, 2, 3]
    assert (len(mdt.ragged([])), mdt.ragged([]).dtype) == (0, np.float64)
    assert mdt.ragged([[], []]).lengths.tolist() == [0, 0]
    assert mdt.ragged([[], np.ones((2, 3))]).values.shape == (2, 3)
    assert mdt.ragged([np.ones(2, "f4"), np.ones(1, "f8")]).dtype == np.float64


def test_other_values_of_the_same_lengths() -> None:
    r = mdt.ragged(ARRAYS)
    other = r.with_values(np.arange(4))
    assert other.offsets is r.offsets
    assert other[0].tolist() == [0, 1, 2]
    with pytest.raises(ShapeError, match="3 values for sequences of 4 in all"):
        r.with_values(np.arange(3))


def test_offsets_are_copied_and_kept() -> None:
    offsets = np.array([0, 2, 5], np.uint16)
    r = mdt.ragged(np.arange(5), offsets)
    offsets[1] = 4
    assert r.offsets.tolist() == [0, 2, 5]
    with pytest.raises(ValueError, match="read-only"):
        r.offsets[1] = 4


@pytest.mark.parametrize(
    ("error", "said", "given"),
    [
        (ShapeError, "offsets run from 1 to 5 for 5 values", ([1] * 5, [1, 5])),
        (ShapeError, "offsets run from 0 to 6 for 5 values", ([1] * 5, [0, 6])),
        (ShapeError, "offsets fall from 4 to 2 at 2", ([1] * 5, [0, 4, 2, 5])),
        (ShapeError, "offsets have shape (0,)", ([1] * 5, [])),
        (ShapeError, "offsets have shape (1, 2)", ([1] * 5, [[0, 5]])),
        (ShapeError, "offsets has no axis: 5", ([1] * 5, 5)),
        (ShapeError, "values has no axis: 5", (5, [0, 5])),
        (ShapeError, "array 1 has no axis: 2", ([[1], 2],)),
        (ShapeError, "array 0 is a list that is no array", ([[[1], [2, 3]]],)),
        (ShapeError, "arrays of shapes (2, 2) and (2, 3)", ([np.ones((2, 2)), np.ones((2, 3))],)),
        (DTypeError, "offsets are float64, not integers", ([1] * 5, [0, 2.5, 5])),
        (DTypeError, "ndarray without offsets is no list", (np.ones((2, 3)),)),
        (DTypeError, "int without offsets is no list", (5,)),
        (DTypeError, "a ragged batch is given to ragged", (mdt.ragged([[1]]),)),
        (DTypeError, "values is a masked array", (np.ma.masked_equal([1, 2], 1), [0, 2])),
    ],
)
def test_what_is_no_batch(error: type[MdtensorError], said: str, given: Any) -> None:
    with pytest.raises(error, match=re.escape(said)):
        mdt.ragged(*given)


def test_indices_that_are_none() -> None:
    r = mdt.ragged(ARRAYS)
    with pytest.raises(IndexingError, match="there is no sequence 3 among 3"):
        r[3]
    with pytest.raises(IndexingError, match="step 2 of a slice of sequences"):
        r[::2]
    with pytest.raises(IndexingError, match="is no number of a sequence"):
        r[0, 1]


def test_numpy_takes_it_for_no_array() -> None:
    r = mdt.ragged([[1.0], [2.0]])
    with pytest.raises(DTypeError, match="a ragged batch is no array"):
        np.asarray(r)
    with pytest.raises(TypeError):
        np.ones(2) * r  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize(
    "call",
    [
        lambda r: mdt.compile(mdt.einsum, "bt->b", r),
        mdt.logsumexp,
        mdt.layer_norm,
        mdt.sum,
        lambda r: mdt.tensordot(r, r),
        mdt.grad(lambda x: mdt.einsum("bt->", x)),
        lambda r: mdt.vjp(lambda x: mdt.einsum("bt->", x), r),
        lambda r: mdt.einsum("bt->b", r, memory_limit="1MB"),
        lambda r: mdt.einsum("bt->b", r, devices="all"),
        mdt.lazy,
        lambda r: mdt.correlate(r, np.ones(2)),
        lambda r: mdt.conv(r, np.ones((1, 1, 2))),
        lambda r: mdt.tune(mdt.compile(mdt.einsum, "bt->b", r)),
    ],
)
def test_other_calls_refuse_batches(call: Any) -> None:
    with pytest.raises(DTypeError, match="ragged batch"):
        call(mdt.ragged([[1.0], [2.0]]))
