"""How far loops go whose bounds are data: what the arrays say that they read."""

from __future__ import annotations

import numpy as np
import pytest

from mdtensor.directive import mdh
from tests.translate.loops.random_loops import function_of

EXTENTS = [
    ("s += a[k]", 7),
    ("s += a[k] * b[k]", 5),
    ("s += a[k + 1]", 6),
    ("s += a[2 * k]", 4),
    ("s += a[i + k]", 7),
    # Python counts from the end until that is outside, too.
    ("s += a[3 - k]", 11),
    ("s += b[int(a[k])]", 7),
    ("s += a[k] if b[k] > 0 else 2.0", 5),
    ("s += a[k] if k < 7 else b[k - 7]", 12),
    ("if k < 5:\n                s += b[k]", 5),
    ("if b[k] > 0:\n                s += a[k]", 5),
    ("if k < 7:\n                s += a[k]\n            t += b[k]", 5),
    ("if k < 7:\n                s += a[k]\n            if k < 5:\n                t += b[k]", 7),
    # Loops inside may be empty.
    ("for _ in range(int(a[k])):\n                s += b[k]", 7),
    ("for m in range(k):\n                s += b[k] * m\n            t += a[k]", 7),
    ("for m in range(3):\n                s += b[k] * m\n            t += a[k]", 5),
]


@pytest.mark.parametrize(("body", "extent"), EXTENTS)
def test_arrays_end_loops(body: str, extent: int) -> None:
    text = (
        "def nest(y, n, a, b):\n"
        "    for i in range(len(y)):\n"
        "        s = t = 0.0\n"
        "        for k in range(n[i]):\n"
        f"            {body}\n"
        "        y[i] = s + t\n"
    )
    steps = mdh(function_of(text)).steps(np.zeros(3), np.ones(3, int), np.ones(7), np.ones(5))
    assert {step.extents["k"] for step in steps if "k" in step.extents} == {extent}
