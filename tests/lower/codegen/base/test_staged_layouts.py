"""Layouts of staged tiles: where their elements lie."""

from __future__ import annotations

from tests.lower.codegen.frames import frame_of


def test_axes_are_blocks_then_reduced_dims_then_points_with_the_lanes_innermost():
    layout = frame_of("matmul_staged").layouts[1]
    assert [(axis.dim, axis.part) for axis in layout.axes] == [
        (2, "outer"),
        (1, "full"),
        (2, "inner"),
    ]
    assert [axis.stride.constant for axis in layout.axes] == [32, 8, 1]


def test_axes_of_a_stream_are_dense():
    layouts = frame_of("gpu_matmul_local").layouts
    for layout in layouts.values():
        size = 1
        for axis in reversed(layout.axes):
            assert axis.stride.constant == size
            size *= axis.extent.constant or 0
        assert layout.size.constant == size
