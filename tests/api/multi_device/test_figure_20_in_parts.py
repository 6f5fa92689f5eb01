"""The computations of Figure 20 on two devices, cut along each dim that can be cut."""

from __future__ import annotations

import numpy as np
import pytest

from tests.api.multi_device.pools import by_each_dim
from tests.figure_20 import FIGURE, Computation


@pytest.mark.sampled(6)
@pytest.mark.parametrize("row", FIGURE, ids=str)
def test_a_row_in_parts(row: Computation) -> None:
    operands = row.operands(*row.sizes[1])
    expected = row.oracle(*operands)
    rights = expected if isinstance(expected, tuple) else (expected,)
    ways = {**dict(list(row.expressions.items())[:1]), **dict(list(row.programs.items())[:1])}
    cuts = 0
    for way, function in ways.items():
        for dim, shares, results in by_each_dim(function, operands, {"llvm": 3, "pool": 2}):
            cuts += 1
            for found, right in zip(results, rights, strict=True):
                said = f"{row} {way} along {dim}: {shares}"
                if np.asarray(right).dtype.kind in "iu":
                    np.testing.assert_array_equal(found, right, err_msg=said)
                    continue
                terms = max(operand.size for operand in operands)
                finite = np.abs(right)[np.isfinite(right)]
                close = terms * np.finfo(np.asarray(found).dtype).eps
                np.testing.assert_allclose(
                    found, right, close, close * finite.max(initial=0), err_msg=said
                )
    assert cuts
