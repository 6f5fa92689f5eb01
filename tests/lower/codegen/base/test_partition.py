"""Groups and cache tiles."""

from __future__ import annotations

import operator
from dataclasses import replace

import pytest

from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.lower.codegen.base.partition import cache_tiles, group_bounds, tiles_before
from mdtensor.lower.ir.statements import Comment, IndexCalc, LetIndex, indented
from mdtensor.lower.schedule.tiling import tilings_of
from tests.lower.codegen.frames import frame_of

NAMES = (
    "matmul_remainder",
    "matmul_staged",
    "matmul_general",
    "dot_split",
    "gpu_matmul_local",
    "gpu_matmul_general",
)


@pytest.mark.parametrize("name", NAMES)
def test_bounds_and_tiles(name, golden):
    frame = frame_of(name)
    order = frame.schedule.group_order
    statements = [
        *group_bounds(frame.tilings, order),
        *cache_tiles(frame.tilings, order, lambda level: [Comment(f"level {level}")]),
    ]
    golden(f"passes/partition/{name}.txt", "\n".join(indented(statements)) + "\n")


def test_only_tiles_of_reduced_dims_come_before():
    frame = frame_of("matmul_staged")
    assert repr(tiles_before(frame.tilings, frame.problem.contracted)) == "t_j - lo_j"
    assert repr(tiles_before(frame.tilings, ())) == "0"


OPERATIONS = {"min": min, "/": operator.floordiv, "%": operator.mod}


def walked(swath: int, parts: tuple[int, int, int], order: tuple[int, ...]) -> list[list[int]]:
    """The parts of all dims of a product, group by group."""
    frame = frame_of("gpu_matmul_local")
    extents = [frame.problem.extent(d) for d in frame.problem.dims]
    ones = (1, 1, 1)
    schedule = replace(frame.schedule, parts=parts, registers=ones, threads=ones, tiles=(0, 0, 0))
    tilings = tilings_of(frame.problem, schedule)
    assert tuple(tiling.parts.constant for tiling in tilings) == parts, extents
    swathed = (0, 2) if swath else None
    found: list[list[int]] = []
    for group in range(parts[0] * parts[1] * parts[2]):
        values = {"group": group}
        for statement in group_bounds(tilings, order, swath, swathed):
            assert isinstance(statement, LetIndex)
            value = statement.value
            if isinstance(value, IndexCalc):
                sides = evaluated(value.lhs, values), evaluated(value.rhs, values)
                values[statement.name] = OPERATIONS[value.op](*sides)
            else:
                values[statement.name] = evaluated(value, values)
        found.append([values.get(tiling.var("z"), 0) for tiling in tilings])
    return found


def test_swaths_go_down_some_rows_before_the_next_column():
    found = [(row, column) for row, _, column in walked(2, (5, 1, 3), (0, 2, 1))]
    assert found[:6] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert found[6:8] == [(2, 0), (3, 0)]
    assert found[12:] == [(4, 0), (4, 1), (4, 2)]


@pytest.mark.parametrize("swath", [2, 3, 7])
@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0, 2)])
def test_every_part_is_some_group(swath, order):
    parts = (5, 2, 3)
    assert sorted(walked(swath, parts, order)) == sorted(walked(0, parts, order))
