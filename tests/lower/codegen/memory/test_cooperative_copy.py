"""How work-items copy a tile together: every element once, and neighbours into different banks."""

from __future__ import annotations

from collections import Counter

import pytest

from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.staged_layouts import layouts_of
from mdtensor.lower.codegen.memory.cooperative_copy import CooperativeCopy, copy_of
from mdtensor.lower.codegen.memory.copy_traversal import BANKS
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from tests.kernels.kernel_cases import Case, einsum, gpu
from tests.lower import fuzz
from tests.lower.let_indices import let, number

ITEMS = 64
SIZES = {"g": 24, "b": 48, "e": 32, "a": 8}


def schedule(**values: object) -> Schedule:
    """Columns along two dims, of which the tile has one innermost and the source the other."""
    plain = {
        "threads": (1, 2, 8, 4),
        "registers": (8, 4, 4, 1),
        "chunks": (8, 4, 4, 1),
        "tiles": (24, 0, 0, 0),
        "staged": ("local", "local"),
        "padding": (4, 4),
        "resident": True,
    }
    return gpu(4, (0,), **(plain | values))


EINSUM = einsum("gb,ega->bea", SIZES)


def copies(chosen: Schedule) -> list[CooperativeCopy]:
    problem = Case(EINSUM, chosen).problem()
    tilings = tilings_of(problem, chosen)
    layouts = layouts_of(problem, chosen, tilings)
    frame = Frame(problem, chosen, tilings, layouts, aligned=True)
    return [copy_of(frame, number, ITEMS) for number in layouts]


def places(copy: CooperativeCopy, item: int) -> list[int]:
    """Where in the tile the pieces of a work-item begin."""
    known = let(copy.share.setup, item=item)
    found: list[int] = []
    for piece in copy.share.pieces:
        if piece.within and number(piece.within[0], known) >= piece.within[1]:
            continue
        found.append(
            sum(
                number(axis.stride, known) * number(piece.along(axis.dim), known)
                for axis in copy.tile.axes
            )
        )
    return found


@pytest.mark.parametrize("padding", [0, 1, 4])
@pytest.mark.parametrize("depth", [8, 24])
def test_every_element_is_copied_once(padding: int, depth: int) -> None:
    for copy in copies(schedule(padding=(padding, padding), tiles=(depth, 0, 0, 0))):
        found = Counter(place for item in range(ITEMS) for place in places(copy, item))
        whole = 1
        for axis in copy.tile.axes:
            whole *= axis.extent.constant or 0
        assert len(found) == whole // copy.tile.lanes
        assert set(found.values()) == {1}


@pytest.mark.parametrize("padding", [0, 4])
@pytest.mark.parametrize("depth", [8, 24])
def test_neighbours_store_to_different_banks(padding: int, depth: int) -> None:
    _, copy = copies(schedule(padding=(padding, padding), tiles=(depth, 0, 0, 0)))
    assert not copy.tile.lies_whole
    run = copy.share.walks[0].length  # of work-items along what lies in a run in the source
    banks = Counter(places(copy, item)[0] % BANKS for item in range(BANKS))
    assert max(banks.values()) <= run


def test_tiles_that_lie_as_their_source_are_walked_in_its_order() -> None:
    first, _ = copies(schedule())
    assert first.tile.lies_whole
    assert [walk.axis for walk in first.share.walks] == list(first.tile.axes)


@pytest.mark.parametrize("padding", [0, 1, 4])
def test_what_is_copied_is_right(padding: int) -> None:
    chosen = schedule(padding=(padding, padding))
    assert fuzz.check(Case(EINSUM, chosen))
