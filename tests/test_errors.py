"""Warnings: where they point to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mdtensor as mdt

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda a: mdt.ndimage.minimum_filter(a, size=3, footprint=np.ones((1, 3))),
        lambda a: mdt.ndimage.correlate(a, np.ones((2, 2), "c8"), output=np.float64),
    ],
)
def test_a_warning_points_to_the_call(call) -> None:
    with pytest.warns(UserWarning, match="ignoring|promoting") as caught:
        call(np.ones((3, 4)))
    ours = [each for each in caught if "compiler" not in str(each.message)]  # PyOpenCL warns too
    assert [each.filename for each in ours] == [__file__]


SCRIPT = """
import numpy as np, mdtensor as mdt
def contraction(a):
    return mdt.einsum("ij,jk->ik", a, a)
contraction(np.ones((3, 3)))
"""


def test_a_store_that_cannot_be_used_is_told_where_the_user_called(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    closed = tmp_path / "closed"
    closed.write_text("no directory")
    places = {"MDTENSOR_CACHE_DIR": str(closed / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, script],
        env=os.environ | places,
        capture_output=True,
        text=True,
        check=True,
        timeout=250,
    )
    assert f"{script}:4: StoreWarning: the store" in done.stderr
    assert done.stderr.count("StoreWarning") == 1
