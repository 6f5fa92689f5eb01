"""What stands for CuPy where there is no GPU: arrays of NumPy that say on which device they are."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mdtensor.api.arrays import cupy_arrays, invalidation
from mdtensor.api.engine import registry
from mdtensor.translate import reference
from mdtensor.translate.md_hom import MDHom


def forget_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call had arrays of CuPy's yet, until the end of a test."""
    monkeypatch.setattr(cupy_arrays, "_library", None)
    monkeypatch.setattr(cupy_arrays, "array_class", None)


class Array:
    """An array that says it is CuPy's, and is no array of NumPy's; on the current device."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.host = np.empty(shape, dtype)
        self.data = SimpleNamespace(device_id=current())

    @classmethod
    def of(cls, host: np.ndarray, device: int | None = None) -> Array:
        made = cls((), "i1")
        made.host = host
        made.data.device_id = current() if device is None else device
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)

    def __getitem__(self, index: Any) -> Array:
        return Array.of(self.host[index], self.data.device_id)

    def transpose(self, axes: Any) -> Array:
        return Array.of(self.host.transpose(axes), self.data.device_id)

    def __dlpack__(self, *, stream: int | None = None) -> Array:
        return self

    @property
    def _c_contiguous(self) -> bool:
        return self.host.flags.c_contiguous


Array.__module__ = "cupy"
_thread = threading.local()


def current() -> int:
    """The number of this thread's current device."""
    return getattr(_thread, "device", 0)


def use(device: int) -> None:
    """Makes a device the current one."""
    _thread.device = device


class Program:
    """Runs the reference on arrays of the device that was the current one when it was made."""

    def __init__(self, md_hom: MDHom, made: list[str]) -> None:
        self.md_hom, self.made, self.device = md_hom, made, current()

    def launcher(self) -> Callable[..., None]:
        self.made.append("launcher")
        return self._run

    def __call__(self, *arrays: Any) -> None:
        self._run(*arrays)

    def beginner(self, *, behind: bool = False) -> tuple[Callable[..., None], None]:
        self.made.append("beginner")
        return self._run, None

    def _run(self, *arrays: Array) -> None:
        self.run(*arrays)

    def run(self, *arrays: Array) -> None:
        """Fills the outputs."""
        assert {current(), *(array.data.device_id for array in arrays)} == {self.device}
        count = len(self.md_hom.inputs)
        hosts = [array.host for array in arrays]
        reference.compute(self.md_hom, hosts[:count], hosts[count:])


def module() -> ModuleType:
    cupy: Any = ModuleType("cupy")
    cupy.ndarray = Array
    cupy.asarray = lambda a: a if isinstance(a, Array) else Array.of(np.asarray(a))
    cupy.empty, cupy.from_dlpack = Array, lambda tensor: tensor.array
    cupy.may_share_memory = lambda a, b: np.may_share_memory(a.host, b.host)
    cupy.copyto = lambda a, b, casting: np.copyto(a.host, b.host, casting=casting)
    runtime = SimpleNamespace(getDevice=current, setDevice=use)
    cupy.cuda = SimpleNamespace(runtime=runtime, get_current_stream=lambda: SimpleNamespace(ptr=0))
    return cupy


NOT_JOINED = SimpleNamespace(
    fused=lambda program, use_store: None, counted=lambda program, run, use_store, alone: run
)
ENGINE = SimpleNamespace(
    target=SimpleNamespace(kind="gpu"),
    joined=NOT_JOINED,
    fills_with_zeros=lambda md_hom: False,
)
"""What stands for the engine of a GPU: calls of several programs stay such."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What launchers were made, on a machine of several devices with what stands for CuPy."""
    found: list[str] = []
    choose, open_engine = registry.choice_for, registry.engine_for

    def choice_for(md_hom: MDHom, arrays: str = "numpy") -> Any:
        if arrays != "cupy":
            return choose(md_hom, arrays)
        return SimpleNamespace(program=Program(md_hom, found))

    def engine_for(arrays: str = "numpy") -> Any:
        return ENGINE if arrays == "cupy" else open_engine(arrays)

    monkeypatch.setitem(sys.modules, "cupy", module())
    monkeypatch.setattr(registry, "choice_for", choice_for)
    monkeypatch.setattr(registry, "engine_for", engine_for)
    monkeypatch.setattr(registry, "choose_ahead", lambda md_homs, arrays: None)
    forget_cupy(monkeypatch)
    use(0)
    invalidation.clear()
    yield found
    use(0)
    invalidation.clear()
