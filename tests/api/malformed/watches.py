"""What happens beside a call while it is made: compilations, and collections of garbage."""

from __future__ import annotations

import gc
import time
from typing import Any, Self

from mdtensor.backends.llvm.jit_compiler import JitCompiler
from mdtensor.backends.opencl.opencl_device import OpenCLDevice

_COMPILERS = ((JitCompiler, "object_code"), (OpenCLDevice, "build"))


class Compilations:
    """Counts what compilers are asked for while a call is made."""

    def __init__(self) -> None:
        self.count = 0
        self._own: list[Any] = []

    def __enter__(self) -> None:
        self._own = [getattr(kind, name) for kind, name in _COMPILERS]
        for (kind, name), own in zip(_COMPILERS, self._own, strict=True):
            setattr(kind, name, self._counted(own))

    def _counted(self, own: Any) -> Any:
        def compiled(*args: Any, **named: Any) -> Any:
            self.count += 1
            return own(*args, **named)

        return compiled

    def __exit__(self, *_: object) -> None:
        for (kind, name), own in zip(_COMPILERS, self._own, strict=True):
            setattr(kind, name, own)


class FullCollections:
    """The time of the thread that garbage collections of all objects take while a call is made."""

    def __init__(self) -> None:
        self.seconds = self._begun = 0.0

    def __enter__(self) -> Self:
        gc.callbacks.append(self._told)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._told)

    def _told(self, phase: str, collection: dict[str, int]) -> None:
        if collection["generation"] < 2:
            return
        if phase == "start":
            self._begun = time.thread_time()
        else:
            self.seconds += time.thread_time() - self._begun
