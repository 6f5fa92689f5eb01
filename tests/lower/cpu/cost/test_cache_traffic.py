"""The traffic that the cost model foresees: sets of caches, runs of memory, results in passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mdtensor.lower.cpu.cost.cache_traffic import Footprint, caches_of, footprint_of
from mdtensor.lower.cpu.cost.cpu_cost import busiest_share, estimate
from mdtensor.lower.schedule.default_schedule import plain
from tests.lower.search.test_candidates import einsum
from tests.targets import CPU

# A vector times a matrix of 8 MB, whose rows lie nearly a page apart.
ROW = einsum("j,jk->k", (2048,), (2048, 1000))


def columns(vectors: int, *, rows: int = 1, tile: int = 0, ahead: int = 0):
    """Sums of columns, in two parts: `vectors` of them at once, in tiles of some rows."""
    return replace(
        plain(ROW),
        lane=1,
        width=16,
        registers=(rows, 16 * vectors),
        tiles=(tile, 0),
        parts=(1, 2),
        group_order=(1, 0),
        tail="overlap",
        ahead=ahead,
    )


def test_rows_are_walked_side_by_side_in_as_many_pages_as_are_held():
    whole = estimate(ROW, columns(4, rows=8), CPU)
    tiles = {tile: estimate(ROW, columns(4, rows=8, tile=tile), CPU) for tile in (64, 1024)}
    assert tiles[64] < 0.8 * whole, "rows of a tile go on where they were left"
    assert tiles[1024] > 0.95 * whole, "too many pages for that"


def test_short_runs_that_are_asked_for_ahead_are_waited_for_less():
    assert estimate(ROW, columns(4, rows=4, ahead=16), CPU) < estimate(ROW, columns(4, rows=4), CPU)
    assert estimate(ROW, columns(16), CPU) < estimate(ROW, columns(4), CPU), "longer runs"


def test_lines_that_fall_into_few_sets_are_not_held():
    l1, l2, _ = caches_of(CPU)
    # Sums over g of blocks [24, 16, 24, 16]: 24 KB between neighbours along g.
    problem = einsum("geac,dfgb->abcdef", (24, 16, 24, 16), (24, 16, 24, 16))
    dims = {label: d for d, label in enumerate(problem.labels)}
    block = footprint_of(problem, problem.streams[0], 4)

    def covered(**extents: int) -> tuple[int, ...]:
        return tuple(extents.get(label, 1) for label in dims)

    assert block.is_held(covered(g=9, c=16), l1), "a line of every g"
    assert not block.is_held(covered(g=24, c=16), l1), "they share a set, which has 12 ways"
    assert not block.is_held(covered(g=24, e=8), l1), "192 lines where 12 times 8 find place"
    assert block.is_held(covered(g=24, e=8), l2)
    assert footprint_of(problem, problem.streams[0], 4, staged=True).is_held(covered(g=24, e=8), l1)


def test_windows_that_overlap_are_touched_once():
    rows = 512 * 4
    # Five windows of three rows, and three elements of each row at a time.
    windows = Footprint((0, 1, 2), (5, 3, 512), 4, ((4, 2), (rows, 0), (rows, 1)))
    assert windows.elements((5, 3, 512)) == 7 * 512
    assert windows.elements((5, 1, 3)) == 15
    assert windows.bytes((5, 3, 512)) == 7 * rows
    assert windows.run((1, 3, 512), 0, (5, 3, 512)) == 7 * rows
    apart = Footprint((0, 1), (5, 3), 4, ((rows, 1), (3 * rows, 0)))
    assert apart.elements((5, 3)) == 15


def test_rows_that_share_lines_of_an_input_come_before_those_that_push_them_out():
    problem = einsum("geac,dfgb->abcdef", (24, 16, 24, 16), (24, 16, 24, 16))
    dims = {label: d for d, label in enumerate(problem.labels)}
    base = plain(problem)

    def rows(label: str) -> float:
        registers = [1] * len(problem.extents)
        registers[dims["f"]], registers[dims[label]] = 16, 8
        schedule = replace(
            base,
            lane=dims["f"],
            width=16,
            registers=tuple(registers),
            group_order=tuple(dims[label] for label in "fgabdce"),
            loop_order=tuple(dims[label] for label in "abdcef"),
            staged=("", "scratch"),
        )
        return estimate(problem, schedule, CPU)

    assert rows("c") < 0.7 * rows("e")


def test_results_of_every_pass_but_the_last_are_read_again():
    problem = einsum("ij,jk->ik", (2048, 64), (64, 2048))
    once = replace(plain(problem), lane=2, width=16, registers=(4, 1, 64), loop_order=(0, 2))
    passes = replace(once, tiles=(0, 16, 0), group_order=(1, 0, 2))
    assert estimate(problem, passes, CPU) > 1.25 * estimate(problem, once, CPU)


@pytest.mark.parametrize(
    ("extent", "register", "parts", "cores", "share"),
    [
        (2048, 64, 8, 2, 0.5),
        (2048, 48, 8, 2, 1152 / 2048),  # seven parts of 288, one of 32
        (513, 64, 8, 2, 257 / 513),  # four parts of 128, one of 1
        (100, 10, 1, 2, 1.0),
        (90, 10, 3, 2, 2 / 3),
    ],
)
def test_the_busiest_core_waits_for_no_other(extent, register, parts, cores, share):
    assert busiest_share((extent,), (register,), (parts,), cores) == pytest.approx(share)


def test_rows_that_begin_anywhere_take_a_line_more():
    for columns, more in ((800, 0), (777, 256 * (64 - 4))):
        problem = einsum("ij,jk->ik", (64, 512), (512, columns))
        matrix = footprint_of(problem, problem.streams[1], 4)
        covered = (1, 256, 32)
        assert matrix.occupied(covered) == matrix.bytes(covered) + more
        assert matrix.occupied((1, 1, 32)) == matrix.bytes((1, 1, 32)), "one row"
