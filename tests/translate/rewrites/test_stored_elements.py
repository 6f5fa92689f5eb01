"""Sparse operands: the same results over stored elements, and each goes straight to its place."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mdtensor.errors import TranslationError
from mdtensor.lower.problem.data_bounds import with_bounds
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.problem.scatter_pattern import selection_of
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.operators.combination import ps
from mdtensor.translate.operators.combine_operators import operator
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from mdtensor.translate.reference import compute
from mdtensor.translate.rewrites.stored_elements import (
    axes_of_results,
    over_coordinates,
    over_ranges,
)

RNG = np.random.default_rng(3)
SHAPE = (7, 9)
DENSE = RNG.random(SHAPE) * (RNG.random(SHAPE) < 0.3)
AT = tuple(at.astype("i4") for at in np.nonzero(DENSE))
VALUES = DENSE[AT]


def spec(array: np.ndarray) -> TensorSpec:
    return TensorSpec.of(array.shape, array.dtype)


def sparse(dense: MDHom, buffer: int = 0) -> MDHom:
    return over_coordinates(dense, buffer, spec(VALUES), tuple(map(spec, AT)))


def reduction(text: str, *others: tuple[int, ...], **options: Any) -> MDHom:
    specs = [TensorSpec.of(shape, "f8") for shape in (SHAPE, *others)]
    return md_hom_from_reduction(Reduction(text, **options), specs)


@pytest.mark.parametrize(
    "text",
    ["ij,j->i", "ij,i->j", "ij,jk->ik", "ij,jk->ki", "ij->i", "ij->", "ij,i,j->", "ij,i,j->j"],
)
def test_sums_of_products(text: str) -> None:
    extents = {"i": 7, "j": 9, "k": 4}
    terms = text.partition("->")[0].split(",")[1:]
    others = [RNG.random([extents[name] for name in term]) for term in terms]
    md_hom = sparse(md_hom_from_einsum(text, [spec(DENSE), *map(spec, others)]))
    result = np.empty(md_hom.outputs[0].spec.shape)
    compute(md_hom, (VALUES, *others, *AT), (result,))
    np.testing.assert_allclose(result, np.einsum(text, DENSE, *others), rtol=1e-13)
    kept = {dim.name for dim in md_hom.kept} - {"k"}
    assert (selection_of(problem_from_md_hom(md_hom)) is not None) == bool(kept)


@pytest.mark.parametrize("combine", ["add", "mul", "min", "fmin", "greater", "logaddexp"])
def test_every_operator_is_a_scatter(combine: str) -> None:
    problem = problem_from_md_hom(sparse(reduction("ij,j->i", (9,), combine=combine)))
    assert selection_of(problem) is not None


def test_complex_numbers_are_a_scatter() -> None:
    dense = md_hom_from_einsum("ij,j->i", [TensorSpec.of(s, "c16") for s in (SHAPE, (9,))])
    values = TensorSpec.of(VALUES.shape, "c16")
    problem = problem_from_md_hom(over_coordinates(dense, 0, values, tuple(map(spec, AT))))
    assert selection_of(problem) is not None


def test_functions_get_coordinates_as_indices() -> None:
    md_hom = sparse(reduction("ij->i", function=lambda x, *, i, j: x * i + j))
    result = np.empty(7)
    compute(md_hom, (VALUES, *AT), (result,))
    expected = np.zeros(7)
    np.add.at(expected, AT[0], VALUES * AT[0] + AT[1])
    np.testing.assert_allclose(result, expected, rtol=1e-13)


def test_the_sparse_operand_may_be_any() -> None:
    dense = md_hom_from_einsum("ki,ij->kj", [TensorSpec.of((4, 7), "f8"), spec(DENSE)])
    md_hom = sparse(dense, 1)
    other, result = RNG.random((4, 7)), np.empty((4, 9))
    compute(md_hom, (other, VALUES, *AT), (result,))
    np.testing.assert_allclose(result, other @ DENSE, rtol=1e-13)


def test_names_of_dims_are_not_taken_twice() -> None:
    md_hom = sparse(md_hom_from_einsum("ae,e->a", [spec(DENSE), TensorSpec.of((9,), "f8")]))
    assert [dim.name for dim in md_hom.dims] == ["a", "e1"]


@pytest.mark.parametrize(
    ("text", "axis"), [("ij,j->i", 0), ("ij,i->j", 1), ("ij,jk->ik", 0), ("ij,ik->kj", 1)]
)
def test_ranges_along_the_dim_that_remains(text: str, axis: int) -> None:
    extents = {"i": 7, "j": 9, "k": 4}
    other = RNG.random([extents[name] for name in text[3:].partition("->")[0]])
    dense = md_hom_from_einsum(text, [spec(DENSE), spec(other)])
    order = np.lexsort((AT[1 - axis], AT[axis]))
    pointers = np.searchsorted(AT[axis][order], np.arange(SHAPE[axis] + 1)).astype("i4")
    arrays = (VALUES[order], other, AT[1 - axis][order], pointers)
    stored = [spec(array) for array in (arrays[0], *arrays[2:])]
    md_hom = over_ranges(dense, 0, axis, *stored)
    result = np.empty(md_hom.outputs[0].spec.shape)
    compute(md_hom, arrays, (result,))
    np.testing.assert_allclose(result, np.einsum(text, DENSE, other), rtol=1e-13)
    assert with_bounds(problem_from_md_hom(md_hom)).bounds is not None
    assert axes_of_results(dense, 0) == (axis, "k" in text)
    with pytest.raises(TranslationError, match="the compressed dim of a sparse operand is combi"):
        over_ranges(dense, 0, 1 - axis, *stored)


first = operator(lambda lhs, rhs: lhs, identity=0.0)


@pytest.mark.parametrize(
    ("said", "dense"),
    [
        ("all dims of a sparse operand remain", lambda: reduction("ij->ji")),
        ("dims 'i', 'j' of a sparse operand remain", lambda: reduction("ij,jk->ij", (9, 4))),
        ("index 2i of a sparse operand is no dim", lambda: reduction("2i j -> j")),
        ("index i+r of a sparse operand is no dim", lambda: reduction("i+r j, r -> j", (3,))),
        ("index i of a sparse operand is no", lambda: reduction("i j->j", extents={"i": 3})),
        ("are not scanned", lambda: reduction("ij->ij", combine={"j": ps("add")})),
        ("has no identity", lambda: reduction("ij->i", combine=lambda a, b: a * b + a + b)),
        ("minds the order of elements", lambda: reduction("ij->i", combine=first)),
        ("by one operator, not by", lambda: reduction("ij->", combine={"j": "add", "i": "min"})),
    ],
)
def test_what_has_no_meaning_is_refused(said: str, dense: Any) -> None:
    with pytest.raises(TranslationError, match=re.escape(said)):
        sparse(dense())


def test_an_epilogue_takes_no_sparse_operand() -> None:
    specs = [TensorSpec.of(shape, "f8") for shape in ((5, *SHAPE), SHAPE)]
    dense = md_hom_from_reduction(Reduction("kij->ij; ij", epilogue="bias"), specs)
    with pytest.raises(TranslationError, match="a sparse operand is an operand of the function"):
        sparse(dense, 1)
