from __future__ import annotations

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.frontends.einsum.strided_views import windows

# A string, the shapes, the extents that they leave open, and the classic string.
CASES = [
    ("h+r, r -> h", [(9,), (3,)], {}, "ab,b->a"),
    ("2h+r+1, r -> h", [(9,), (4,)], {"h": 2}, "ab,b->a"),
    ("h+2r+1 -> h r", [(9,)], {"r": 3}, "ab->ab"),
    ("8-i, i -> i", [(9,), (5,)], {}, "a,a->a"),
    ("n h+r w+s c, k r s c -> n h w k", [(1, 7, 8, 2), (3, 2, 3, 2)], {}, "abcdef,gcef->abdg"),
    ("n h+r w+s c, k r s c -> n h w k", [(2, 7, 8, 2), (3, 2, 3, 2)], {}, None),
    ("i+i -> i", [(9,)], {}, None),
    ("i_1 -> i_1 x", [(4,)], {"x": 3}, "ba->ab"),
    ("i, i -> ", [(4,), (1,)], {"x": 2}, None),
    ("ij->i", [(4, 6)], {"j": 5}, "ab->a"),
    ("... h+r, r -> ... h", [(2, 3, 6), (2,)], {}, None),
]


@pytest.mark.parametrize(("subscripts", "shapes", "extents", "classic"), CASES)
def test_numpy_on_the_views_computes_the_same(
    subscripts: str, shapes: list[tuple[int, ...]], extents: dict[str, int], classic: str | None
) -> None:
    rng = np.random.default_rng(1)
    operands = [rng.random(shape) for shape in shapes]
    found = windows(subscripts, operands, extents)
    assert found is not None
    text, views = found
    assert classic in (None, text)
    expected = mdt.einsum(subscripts, *operands, extents=extents or None)
    np.testing.assert_allclose(np.einsum(text, *views), expected)


def test_strided_operands() -> None:
    wide = np.arange(60.0).reshape(6, 10)[::-2, 1::2]
    text, (view,) = windows("i j+r -> i j r", [wide], {"r": 2}) or ("", [wide])
    np.testing.assert_array_equal(view[:, :, 1], wide[:, 1:])
    assert text == "abc->abc"


def test_gathers_have_no_views() -> None:
    assert windows("@1 d, b -> b d", [np.ones((9, 2)), np.ones(3, "i8")]) is None
