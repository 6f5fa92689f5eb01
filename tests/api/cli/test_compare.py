from __future__ import annotations

import os

import numpy as np
import pytest

from mdtensor.api.cli.compare import (
    PEERS,
    TUNED,
    UNTUNED,
    compare,
    load_note,
    matmul_call,
    random_operands,
)
from mdtensor.api.cli.expression_arguments import Expression
from mdtensor.specs import TensorSpec

EXTENTS = dict(zip("abijkm", (5, 6, 2, 3, 4, 1), strict=True))


def operands_of(subscripts: str) -> list[np.ndarray]:
    terms = subscripts.partition("->")[0].split(",")
    return random_operands([TensorSpec.of([EXTENTS[i] for i in term]) for term in terms])


@pytest.mark.parametrize(
    "subscripts",
    [
        "ij,jk->ik",
        "ij,jk->ki",
        "ji,jk->ik",
        "ij,kj->ik",
        "ij,j->i",
        "i,ij->j",
        "i,i->",
        "aij,ajk->aik",
        "ija,akj->aki",
        "abij,bjak->abik",
        "mj,jk->mk",
    ],
)
def test_matmul_says_it(subscripts: str) -> None:
    operands = operands_of(subscripts)
    product = matmul_call(subscripts, operands)
    assert product is not None
    np.testing.assert_allclose(product(), np.einsum(subscripts, *operands), rtol=1e-5)


@pytest.mark.parametrize(
    "subscripts",
    ["ij->i", "ij,ij->", "ij,jk,k->i", "i,j->ij", "ii,ij->j", "aij,ak->ijk", "ai,ai->a", "ij,j->"],
)
def test_one_matmul_does_not_say_it(subscripts: str) -> None:
    assert matmul_call(subscripts, operands_of(subscripts)) is None


def test_matmul_is_not_asked_to_broadcast_a_contracted_axis() -> None:
    assert matmul_call("ij,jk->ik", (np.ones((2, 1)), np.ones((3, 4)))) is None


def test_random_operands_have_the_layout_of_their_specs() -> None:
    spec = TensorSpec.of((3, 4), "f8", strides=(1, 3))
    (operand,) = random_operands([spec])
    assert operand.strides == (8, 24)
    assert operand.dtype == np.float64
    assert len(np.unique(operand)) == 12


def test_every_engine_is_timed() -> None:
    specs = TensorSpec.of((8, 9)), TensorSpec.of((9, 10))
    comparison = compare(Expression("ij,jk->ik", specs), rounds=1)
    assert set(comparison.seconds) == {UNTUNED, TUNED, *PEERS}
    assert all(0 < seconds < 1 for seconds in comparison.seconds.values())
    fastest = min(comparison.seconds[peer] for peer in PEERS)
    assert comparison.ratio == fastest / comparison.seconds[TUNED]


@pytest.mark.parametrize(
    ("load", "note"),
    [
        (0.9, ""),
        (3.26, "times are rough: the machine was busy at the start (load 3.3 on 2 cores)"),
    ],
)
def test_a_busy_machine_is_noted(monkeypatch: pytest.MonkeyPatch, load: float, note: str) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert load_note() == note
