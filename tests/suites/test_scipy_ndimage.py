"""scipy's own tests of its filters pass on mdtensor's."""

from __future__ import annotations

import re

import pytest

from tests.suites.run import run

pytestmark = pytest.mark.campaign


def test_scipy_ndimage_passes_whole() -> None:
    """Nothing is delegated; float16 is not refused, and ranks are of small windows."""
    result = run("ndimage", reference=True)
    assert result.code == 0, result.out
    assert re.search(r"^2\d{3} passed, 9 deselected", result.out, flags=re.MULTILINE), result.out
    assert "generated kernels: 100.0% of the arithmetic" in result.out
