"""Another library's threads: where they are found, and who is told of them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from mdtensor.api.arrays import torch_tensors
from mdtensor.backends.host import openmp_team


@pytest.fixture(autouse=True)
def nothing_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmp_team, "_found", 0)
    monkeypatch.setattr(openmp_team, "_listeners", [])


@pytest.mark.parametrize("content", [None, b"", b"no library"])
def test_torch_without_a_library_of_its_own_has_no_team(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert openmp_team.parallel_of_torch() == 0
    torch = ModuleType("torch")
    torch.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "torch", torch)
    if content is not None:
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "libtorch_cpu.so").write_bytes(content)
    assert openmp_team.parallel_of_torch() == 0


def test_devices_are_told_once_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    openmp_team.when_shared(told.append)
    monkeypatch.setattr(openmp_team, "parallel_of_torch", lambda: 0)
    openmp_team.share_threads_of_torch()
    assert told == []  # there is none
    monkeypatch.setattr(openmp_team, "parallel_of_torch", lambda: 4711)
    openmp_team.share_threads_of_torch()
    openmp_team.share_threads_of_torch()
    assert told == [4711]
    openmp_team.when_shared(told.append)
    assert told == [4711, 4711]


def test_the_first_tensor_shares_torchs_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[None] = []
    monkeypatch.setattr(torch_tensors, "share_threads_of_torch", lambda: shared.append(None))
    tensor = type("Tensor", (), {"__module__": "torch"})()
    assert not torch_tensors.is_tensor(object())
    assert shared == []
    assert all(torch_tensors.is_tensor(tensor) for _ in range(3))
    assert shared == [None]
