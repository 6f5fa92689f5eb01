"""Histograms on processors: elements of every type, also where they select no point."""

from __future__ import annotations

import numpy as np
import pytest

from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.llvm.language import LLVM_IR_FMA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from tests.lower import fuzz_llvm, running
from tests.targets import CPU

COUNT = 1001


def histogram(dtype: str, bins: int) -> tuple[Problem, Schedule]:
    counted = Reduction("e->b", lambda e, *, b: 1 if e == b else 0, extents={"b": bins})
    problem = problem_from_md_hom(md_hom_from_reduction(counted, [TensorSpec.of((COUNT,), dtype)]))
    return problem, next(s for _, s in ranked(problem, CPU) if s.scatter)


@pytest.mark.parametrize(
    ("dtype", "bins"),
    [("i1", 300), ("i2", 70_000), ("i4", 9), ("i8", 9), ("u1", 99), ("u4", 9)],
)
def test_elements_outside_of_all_bins_are_not_counted(dtype: str, bins: int) -> None:
    limits = np.iinfo(dtype)
    draw = np.random.default_rng(bins)
    drawn = draw.integers(max(limits.min, -9), min(limits.max, bins + 9), COUNT - 2)
    elements = np.array([*drawn, limits.min, limits.max]).astype(dtype)
    inside = elements[(elements >= 0) & (elements < bins)]
    problem, schedule = histogram(dtype, bins)
    runs: list[tuple[object, KernelSource]] = [
        (running.device(), program_of(problem, schedule, OPENCL)),
        (fuzz_llvm.device(), program_of(problem, schedule, LLVM_IR_FMA)),
    ]
    for device, source in runs:
        (output,) = problem.outputs
        out = np.full(bins, -7, output)
        device.compile(source)(elements, out)
        np.testing.assert_array_equal(out, np.bincount(inside, minlength=bins))


def test_narrow_elements_are_widened_without_their_sign() -> None:
    text = program_of(*histogram("i4", 9), OPENCL).text
    assert "(long)((uint)(x0))" in text
    assert f"at0 < {1 << 31}" in text
