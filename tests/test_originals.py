"""Functions of mdtensor in the places of NumPy's and scipy's, put there before its first call."""

from __future__ import annotations

import pytest

from tests import children

pytestmark = pytest.mark.process

PROGRAM = """
import numpy as np
import scipy.signal
import mdtensor as mdt

wanted = {expected}
{replaced} = lambda *args, **options: mdt.{function}(*args, **options)
found = {replaced}({arguments})
assert str(found) == str(wanted), found
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


@pytest.mark.parametrize(("replaced", "function", "arguments", "expected"), CASES)
def test_what_is_handed_on_does_not_come_back(
    replaced: str, function: str, arguments: str, expected: str | None
) -> None:
    program = PROGRAM.format(
        replaced=replaced,
        function=function,
        arguments=arguments,
        expected=expected or f"{replaced}({arguments})",
    )
    children.run("-W", "ignore", "-c", program)
