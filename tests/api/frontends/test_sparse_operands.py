"""Sparse arrays of scipy as operands of `einsum` and `reduce`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import mdtensor as mdt
from mdtensor.api.calls import program_calls
from mdtensor.errors import DTypeError, SubscriptError, TranslationError
from mdtensor.lower.problem.data_bounds import with_bounds
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.problem.scatter_pattern import selection_of
from mdtensor.translate import reference
from mdtensor.translate.md_hom import MDHom

RNG = np.random.default_rng(5)
FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
SHAPES = ((23, 41), (41, 23), (1, 9), (9, 1), (1, 1))
EXTENTS = {"k": 3, "l": 5}
STRINGS = (
    *("ij,j->i", "ij,i->j", "ij,jk->ik", "ij,jk->ki", "ij,kj->ik", "ij->i", "ij->j", "ij->"),
    *("ij,i,j->", "ij,i,j->i", "ij,jk,kl->il", "ij,jk,ik->", "ij,jk,ik->k", "ij,k->i"),
)


def random(shape: tuple[int, ...], dtype: Any = "f8", density: float = 0.3) -> np.ndarray:
    """A dense array with many zeros."""
    values = RNG.integers(1, 9, shape) + RNG.random(shape) * (np.dtype(dtype).kind in "fc")
    return (values * (RNG.random(shape) < density)).astype(dtype)


def others(text: str, shape: tuple[int, ...], dtype: Any = "f8") -> list[np.ndarray]:
    extents = {**EXTENTS, "i": shape[0], "j": shape[1]}
    terms = text.partition("->")[0].split(",")[1:]
    return [random(tuple(extents[n] for n in term), dtype, 1.0) for term in terms]


def absent_as(dense: np.ndarray, value: float) -> np.ndarray:
    return np.where(dense != 0, dense, value)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("text", STRINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_of_products(text: str, shape: tuple[int, int]) -> None:
    dense = random(shape)
    given = others(text, shape)
    expected = np.einsum(text, dense, *given)
    for form in ("csr", "csc", "coo"):
        for kind in ("array", "matrix"):
            sparse = getattr(scipy.sparse, f"{form}_{kind}")(dense)
            np.testing.assert_allclose(mdt.einsum(text, sparse, *given), expected, rtol=1e-12)
            np.testing.assert_allclose(mdt.reduce(text, sparse, *given), expected, rtol=1e-12)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format(form: str) -> None:
    dense, x = random((23, 41)), RNG.random(41)
    sparse = getattr(scipy.sparse, f"{form}_array")(dense)
    np.testing.assert_allclose(mdt.einsum("ij,j->i", sparse, x), dense @ x, rtol=1e-12)
    np.testing.assert_allclose(mdt.einsum("ki,ij->kj", np.eye(23), sparse), dense, rtol=1e-12)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("form", ["csr", "coo"])
def test_types_are_those_of_dense_arrays(dtype: str, form: str) -> None:
    dense = random((23, 41), dtype)
    sparse = getattr(scipy.sparse, f"{form}_array")(dense)
    for other in {dtype, "f8"}:
        for text in ("ij,j->i", "ij,jk->ik"):
            given = others(text, (23, 41), other)
            found, expected = mdt.einsum(text, sparse, *given), np.einsum(text, dense, *given)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype in "f4c8" else 1e-12)
            found, expected = mdt.reduce(text, sparse, *given), mdt.reduce(text, dense, *given)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype in "f4c8" else 1e-12)


def test_shortest_paths() -> None:
    dense, x = random((23, 41)), RNG.random((41, 3))
    dense[4] = 0
    expected = (absent_as(dense, np.inf)[:, :, None] + x).min(1)
    for form in ("csr", "csc", "coo"):
        sparse = getattr(scipy.sparse, f"{form}_array")(dense)
        found = mdt.einsum("ij,jk->ik", sparse, x, semiring="min_plus")
        np.testing.assert_array_equal(found, expected)
        found = mdt.reduce("ij,jk->ik", sparse, x, f=lambda a, b: a + b, combine="min")
        np.testing.assert_array_equal(found, expected)


def test_logarithms_of_sums() -> None:
    dense, x = random((23, 41)), RNG.random(41)
    found = mdt.einsum("ij,j->i", scipy.sparse.csr_array(dense), x, semiring="logsumexp")
    expected = np.logaddexp.reduce(absent_as(dense, -np.inf) + x, axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_functions_get_the_indices_of_elements() -> None:
    dense = random((23, 41))
    dense[:, 0] = 1
    sparse = scipy.sparse.csr_array(dense)
    value, place = mdt.reduce("ij->i", sparse, f=lambda a, *, j: (a, j), combine="argmax")
    np.testing.assert_array_equal(value, dense.max(1))
    np.testing.assert_array_equal(place, dense.argmax(1))
    summed = mdt.reduce("ij->j", sparse, f=lambda a, *, i, j: a * i + j)
    rows, columns = np.ogrid[:23, :41]
    np.testing.assert_allclose(summed, np.where(dense, dense * rows + columns, 0).sum(0))


def test_epilogues_are_applied_to_all_results() -> None:
    dense, x = random((23, 41), density=0.02), RNG.random(41)
    bias = RNG.random(23)
    sparse = scipy.sparse.csr_array(dense)
    found = mdt.einsum("ij,j->i; i", sparse, x, bias, epilogue="bias")
    np.testing.assert_allclose(found, dense @ x + bias, rtol=1e-12)


def doubled(form: str) -> Any:
    """Element (0, 1) is 3, stored as 1 and 2."""
    value, row, column = [1.0, 2, 5, 4], [0, 0, 0, 1], [1, 1, 2, 0]
    if form == "coo":
        return scipy.sparse.coo_array((value, (row, column)), shape=(2, 3))
    return scipy.sparse.csr_array((value, column, [0, 3, 4]), shape=(2, 3))


@pytest.mark.parametrize("form", ["csr", "coo"])
def test_elements_that_are_stored_twice_are_added_up(form: str) -> None:
    sparse = doubled(form)
    x = np.array([1.0, 10, 100])
    np.testing.assert_allclose(mdt.einsum("ij,j->i", sparse, x), [530, 4])
    np.testing.assert_allclose(mdt.reduce("ij->i", sparse, combine="min"), [3, 4])
    np.testing.assert_allclose(mdt.einsum("ij,j->i", sparse, x, semiring="min_plus"), [13, 5])
    assert sparse.nnz == 4  # the caller's array is as it was


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_nothing_stored(form: str) -> None:
    sparse = getattr(scipy.sparse, f"{form}_array")((4, 6))
    np.testing.assert_array_equal(mdt.einsum("ij,j->i", sparse, np.ones(6)), np.zeros(4))
    np.testing.assert_array_equal(mdt.reduce("ij->i", sparse, combine="min"), np.full(4, np.inf))
    empty = getattr(scipy.sparse, f"{form}_array")((0, 6))
    assert mdt.einsum("ij,j->i", empty, np.ones(6)).shape == (0,)


def test_results_go_to_out() -> None:
    dense, x = random((23, 23)), RNG.random(23)
    sparse, out = scipy.sparse.csr_array(dense), np.empty(23)
    expected = dense @ x
    assert mdt.einsum("ij,j->i", sparse, x, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    assert mdt.reduce("ij,j->i", sparse, x, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    mdt.einsum("ij,j->i", sparse, x, out=x)
    np.testing.assert_allclose(x, expected, rtol=1e-12)


def test_arrays_of_other_axes() -> None:
    dense = random((6, 7, 8))
    at = np.nonzero(dense)
    sparse = scipy.sparse.coo_array((dense[at], at), shape=dense.shape)
    x, y = RNG.random(7), RNG.random((8, 3))
    expected = np.einsum("ijk,j,kl->il", dense, x, y)
    np.testing.assert_allclose(mdt.einsum("ijk,j,kl->il", sparse, x, y), expected, rtol=1e-12)
    line = scipy.sparse.coo_array(dense[0, 0])
    np.testing.assert_allclose(mdt.einsum("k,kl->l", line, y), dense[0, 0] @ y, rtol=1e-12)


def test_many_shapes_in_turn() -> None:
    for rows in range(3, 40, 4):
        dense, x = random((rows, rows + 2)), RNG.random(rows + 2)
        found = mdt.einsum("ij,j->i", scipy.sparse.csr_array(dense), x)
        np.testing.assert_allclose(found, dense @ x, rtol=1e-12)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("text", ["ij,j->i", "ij,i->j", "ij,jk->ik", "ij,ik->kj"])
def test_work_follows_stored_elements(
    form: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each result takes a range that pointers tell, or each element goes straight to its place."""
    seen: list[MDHom] = []

    def compute(md_hom: MDHom, *arrays: Any) -> None:
        seen.append(md_hom)
        reference.compute(md_hom, *arrays)

    monkeypatch.setattr(program_calls, "executor", compute)
    dense = random((23, 41), density=0.05)
    given = others(text, dense.shape)
    sparse = getattr(scipy.sparse, f"{form}_array")(dense)
    np.testing.assert_allclose(
        mdt.einsum(text, sparse, *given), np.einsum(text, dense, *given), rtol=1e-12
    )
    (md_hom,) = seen
    problem = problem_from_md_hom(md_hom)
    (kept,) = set("ij") & set(text.partition("->")[2])
    walked = {extent for name, extent in md_hom.extents.items() if name != "k"}
    assert walked == {sparse.nnz, dense.shape["ij".index(kept)]}
    is_range = with_bounds(problem).bounds is not None
    assert is_range != (selection_of(problem) is not None)
    assert is_range or "k" not in text


