"""Kernels that run one after the other as one: what is joined, and how arrays are shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import joined_program_of
from mdtensor.lower.schedule.schedule import Schedule
from tests.kernels.kernel_cases import cpu, matmul
from tests.lower import fuzz
from tests.lower.fuzz import Case

RNG = np.random.default_rng(3)
STAGED = cpu(
    3,
    (1,),
    lane=2,
    width=4,
    registers=(2, 1, 8),
    tiles=(4, 4, 8),
    group_order=(2, 1, 0),
    staged=("", "scratch"),
    inline=True,
)
# Products of 5×9, 9×21 and 21×10 elements: numbers of the arrays, and what lies between.
SHAPES = {0: (5, 9), 1: (9, 21), 2: (21, 10), 3: (5, 21), 4: (5, 10)}
BETWEEN = {3: 5 * 21 * 4}


def chain(first: Schedule, second: Schedule, inputs: Sequence[int] = (0, 1, 2)) -> KernelSource:
    steps = [
        (Case(matmul(5, 9, 21), first).problem(), first, (0, 1, 3)),
        (Case(matmul(5, 21, 10), second).problem(), second, (3, 2, 4)),
    ]
    return joined_program_of(steps, inputs, (4,), BETWEEN, OPENCL, ("first", "second"))


def test_what_lies_between_is_in_scratch_memory_before_what_kernels_stage() -> None:
    source = chain(STAGED, STAGED)
    (entry,) = source.entries
    alone = 448  # 105 floats, up to the next line
    assert entry.scratch.constant is not None
    assert entry.scratch.constant > alone
    assert [argument.name for argument in source.arrays] == ["given0", "given1", "given2", "given4"]
    assert source.text.startswith("// first\n// second\n")
    arrays = [RNG.random(SHAPES[n], np.float32) for n in (0, 1, 2)]
    result = np.full(SHAPES[4], np.nan, np.float32)
    program = fuzz.device().compile(source)
    program(*arrays, result)
    first, second, third = (array.astype("f8") for array in arrays)
    np.testing.assert_allclose(result, first @ second @ third, rtol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"inline": False},
        {"parts": (2, 1, 1)},
        {"parts": (1, 2, 1)},
        {"streaming": True, "width": 2},
    ],
    ids=str,
)
def test_what_is_not_the_calling_threads_as_one_kernel_is_refused(
    change: dict[str, object],
) -> None:
    with pytest.raises(LoweringError, match="joined"):
        chain(STAGED, replace(STAGED, **change))


def test_arrays_that_no_kernel_uses_are_refused() -> None:
    with pytest.raises(LoweringError, match="no kernel uses"):
        chain(STAGED, STAGED, inputs=(0, 1, 2, 7))
