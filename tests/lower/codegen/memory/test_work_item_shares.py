"""What each work-item copies of a tile: every place once, in rows as by division."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from mdtensor.lower.codegen.base.staged_layouts import INNER, TileAxis
from mdtensor.lower.codegen.memory.copy_traversal import TraversalLoop, Walks
from mdtensor.lower.codegen.memory.work_item_shares import (
    Share,
    count_of_pieces,
    divided_share,
    share_in_rows,
)
from mdtensor.lower.ir.index import as_index
from tests.lower.let_indices import let, number

# Lengths of walks, work-items, and whether these are whole rows of every walk.
CASES = [
    ((8,), 4, True),
    ((8,), 3, True),
    ((4, 6), 4, True),
    ((4, 6), 8, True),
    ((4, 6), 16, True),
    ((4, 3, 5), 8, False),
    ((4, 2, 5), 16, True),
    ((3, 5), 4, False),
    ((1, 7), 2, True),
    ((5, 3), 1, True),
    ((5,), 64, True),
]


def walks(*lengths: int) -> Walks:
    axes = [TileAxis(d, INNER, as_index(n), as_index(1)) for d, n in enumerate(lengths)]
    return tuple(
        TraversalLoop(axis, n, 1, f"c_{axis.dim}") for axis, n in zip(axes, lengths, strict=True)
    )


def places(share: Share, items: int) -> Counter[tuple[int, ...]]:
    """How often all work-items together copy each place."""
    found: Counter[tuple[int, ...]] = Counter()
    for item in range(items):
        known = let(share.setup, item=item)
        for piece in share.pieces:
            if piece.within is None or number(piece.within[0], known) < piece.within[1]:
                dims = range(len(share.walks))
                found[tuple(number(piece.along(d), known) for d in dims)] += 1
    return found


@pytest.mark.parametrize(("lengths", "items", "rows"), CASES)
def test_every_place_is_copied_once(lengths: tuple[int, ...], items: int, rows: bool) -> None:
    along = walks(*lengths)
    shares = [divided_share(along, items)]
    in_rows = share_in_rows(along, items)
    assert (in_rows is not None) == rows
    if in_rows is not None:
        shares.append(in_rows)
    for share in shares:
        assert len(share.pieces) == count_of_pieces(along, items)
        found = places(share, items)
        assert len(found) == math.prod(lengths)
        assert set(found.values()) == {1}


def test_a_walk_cut_in_two_has_the_same_places() -> None:
    (whole,) = walks(12)
    near, far = whole.cut(4)
    assert (near.length, near.step, far.length, far.step) == (4, 1, 3, 4)
    share = share_in_rows((near, far), 4)
    assert share is not None
    assert sorted(places(share, 4)) == [(n, 0) for n in range(12)]
