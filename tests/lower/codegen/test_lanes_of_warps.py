"""How the work-items of a warp lie: what neighbours read from local memory is the same."""

from __future__ import annotations

import pytest

from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.item_numbers import item_numbers
from mdtensor.lower.codegen.base.staged_layouts import layouts_of
from mdtensor.lower.schedule.tiling import tilings_of
from tests.kernels.kernel_cases import Case, gpu, matmul
from tests.lower.let_indices import let

ITEMS = 64


def places(warp: tuple[int, int, int], *staged: str) -> list[tuple[int, int]]:
    """The numbers of all work-items of a product's group along its rows and its columns."""
    chosen = gpu(
        3,
        (1,),
        tiles=(0, 8, 0),
        threads=(ITEMS // warp[2], 1, warp[2]),
        registers=(4, 8, 4),
        staged=staged,
        resident=True,
        warp=warp,
    )
    problem = Case(matmul(128, 24, 128), chosen).problem()
    tilings = tilings_of(problem, chosen)
    frame = Frame(problem, chosen, tilings, layouts_of(problem, chosen, tilings))
    found: list[tuple[int, int]] = []
    for item in range(ITEMS):
        known = let(item_numbers(frame), item=item)
        found.append((known[tilings[0].var("x")], known[tilings[2].var("x")]))
    return found


@pytest.mark.parametrize("warp", [(4, 1, 8), (8, 1, 4), (2, 1, 16), (16, 1, 2)], ids=str)
def test_neighbours_and_lanes_two_apart_read_the_same_of_one_stream(warp: tuple[int, int, int]):
    found = places(warp, "local", "local")
    assert len(set(found)) == ITEMS
    for item, (row, column) in enumerate(found):
        assert found[item ^ 1][0] == row
        assert found[item ^ 2][1] == column
    assert {row // warp[0] for row, _ in found[:32]} == {0}


def test_lanes_along_one_dim_are_neighbours():
    found = places((1, 1, 32), "local", "local")
    assert found == [(n // 32, n % 32) for n in range(ITEMS)]


def test_lanes_that_stage_nothing_are_numbered_row_by_row():
    found = places((4, 1, 8), "", "")
    assert [found[n] for n in (0, 1, 2, 8, 9)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
