"""Functions of mdtensor in the places of NumPy's and scipy's, put there before its first call."""

from __future__ import annotations

import pytest

from tests import children

pytestmark = pytest.mark.process

PROGRAM = """
import os
import sys
import numpy as np
import scipy.signal
import mdtensor as mdt

for case in {cases}:  # each in a fork, where mdtensor was not called before
    replaced, function, arguments, expected = case
    if not os.fork():
        wanted = eval(expected or f"{{replaced}}({{arguments}})")
        exec(f"{{replaced}} = lambda *args, **options: mdt.{{function}}(*args, **options)")
        found = eval(f"{{replaced}}({{arguments}})")
        assert str(found) == str(wanted), (case, found)
        sys.exit()
    assert os.wait()[1] == 0
"""

CASES = [
    ("np.einsum", "einsum", "'i,i->', np.array([1, 2], object), [3, 4]", "11"),
    ("np.einsum", "einsum", "'ij->ji', np.eye(2, 3)", "np.eye(3, 2)"),
    ("np.einsum_path", "einsum_path", "'i,i->', [1, 2], [3, 4]", None),
    ("np.tensordot", "tensordot", "np.array([1, 2], object), [3, 4], 1", "11"),
    ("np.convolve", "convolve", "np.array([1, 2], object), [3, 4]", "np.array([3, 10, 8], object)"),
    ("np.correlate", "correlate", "np.array([1, 2], object), [3, 4]", "np.array([11])"),
    (
        "scipy.signal.convolve",
        "convolve",
        "np.array([[1, 2]], np.longdouble), [[3]]",
        "np.array([[3.0, 6.0]])",
    ),
    (
        "scipy.signal.correlate",
        "correlate",
        "np.array([[1, 2]], np.longdouble), [[3]]",
        "np.array([[3.0, 6.0]])",
    ),
]


def test_what_is_handed_on_does_not_come_back() -> None:
    children.run("-W", "ignore", "-c", PROGRAM.format(cases=CASES))
