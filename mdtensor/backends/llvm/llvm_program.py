"""Launches of LLVM kernels on NumPy arrays, in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.backends.llvm.native_launch import NativeLaunch
from mdtensor.forks import cached_property
from mdtensor.kernels.kernel_source import ALIGNMENT, KernelSource

Launcher = Callable[..., None]
# A counter is a word of 32 bits, or half of one of 64.
_COUNTER_BYTES = 8


class LLVMLaunchingDevice(Protocol):
    """A device as its programs see it."""

    launches: NativeLaunch

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> LLVMProgram:
        """Compile a program."""
        ...


class LLVMProgram:
    """A compiled program bound to sizes."""

    def __init__(
        self,
        device: LLVMLaunchingDevice,
        addresses: Sequence[int],
        library: Any,
        source: KernelSource,
        sizes: Sequence[int],
        inline: bool,
    ) -> None:
        self.device = device
        self.addresses = addresses
        self.library = library
        self.source = source
        self.inline = inline
        values = dict(zip(source.sizes, sizes, strict=True))
        self.sizes = np.array(sizes, np.int64)
        self.groups = [max(1, evaluated(entry.groups, values)) for entry in source.entries]
        self.scratch_bytes = max(evaluated(entry.scratch, values) for entry in source.entries)
        self.counter_count = max(evaluated(entry.counters, values) for entry in source.entries)

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> LLVMProgram:
        """Rebind the program to other sizes, or to the calling thread (`inline`)."""
        inline = self.inline if inline is None else inline
        return LLVMProgram(self.device, self.addresses, self.library, self.source, sizes, inline)

    @cached_property
    def _launch(self) -> Launcher:
        """The built-in function that launches the program, from any thread."""
        return self.device.launches.launcher(
            list(zip(self.addresses, self.groups, strict=True)),
            len(self.source.arrays),
            (self.library, self.sizes),
            sizes=_address(self.sizes),
            scratch=self.scratch_bytes,
            counters=max(2, self.counter_count) * _COUNTER_BYTES if self.counter_count else 0,
            inline=self.inline,
        )

    def __call__(self, *arrays: np.ndarray) -> None:
        """Run the program on inputs and outputs, and wait."""
        if self.source.unaligned is not None and any(_address(a) % ALIGNMENT for a in arrays):
            self.device.compile(self.source.unaligned, self.sizes.tolist())(*arrays)
        else:
            self._launch(*arrays)

    def launcher(self) -> Launcher:
        """A function equivalent to a call: the built-in one if no alignment is assumed."""
        return self._launch if self.source.unaligned is None else self

    def beginner(self, *, behind: bool = False) -> tuple[Launcher, Callable[[], None] | None]:
        """A launcher, which returns when the outputs are written."""
        return self.launcher(), None


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
