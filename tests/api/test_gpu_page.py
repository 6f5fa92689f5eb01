"""The code of docs/gpu.md runs as it is printed: on a GPU, or small, by what stands for CuPy."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.api.cupy_stand_in import Array, made

__all__ = ["made"]

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
BLOCKS = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"))


def run(blocks: list[str]) -> dict[str, Any]:
    """The names that the page's code leaves, one block after the other."""
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def check(blocks: list[str], host: Callable[[Any], np.ndarray]) -> None:
    """Runs them and compares what they compute; `host` fetches an array."""
    first = run(blocks[:1])
    a, b, c, counts = (host(first[name]) for name in ("a", "b", "c", "y"))
    np.testing.assert_allclose(c, a.astype("f8") @ b, rtol=1e-4)
    taps = first["filters"].shape[1:]
    assert counts.shape == (*first["images"].shape[:3], first["filters"].shape[0])
    assert (counts[:, 1:-1, 1:-1] == np.prod(taps)).all()
    assert (counts[:, 0, 0] == 4 * taps[2]).all()
    second = run(["import mdtensor as mdt", *blocks[1:]])
    x, w, y = (host(second[name]) for name in "xwy")
    np.testing.assert_allclose(y, x.astype("f8") @ w, rtol=1e-3, atol=1e-3)


@pytest.mark.gpu
def test_the_page_runs_on_a_gpu() -> None:
    check(BLOCKS, lambda array: array.cpu().numpy() if hasattr(array, "cpu") else array.get())


class Tensor:
    """What stands for torch's tensors in a GPU's memory."""

    def __init__(self, array: Array) -> None:
        self.array, self.device = array, "cuda:0"

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.array.data.device_id

    def __dlpack__(self, **_: object) -> None:
        raise AssertionError("it is shared by from_dlpack")


def torch(rng: np.random.Generator) -> ModuleType:
    module: Any = ModuleType("torch")
    module.randn = lambda *shape, device: Tensor(Array.of(rng.normal(size=shape).astype("f4")))
    module.from_dlpack = Tensor
    return module


@pytest.mark.usefixtures("made")
def test_the_page_runs_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    cupy: Any = sys.modules["cupy"]
    cupy.random = ModuleType("random")
    cupy.random.rand = lambda *shape, dtype: Array.of(rng.random(shape).astype(dtype))
    cupy.ones = lambda shape, dtype: Array.of(np.ones(shape, dtype))
    monkeypatch.setitem(sys.modules, "torch", torch(rng))
    small = [re.sub(r"\b\d\d+\b", "8", block) for block in BLOCKS]
    check(small, lambda array: getattr(array, "array", array).host)
