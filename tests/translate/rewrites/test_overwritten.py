"""An `md_hom` overwrites an input that it reads only where it writes the result."""

from __future__ import annotations

import pytest

from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.rewrites.overwritten import overwritten

SQUARE, TURNED = TensorSpec.of((4, 4)), TensorSpec.of((4, 4), strides=(1, 4))
ROW, DOUBLES = TensorSpec.of((4,)), TensorSpec.of((4, 4), "f8")


@pytest.mark.parametrize(
    ("text", "specs", "expected"),
    [
        ("ij,ij->ij", [SQUARE, SQUARE], ((0, 0), (0, 1))),
        ("j,ij->ij", [ROW, SQUARE], ((0, 1),)),
        ("ij->ji", [SQUARE], ()),
        ("ij->ij", [TURNED], ()),
        ("ij->ji", [TURNED], ((0, 0),)),
        ("ij,ij->ij", [SQUARE, DOUBLES], ((0, 1),)),
        ("ij->i", [SQUARE], ()),
        ("ij,jk->ik", [SQUARE, SQUARE], ()),
    ],
)
def test_places_and_types_are_the_same(
    text: str, specs: list[TensorSpec], expected: tuple[tuple[int, int], ...]
) -> None:
    assert overwritten(md_hom_from_einsum(text, specs)) == expected
