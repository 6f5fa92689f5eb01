"""What happens beside a call while it is made: compilations, and collections of garbage."""

from __future__ import annotations

import gc
import time
from typing import Any, Self

from mdtensor.backends.opencl.opencl_device import OpenCLDevice


class Compilations:
    """Counts what compilers are asked for while a call is made."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self._build = OpenCLDevice.build

        def build(device: Any, *args: Any, **named: Any) -> Any:
            self.count += 1
            return self._build(device, *args, **named)

        OpenCLDevice.build = build  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        OpenCLDevice.build = self._build  # type: ignore[method-assign]


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
