"""Convolutions whose tiles bulk copies bring: text that NVRTC compiles, boxes, what is refused.

No CPU runs these kernels; `python -m tests.lower.bulk_cuda` does, on a GPU of capability 9.0.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.lowering import lowered
from tests.kernels.nvrtc_compiler import compiled
from tests.lower.codegen.tma.tma_convolutions import CASES


def source_of(name: str):
    found = CASES[name]
    return program_of(found.problem(), found.schedule, CUDA)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_compiles(name):
    source = source_of(name)
    ptx = compiled(source.text, "sm_90a")
    assert "wgmma.mma_async" in ptx
    assert ("bulk_group" in ptx) == bool(CASES[name].schedule.results)


@pytest.mark.parametrize("name", ["a stride of 2", "without padding", "ragged channels"])
def test_arrays_that_begin_anywhere_are_read_by_work_items(name):
    unaligned = source_of(name).unaligned
    assert unaligned is not None
    assert not unaligned.maps
    assert "copy_box" not in unaligned.text
    compiled(unaligned.text, "sm_90a")


def test_a_tile_is_a_box_of_images_rows_and_columns_at_the_offset_of_a_tap():
    source = source_of("bfloat16 of ResNet's middle")
    image, taps, result = source.maps
    assert (image.extents, image.strides) == ((128, 28, 28, 16), (1, 128, 3584, 100352))
    assert (image.box, image.steps) == ((64, 4, 4, 8), ())
    assert (taps.extents, taps.box) == ((128, 3, 3, 128), (64, 1, 1, 128))
    assert (result.extents, result.box) == ((128, 28, 28, 16), (64, 4, 4, 1))
    (copied,) = re.findall(r"copy_box\(S0.*", source.text)
    places = ", ".join(
        f"(int)({place})" for place in ("n_C", "t_p1 + n_r1 - 1", "t_p0 + n_r0 - 1", "t_N")
    )
    assert copied.endswith(f"{places});")


def test_a_stride_is_the_distance_of_a_boxs_elements():
    image = source_of("a stride of 2").maps[0]
    assert (image.extents, image.box, image.steps) == (
        (64, 24, 20, 4), (64, 4, 4, 4), (1, 2, 2, 1),
    )  # fmt: skip


def test_without_padding_channels_and_columns_of_taps_are_one_dim():
    image, taps, _ = source_of("without padding").maps
    assert (image.extents, image.strides) == ((192, 12, 12, 4), (1, 64, 896, 10752))
    assert taps.extents == (192, 3, 64)


def test_a_stage_has_the_bytes_of_its_boxes():
    (expected,) = re.findall(r"expect_bytes\(full \+ stage, (\d+)\)", source_of("192 rows").text)
    assert int(expected) == (192 + 64) * 64 * 2


_MESSAGES = {
    "rows go by lanes, then points, then warps": {
        "threads": (8, 4, 2, 4, 1, 1, 1),
        "warp": (1, 4, 2, 4, 1, 1, 1),
        "registers": (1, 32, 1, 2, 16, 1, 1),
    },
    "the rows of a block are numbered as they lie in their array": {
        "loop_order": (0, 3, 2, 1),
        "warp": (1, 4, 4, 2, 1, 1, 1),
        "threads": (8, 4, 4, 2, 1, 1, 1),
        "registers": (1, 32, 1, 2, 16, 1, 1),
        "results": "",
    },
    "four warps have 64 rows": {"threads": (6, 4, 2, 4, 1, 1, 1)},
    "a warp has 8 rows of 4 work-items": {"warp": (2, 4, 2, 4, 1, 1, 1)},
}


@pytest.mark.parametrize("message", _MESSAGES)
def test_rows_that_cannot_be_are_refused(message):
    found = CASES["bfloat16 of ResNet's middle"]
    schedule = replace(found.schedule, **_MESSAGES[message])
    with pytest.raises(LoweringError, match=message):
        lowered(found.problem(), schedule, aligned=True)


def test_rows_along_a_dim_of_both_factors_are_refused():
    found = CASES["groups"]
    changed = {"threads": (2, 2, 4, 2, 4, 1, 1, 1), "results": ""}
    with pytest.raises(LoweringError, match="one point of the dims that are no matrix's own"):
        lowered(found.problem(), replace(found.schedule, **changed), aligned=True)
