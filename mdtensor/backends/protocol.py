"""The protocols of backends: devices, compilers and compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mdtensor.backends.host.binary_cache import Binaries, Compiled
    from mdtensor.kernels.kernel_source import KernelSource
    from mdtensor.specs import Target

Array = Any  # an array of the backend: numpy.ndarray, cupy.ndarray, …


class CompiledProgram(Protocol):
    """A compiled program bound to sizes, launchable from any thread."""

    def __call__(self, *arrays: Array) -> None:
        """Run the kernels on inputs and outputs; blocks only where NumPy would."""
        ...

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> CompiledProgram:
        """Rebind the program to other run-time sizes, without compiling again."""
        ...

    def launcher(self) -> Callable[..., None]:
        """A function equivalent to a call, optimised for repeated calls."""
        ...

    def beginner(
        self, *, behind: bool = False
    ) -> tuple[Callable[..., None], Callable[[], None] | None]:
        """A launcher that returns at once, and a function that waits for the work.

        The function is None where the launcher returns when NumPy would. Work that comes `behind`
        what the device's threads were given before is theirs too, where that can be.
        """
        ...


class Compiler(Protocol):
    """A compiler that needs no access to the device, for other processes."""

    def compiled(self, source: KernelSource) -> Compiled:
        """Compile a program not bound to sizes; CompileError if the source is refused."""
        ...


class ComputeDevice(Protocol):
    """A backend's device: Target, compiler and arrays.

    `faults` are the errors after which it may be lost to the process. One that `hurries` compiles
    a hasty program in a fraction of the time that another takes.
    """

    faults: tuple[type[Exception], ...]
    hurries: bool

    @property
    def binaries(self) -> Binaries:
        """The disk cache of machine code, by `machine_code_key`."""
        ...

    @property
    def target(self) -> Target:
        """The device facts for schedules."""
        ...

    @property
    def arrays(self) -> str:
        """The kind of arrays that programs take: "numpy" or "cupy"."""
        ...

    @property
    def compiler(self) -> Mapping[str, str] | None:
        """The description for `select.open_compiler`; None if only the device can compile."""
        ...

    def machine_code_key(self, source: KernelSource) -> str:
        """The cache key of machine code: the device, its driver, options, the text."""
        ...

    def compiled(self, source: KernelSource) -> Compiled:
        """Compile a program, for `load`; CompileError if it is refused."""
        ...

    def load(self, compiled: Compiled, sizes: Sequence[int] = ()) -> CompiledProgram:
        """Load a program compiled in this or another process; CompileError if it is refused."""
        ...

    def is_captured(self) -> bool:
        """Whether this thread's launches are being captured into a graph."""
        ...

    def is_lost(self) -> bool:
        """Whether the device is unusable in this process."""
        ...

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> CompiledProgram:
        """Compile a program and bind it to sizes; CompileError if it is refused."""
        ...

    def empty(
        self, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
    ) -> Array:
        """An uninitialised array, aligned for streaming stores."""
        ...
