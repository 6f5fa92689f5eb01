"""Schedules of chains by rows: how many rows a block has, and how what lies between lies."""

from __future__ import annotations

from mdtensor.lower.search.chain_candidates import (
    RowChain,
    best_on_rows,
    lengths_of_blocks,
    row_chain,
)
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom_program import Step
from tests.targets import CPU


def two_products(queries: int, keys: int, channels: int) -> RowChain:
    """Scores of queries and keys, and their products with values, without what lies between."""
    q, k = TensorSpec.of((queries, channels)), TensorSpec.of((keys, channels))
    scores = md_hom_from_einsum("qd,kd->qk", [q, k])
    values = md_hom_from_einsum("qk,kd->qd", [TensorSpec.of((queries, keys)), k])
    return row_chain((Step(scores, (0, 1), (4,)), Step(values, (4, 2), (3,))), (4,))


def test_lanes_run_along_rows_where_keys_would_have_to_be_transposed() -> None:
    found = best_on_rows(two_products(2048, 2048, 64), CPU)
    assert found is not None
    _, made, schedule = found
    assert schedule.rows_inside
    problem, _ = made.steps[0]
    assert problem.labels[schedule.steps[0].lane] == "q"


def test_what_lies_between_takes_about_a_quarter_of_a_cache_or_less() -> None:
    chain = two_products(2048, 2048, 64)
    (most, *fewer) = [rows for (rows,) in lengths_of_blocks(chain, CPU)]
    row = 2048 * 4
    assert 0.14 < most * row / CPU.l2_bytes < 0.3
    assert fewer == [most // 2, most // 4]