def test_chains_that_are_called_often() -> None:
    dense = random((40, 30))
    b, c = RNG.random((30, 4)), RNG.random((4, 6))
    expected = dense @ b @ c
    for form in ("csr", "csc", "coo"):
        sparse = getattr(scipy.sparse, f"{form}_array")(dense)
        for _ in range(40):
            found = mdt.einsum("ij,jk,kl->il", sparse, b, c)
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_operands_that_do_not_fit() -> None:
    sparse = scipy.sparse.csr_array(random((4, 6)))
    with pytest.raises(SubscriptError, match="index 'j' has extent 6 in operand 0 but 5"):
        mdt.einsum("ij,j->i", sparse, np.ones(5))
    with pytest.raises(DTypeError, match="operands 0 and 1 are sparse, and one may be"):
        mdt.einsum("ij,kj->ik", sparse, sparse)
    with pytest.raises(TranslationError, match="all dims of a sparse operand remain"):
        mdt.einsum("ij->ji", sparse)
    with pytest.raises(TranslationError, match="argmax of a sparse operand may find no element"):
        mdt.reduce("ij->i", sparse, combine="argmax")
    with pytest.raises(DTypeError, match="no kernels compute with dtype"):
        mdt.einsum("ij,j->i", sparse.astype(np.longdouble), np.ones(6))
    with pytest.raises(DTypeError, match="cannot be cast"):
        mdt.einsum("ij,j->i", sparse, np.ones(6), dtype="f4")
    with pytest.raises(DTypeError, match="operand 0 cannot be cast"):
        mdt.einsum("ij,j->i", sparse, np.ones(6), dtype="f4", semiring="min_plus")


