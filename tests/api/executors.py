"""What computes the `md_hom`s of a test: generated kernels, or the reference interpreter."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mdtensor.api.arrays import invalidation
from mdtensor.api.calls import program_calls
from mdtensor.translate import reference

EXECUTORS = ("kernels", "reference")


def executions(
    names: Iterable[str], dtypes: Iterable[str], compiled: Iterable[str]
) -> list[tuple[str, str, str]]:
    """Executor, name and type: all by the reference, some of the types by kernels."""
    pairs = [(name, dtype) for name in names for dtype in dtypes]
    by_kernels = [("kernels", name, dtype) for name, dtype in pairs if dtype in set(compiled)]
    return [*by_kernels, *(("reference", name, dtype) for name, dtype in pairs)]


def use_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the reference interpreter compute instead of kernels, also what they computed before."""
    invalidation.clear()
    monkeypatch.setattr(program_calls, "executor", reference.compute)
