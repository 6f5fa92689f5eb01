"""Groups and cache tiles."""

from __future__ import annotations

import pytest

from mdtensor.lower.nest import Comment, indented
from mdtensor.lower.passes.partition import cache_tiles, group_bounds, tiles_before
from tests.lower.passes.frames import frame_of

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
