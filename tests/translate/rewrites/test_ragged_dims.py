"""`md_hom`s over the values of ragged operands, by the reference interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdtensor.errors import TranslationError
from mdtensor.lower.problem.data_bounds import with_bounds
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.operators.combination import ps
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from mdtensor.translate.reference import compute
from mdtensor.translate.rewrites.ragged_dims import OFFSETS, ROWS, RaggedDims, over_values

RNG = np.random.default_rng(3)
LENGTHS = np.array([4, 0, 2, 7, 1])
AT = np.array([0, *LENGTHS.cumsum()])
NUMBERS = np.repeat(np.arange(5, dtype="i4"), LENGTHS)
VALUES = RNG.random((14, 3))
MORE = {OFFSETS: AT, ROWS: NUMBERS}


def spec(array: np.ndarray) -> TensorSpec:
    return TensorSpec.of(array.shape, array.dtype)


def over(dense: MDHom) -> tuple[MDHom, tuple[str, ...]]:
    dims = RaggedDims("b", "t", 14, {name: spec(array) for name, array in MORE.items()})
    return over_values(dense, {0: (spec(VALUES), 0, 1)}, dims)


@pytest.mark.parametrize(
    ("text", "more", "is_range"),
    [
        ("btd,de->bte", (), False),
        ("btd,bd->bt", (ROWS,), False),
        ("btd,td->bt", (ROWS, OFFSETS), False),
        ("btd,bt->btd", (ROWS, OFFSETS), False),
        ("btd,de->be", (OFFSETS,), True),
        ("btd,td->bd", (OFFSETS,), True),
        ("btd,bd->b", (OFFSETS,), True),
        ("btd,de->e", (), False),
        ("btd,bd->d", (ROWS,), False),
    ],
)
def test_sums_of_products(text: str, more: tuple[str, ...], is_range: bool) -> None:
    extents = {"b": 5, "t": 9, "d": 3, "e": 4}
    names = text.partition("->")[0].split(",")[1]
    other = RNG.random([extents[name] for name in names])
    dense = md_hom_from_einsum(text, [TensorSpec.of((5, 9, 3), "f8"), spec(other)])
    md_hom, taken = over(dense)
    assert taken == more
    assert (with_bounds(problem_from_md_hom(md_hom)).bounds is not None) == is_range
    result = np.empty(md_hom.outputs[0].spec.shape)
    compute(md_hom, (VALUES, other, *(MORE[name] for name in more)), (result,))
    padded = np.zeros((5, 9, 3))
    within = np.arange(14) - AT[NUMBERS]
    padded[NUMBERS, within] = VALUES
    expected = np.einsum(text, padded, other)
    if "->bt" in text:
        expected = expected[NUMBERS, within]
    np.testing.assert_allclose(result, expected, rtol=1e-13)


def reduction(text: str, *shapes: tuple[int, ...], **said: Any) -> MDHom:
    specs = [TensorSpec.of(shape, "f8") for shape in ((5, 9, 3), *shapes)]
    return md_hom_from_reduction(Reduction(text, **said), specs)


@pytest.mark.parametrize(
    ("said", "dense"),
    [
        ("dim 't' of a ragged operand is scanned",
         lambda: reduction("btd->btd", combine={"t": ps("add")})),
        ("dim 'b' of a ragged operand is scanned",
         lambda: reduction("btd->btd", combine={"b": ps("add")})),
        ("dim 't' of a ragged operand remains without its batch 'b'",
         lambda: reduction("btd->td")),
        ("has no identity, and a sequence may be empty",
         lambda: reduction("btd->bd", combine=lambda x, y: x * y + x + y)),
        ("dims 'b' and 't' of a ragged operand are combined by",
         lambda: reduction("btd->d", combine={"b": "add", "t": "max"})),
        ("sequences are combined by one operator",
         lambda: reduction("btd->b", combine={"d": "add", "t": "max"})),
        ("an epilogue of a ragged result takes its dims 'b'",
         lambda: reduction("btd->bt; b", (5,), epilogue="bias")),
        ("index t+u of sequences is no dim of its own",
         lambda: reduction("b t+u d, u -> b t", (2,))),
    ],
)  # fmt: skip
def test_what_values_do_not_tell_is_refused(said: str, dense: Any) -> None:
    with pytest.raises(TranslationError) as caught:
        over(dense())
    assert said in str(caught.value)
