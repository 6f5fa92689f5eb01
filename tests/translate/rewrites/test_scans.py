"""Scans turned around and shifted by their views."""

from __future__ import annotations

import numpy as np
import pytest

from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from mdtensor.translate.rewrites.scans import exclusive_along, reversed_along

SPEC = TensorSpec.of((5,), "f8")
SUMS = md_hom_from_reduction(Reduction("i->i", scans=True), [SPEC])
X = np.array([1.0, 2.0, 4.0, 8.0, 16.0])


def test_a_reversed_scan_walks_both_views_backwards() -> None:
    turned = reversed_along(SUMS, ["i"])
    assert repr(turned.inp_view) == repr(turned.out_view) == "((-i+4),)"
    np.testing.assert_array_equal(reference.run(turned, [X])[0], X[::-1].cumsum()[::-1])


def test_an_exclusive_scan_writes_one_place_further() -> None:
    shifted = exclusive_along(SUMS, ["i"])
    assert (repr(shifted.dims), repr(shifted.out_view)) == ("(i:4,)", "((i+1),)")
    np.testing.assert_array_equal(reference.run(shifted, [X])[0], [0, 1, 3, 7, 15])
    turned = exclusive_along(reversed_along(SUMS, ["i"]), ["i"])
    assert repr(turned.out_view) == "((-i+3),)"
    np.testing.assert_array_equal(reference.run(turned, [X])[0], [30, 28, 24, 16, 0])


def test_what_does_not_commute_meets_its_operands_in_the_order_of_the_array() -> None:
    last = Reduction("i->i", combine=lambda lhs, rhs: rhs, scans=True)
    md_hom = reversed_along(md_hom_from_reduction(last, [SPEC]), ["i"])
    np.testing.assert_array_equal(reference.run(md_hom, [X])[0], np.full(5, 16.0))
    assert repr(md_hom.operators) == "(flipped op,)"


@pytest.mark.parametrize("text", ["2i -> i", "@1, i -> i"])
def test_indices_of_all_kinds_are_turned(text: str) -> None:
    index = np.array([4, 0, 3])
    reduction = Reduction(text, lambda x, *, i: x * (i + 1), scans=True)
    specs = [SPEC] if "@" not in text else [SPEC, TensorSpec.of((3,), "i8")]
    md_hom = reversed_along(md_hom_from_reduction(reduction, specs), ["i"])
    picked = X[::2] if "@" not in text else X[index]
    expected = (picked * np.arange(1, 4))[::-1].cumsum()[::-1]
    arrays = [X] if "@" not in text else [X, index]
    np.testing.assert_array_equal(reference.run(md_hom, arrays)[0], expected)
