"""Gradients of einsum strings, compared with central differences."""

from __future__ import annotations

import numpy as np
import pytest

import mdtensor as mdt
from tests.gradients.gradcheck import gradcheck


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 2)]),
        ("ij,ij->", [(3, 4), (3, 4)]),
        ("ii->i", [(3, 3)]),
        ("ii,jk->k", [(3, 3), (2, 5)]),
        ("iij->j", [(3, 3, 2)]),
        ("ij->", [(2, 3)]),
        ("...i,i...->...", [(2, 3, 4), (4, 2, 3)]),
        ("...i,i->...", [(1, 4), (4,)]),
        ("ij,jk,kl->il", [(3, 2), (2, 4), (4, 3)]),
        ("i,j->ij", [(3,), (2,)]),
        ("i h+r, r -> i h", [(2, 6), (3,)]),
        ("2h+r, r -> h", [(7,), (2,)]),
        ("h+2r, r -> h", [(7,), (3,)]),
    ],
)
def test_einsum(text: str, shapes: list[tuple[int, ...]]) -> None:
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(shape) for shape in shapes]
    gradcheck(lambda *given: mdt.einsum(text, *given), arrays)


def test_the_pullback_of_a_call_is_that_of_numpy() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.ones((3, 4))
    product, pullback = mdt.vjp(mdt.einsum, "ij,jk->ik", a, b)
    for_a, for_b = pullback(np.arange(8.0).reshape(2, 4))
    np.testing.assert_array_equal(product, a @ b)
    np.testing.assert_array_equal(for_a, np.arange(8.0).reshape(2, 4) @ b.T)
    np.testing.assert_array_equal(for_b, a.T @ np.arange(8.0).reshape(2, 4))


def test_products_of_short_floats_are_not_rounded_before_they_are_added_up() -> None:
    a, b = np.zeros((1, 1), "f2"), np.array([[1 + 2**-10, 1 + 2**-9]], "f2")
    _, pullback = mdt.vjp(mdt.einsum, "ij,jk->ik", a, b)
    for_a, _ = pullback(np.array([[1 + 2**-10, -1]], "f2"))
    assert for_a == 2**-20


def test_gradients_lie_as_their_operands() -> None:
    a, b = np.ones((3, 2)).T, np.ones((3, 4))
    _, pullback = mdt.vjp(mdt.einsum, "ij,jk->ik", a, b)
    for_a, for_b = pullback(np.ones((2, 4)))
    assert for_a.strides == a.strides
    assert for_b.strides == b.strides
