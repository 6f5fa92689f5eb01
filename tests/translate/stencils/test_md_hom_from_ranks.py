from __future__ import annotations

import itertools

import numpy as np
import pytest

from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.scalar import param
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_ranks import (
    RankFilter,
    exchanges,
    md_homs_from_ranks,
    of_rank,
)
from mdtensor.translate.trees import evaluate


@pytest.mark.parametrize("count", range(1, 13))
def test_exchanges_sort_all_zeros_and_ones(count: int) -> None:
    """What sorts these sorts everything: the zero-one principle."""
    rows = np.array(list(itertools.product((0, 1), repeat=count)))
    sorted_rows = np.sort(rows, axis=1)
    for low, high in exchanges(count):
        pair = rows[:, [low, high]]
        rows[:, low], rows[:, high] = pair.min(axis=1), pair.max(axis=1)
    np.testing.assert_array_equal(rows, sorted_rows)


@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_of_rank(dtype: str) -> None:
    columns = np.random.default_rng(0).integers(-4, 4, (7, 100)).astype(dtype)
    elements = [param(n, dtype) for n in range(len(columns))]
    for rank, expected in enumerate(np.sort(columns, axis=0)):
        found = evaluate(of_rank(elements, rank), list(columns))
        np.testing.assert_array_equal(found, expected)


def test_nan_wins() -> None:
    elements = [param(n, "f4") for n in range(5)]
    for place, rank in itertools.product(range(5), range(5)):
        values = [np.float32((place == n and np.nan) or n) for n in range(5)]
        assert np.isnan(evaluate(of_rank(elements, rank), values))


def test_a_rank_filter_is_a_stencil() -> None:
    given = RankFilter(((-1, 0), (0, 0), (1, 0)), 1, Border("nearest"))
    spec = TensorSpec.of((20, 9), "f4")
    md_homs = md_homs_from_ranks(given, spec, spec)
    assert all(isinstance(md_hom, MDHom) for md_hom in md_homs)
    assert [str(md_hom) for md_hom in md_homs] == [
        "md_hom[i0:18, i1:9](f, (cc, cc))",
        "md_hom[s0:2, i0:1, i1:9](f, (cc, cc, cc))",
    ]
