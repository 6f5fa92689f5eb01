"""The register tile: its points, and the unrolled computation."""

from __future__ import annotations

import pytest

from mdtensor.lower.codegen.base.frame import tile_of
from mdtensor.lower.codegen.body.micro_kernel import compute_tile
from mdtensor.lower.ir.statements import Let, Loop, indented
from mdtensor.lower.ir.values import Calc
from tests.lower.codegen.frames import frame_of

NAMES = (
    "matmul_remainder",
    "matmul_staged",
    "matmul_complex",
    "matmul_int8",
    "matvec_reduced_lane",
    "dot_split",
    "gpu_matmul_local",
    "gpu_dot_items",
    "gpu_outer",
)


def whole_tile(name: str):
    frame = frame_of(name)
    counts = {d: frame.tilings[d].register for d in frame.problem.kept}
    return frame, tile_of(frame, counts)


@pytest.mark.parametrize("name", NAMES)
def test_computation(name, golden):
    statements = compute_tile(*whole_tile(name))
    golden(f"passes/micro_kernel/{name}.txt", "\n".join(indented(statements)) + "\n")


def test_an_element_is_loaded_once_for_all_points_that_use_it():
    frame, tile = whole_tile("matmul_remainder")
    (loop,) = (s for s in compute_tile(frame, tile) if isinstance(s, Loop))
    loads = [s for s in loop.body if isinstance(s, Let)]
    assert len(tile.points) * len(tile.pieces) == 4
    assert len(loads) == 4  # two elements of A, two vectors of B
    assert not any(isinstance(s.value, Calc) for s in loads)
