"""Right results of cases on GPUs, by a process of their own."""

from __future__ import annotations

import numpy as np
import pytest

from bench.cuda_cases import CASES
from bench.cuda_references import References
from bench.families import BEYOND, EINSUM

NAMES = {
    BEYOND: ["depthwise-1x112x112x32-32x3x3", "mbbs-4096x4096"],
    EINSUM: ["matmul-256x256x256-int8"],
}


@pytest.mark.parametrize("family", NAMES)
def test_results_are_those_of_the_cases(family: str) -> None:
    workloads = {workload.name: workload for workload in CASES[family]}
    with References(family, NAMES[family]) as references:
        for name in reversed(NAMES[family]):
            found, workload = references.of(name), workloads[name]
            expected = workload.reference(workload.operands())
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
            with pytest.raises(KeyError, match=name):
                references.of(name)


def test_none_are_computed_where_none_are_named() -> None:
    references = References(BEYOND, [])
    with pytest.raises(KeyError):
        references.of("mbbs-4096x4096")
    references.close()
    references.close()


def test_what_that_process_raises_is_raised() -> None:
    with References(BEYOND, ["no case"]) as references:
        with pytest.raises(KeyError, match="no case") as raised:
            references.of("no case")
        assert raised.value.__cause__ is not None  # where it was raised there
