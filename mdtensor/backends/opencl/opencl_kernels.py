"""Kernel objects of compiled programs, and what launches see of a program and its device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from mdtensor.backends.host.deferred_release import Owner
from mdtensor.backends.opencl.opencl_runtime import bare_kernels
from mdtensor.kernels.kernel_source import KernelSource

ADDRESS = b"L"  # an unsigned long, among the kinds of numbers that PyOpenCL packs

# A kernel object, its work-items, and those of a group.
Launch = tuple[Any, tuple[int], tuple[int]]


class Kernels:
    """Makes the kernel objects of a program, which hold the arguments of a launch.

    Making one takes longer than some kernels run, so each thread has some to share among launches
    that set all arguments.
    """

    def __init__(self, cl: Any, owner: Owner[Any], source: KernelSource) -> None:
        self.cl = cl
        self._owner = owner
        self.names = [entry.name for entry in source.entries]
        self.threads = [(entry.threads,) for entry in source.entries]
        self.arrays = len(source.arrays)
        self._local = threading.local()

    def made(self) -> list[Any]:
        """A new kernel object for each kernel of the program."""
        made = bare_kernels(self.cl, self._owner.held, self.names)
        for kernel in made:
            kernel.owner = self._owner  # since it keeps the program as well
        return made

    def shared(self) -> list[Any]:
        """The ones that all launches of this thread may use."""
        try:
            return self._local.kernels
        except AttributeError:
            self._local.kernels = self.made()
            return self._local.kernels


class LaunchingDevice(Protocol):
    """A device as its programs see it."""

    cl: Any
    context: Any
    queue: Any
    inline_queue: Any
    enqueue: Callable[..., Any]
    takes_addresses: bool

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> Any:
        """A compiled program."""
        ...

    def scratch(self, nbytes: int, *, inline: bool) -> tuple[np.ndarray, Any]:
        """Scratch memory of this thread, and the object by which a kernel takes it."""
        ...

    def argument(self, array: np.ndarray) -> Any:
        """The argument of a generated kernel for an array that starts at its first element."""
        ...

    def set_arguments(self, kernel: Any, first: int, arguments: Iterable[Any]) -> None:
        """Sets what `argument` gave as arguments of a kernel, from the first position on."""
        ...


class Launchable(Protocol):
    """A program as the functions that launch it see it."""

    device: LaunchingDevice
    kernels: Kernels
    queue: Any
    finish: Callable[[], None]
    waits: bool
    local: threading.local

    def launches(self) -> list[Launch]:
        """Kernels with their fixed arguments set: shared ones for the first calls of a thread."""
        ...

    def prepared(self, kernels: list[Any]) -> list[Launch]:
        """These kernels with their fixed arguments set, and how each is launched."""
        ...

    def addresses(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """Position, kind and value of the arguments that the arrays are."""
        ...
