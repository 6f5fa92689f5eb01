"""Guards that bulk copies do without: which are taken away, and the axes behind streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.problem.zero_padding import axes_of, begin_of, zero_filled
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import Pointwise, named
from mdtensor.translate.convolutions.convolution_layout import (
    Geometry,
    convolution_from_layout,
    parse_layout,
)
from mdtensor.translate.convolutions.md_hom_from_convolution import md_homs_from_convolution
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.scalar import const, index_of, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex


def convolution(*, stride: int = 1, padding: int = 1, transposed: bool = False) -> Problem:
    two = (stride,) * 2, ((padding,) * 2,) * 2, (1, 1)
    geometry = Geometry(*two, 1, transposed, (0, 0))
    specs = (TensorSpec.of((2, 9, 8, 16), "f2"), TensorSpec.of((24, 3, 3, 16), "f2"))
    layout = parse_layout("NHWC,KRSC->NPQK")
    blocks = md_homs_from_convolution(convolution_from_layout(layout, geometry, specs))
    return problem_from_md_hom(blocks.whole or blocks.md_homs[0])


@pytest.mark.parametrize("stride", [1, 2])
def test_a_padded_convolution_is_a_product_of_streams(stride: int):
    problem = convolution(stride=stride)
    assert problem.reads[0].computed
    filled = zero_filled(problem)
    assert not any(read.computed for read in filled.reads)
    assert repr(filled.scalar.results[0]) == "(float32(p0) * float32(p1))"
    dims = [filled.labels.index(name) for name in ("N", "p0", "p1", "r0", "r1", "C")]
    strides = [filled.streams[0].strides[d].constant for d in dims]
    assert strides == [1152, 128 * stride, 16 * stride, 128, 16, 1]
    assert [(axis.stride, axis.extent, axis.offset) for axis in axes_of(filled, 0) or ()] == [
        (1, 16, 0), (16, 8, -1), (128, 9, -1), (1152, 2, 0),
    ]  # fmt: skip
    assert (filled.labels, filled.extents) == (problem.labels, problem.extents)


def test_what_has_no_guard_is_left_alone():
    problem = convolution(padding=0)
    assert zero_filled(problem) is problem


def guarded(*, least: int = 0, other: float = 0.0, squared: bool = False) -> Problem:
    """Sums of x[i + k - 1] · y[k], and something else where the index is outside."""
    place = index_of("i") + index_of("k") - 1
    inside = (place >= least) & (place < 8)
    element, weight = param(0, "f4"), param(1, "f4")
    product = (element * element if squared else element) * weight
    value = select(inside, product if not squared else product + 1, const(other, "f4"))
    f4 = np.dtype("f4")
    adds = Pointwise(named("add", [f4]))
    return problem_from_md_hom(
        MDHom(
            (Dim("i", 8, adds), Dim("k", 3, adds)),
            ScalarFunction((f4, f4), (value,), "guarded"),
            (BufferSpec("x", TensorSpec.of((8,))), BufferSpec("y", TensorSpec.of((3,)))),
            (BufferSpec("out", TensorSpec.of(())),),
            (BufferAccess(0, (ComputedIndex(place),)), BufferAccess(1, (AffineIndex.of("k"),))),
            (BufferAccess(0, ()),),
        )
    )


def test_the_guard_must_be_that_of_the_array_and_give_zero():
    assert zero_filled(guarded()) != guarded()
    for other in (guarded(least=1), guarded(other=1.0), guarded(squared=True)):
        assert zero_filled(other) is other


def test_an_element_that_is_read_twice_keeps_its_guard():
    problem = guarded()
    twice = replace(problem, reads=(problem.reads[0], problem.reads[0]))
    assert zero_filled(twice) is twice


def test_dims_that_overlap_walk_through_one_axis_together():
    problem = convolution(padding=0, stride=2)
    axes = axes_of(problem, 0)
    assert axes is not None
    found = [(axis.stride, axis.extent) for axis in axes]
    assert found == [(1, 48), (32, 3), (128, 9), (1152, 2)]  # of taps' columns with channels, too
    rows = problem.labels.index("p0"), problem.labels.index("r0")
    assert [axes[-2].coefficients[d] for d in rows] == [2, 1]


def test_windows_are_walked_backwards_from_an_offset():
    problem = convolution(padding=0)
    stream = problem.streams[0]
    taps = [problem.labels.index(label) for label in problem.labels if label.startswith("r")]
    strides = [s * -1 if d in taps else s for d, s in enumerate(stream.strides)]
    turned = replace(stream, strides=tuple(strides))
    backwards = replace(problem, streams=(turned, problem.streams[1]))
    axes, forwards = axes_of(backwards, 0), axes_of(problem, 0)
    assert axes is not None
    assert forwards is not None
    for one, other in zip(axes, forwards, strict=True):
        assert (one.stride, one.extent) == (other.stride, other.extent)
        back = [d for d in taps if other.coefficients[d]]
        assert [one.coefficients[d] for d in back] == [-other.coefficients[d] for d in back]
        reach = sum(other.coefficients[d] * (problem.extent(d) - 1) for d in back)
        assert one.offset == reach
    first = sum(axis.stride * axis.offset for axis in axes)
    assert first > 0
    assert begin_of(backwards, 0, axes, first).constant == 0