def test_repeated_calls_are_recalled() -> None:
    """Also on other arrays of the same layout, and never on ones with elements stored twice."""
    once, x = doubled("csr"), np.array([1.0, 10, 100])
    once.sum_duplicates()
    for scale in (1, 2, 3):
        other = once * scale
        np.testing.assert_allclose(mdt.einsum("ij,j->i", other, x), [530 * scale, 4 * scale])
        np.testing.assert_allclose(
            mdt.reduce("ij->i", other, combine="min"), np.array([3, 4]) * scale
        )
    value, column, pointers = [1.0, 2, 4], [1, 1, 0], [0, 2, 3]
    twice = scipy.sparse.csr_array((value, column, pointers), shape=(2, 3))
    assert twice.nnz == once.nnz
    np.testing.assert_allclose(mdt.reduce("ij->i", twice, combine="min"), [3, 4])
    np.testing.assert_allclose(mdt.einsum("ij,j->i", twice, x), [30, 4])
    with mdt.trace() as traced:
        for _ in range(2):
            mdt.einsum("ij,j->i", once, x)
    assert "hit" in str(traced)


def test_indices_outside_lead_nowhere_outside() -> None:
    """Arrays that were changed to nonsense give some number, and read no memory beyond."""
    sparse = scipy.sparse.csr_array(random((40, 30)))
    x = np.ones(30)
    mdt.einsum("ij,j->i", sparse, x)
    sparse.indices[::3] = 2**31 - 1
    sparse.indices[1::3] = -(2**31)
    sparse.indptr[5:9] = -7, 10**9, 2, 10**9
    assert mdt.einsum("ij,j->i", sparse, x).shape == (40,)
