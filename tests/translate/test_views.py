from __future__ import annotations

import pytest

from mdtensor.specs import TensorSpec
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec


@pytest.mark.parametrize(
    ("index", "printed", "bounds"),
    [
        (AffineIndex(), "0", (0, 0)),
        (AffineIndex(offset=3), "3", (3, 3)),
        (AffineIndex.of("i"), "i", (0, 4)),
        (AffineIndex.of(i=-1, offset=4), "-i+4", (0, 4)),
        (AffineIndex.of("r", i=2, offset=-1), "r+2i-1", (-1, 9)),
    ],
)
def test_affine_indices(index: AffineIndex, printed: str, bounds: tuple[int, int]) -> None:
    assert repr(index) == printed
    assert index.bounds({"i": 5, "r": 3}) == bounds


def test_accesses_know_and_rename_their_dims() -> None:
    access = BufferAccess(0, (AffineIndex.of("i", "r"), AffineIndex.of("i"), AffineIndex.of(k=0)))
    assert access.dims == ("i", "r")
    assert repr(access.renamed({"i": "x", "r": "y", "k": "z"})) == "(x+y, x, 0z)"


def test_buffers_print_their_spec() -> None:
    assert repr(BufferSpec("A", TensorSpec.of((2, 3), "f4", (1, 2)))) == "A: float32[2, 3]:1,2"
