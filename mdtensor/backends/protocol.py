"""What every backend offers: devices, compiled programs, and how arrays reach them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mdtensor.backends.host.binary_cache import Binaries, Compiled
    from mdtensor.kernels.kernel_source import KernelSource
    from mdtensor.specs import Target

Array = Any  # an array of the backend: numpy.ndarray, cupy.ndarray, …


class CompiledProgram(Protocol):
    """A compiled program, ready to be launched any number of times by any thread."""

    def __call__(self, *arrays: Array) -> None:
        """Runs the kernels on input and output arrays and waits for them where NumPy would."""
        ...

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> CompiledProgram:
        """The same program for other run-time sizes, without compiling again."""
        ...

    def launcher(self) -> Callable[..., None]:
        """A function that does what a call does, made for calling it often."""
        ...

    def beginner(
        self, *, behind: bool = False
    ) -> tuple[Callable[..., None], Callable[[], None] | None]:
        """A launcher that only begins the work, and a function that waits for it.

        The function is None where the launcher returns when NumPy would. Work that comes `behind`
        what the device's threads were given before is theirs too, where that can be.
        """
        ...


class Compiler(Protocol):
    """What compiles programs in another process than the one that runs them."""

    def compiled(self, source: KernelSource) -> Compiled:
        """Compiles a program without sizes; CompileError where the source is refused."""
        ...


class ComputeDevice(Protocol):
    """A device: its facts, its compiler, its arrays.

    `faults` are the errors after which it may be lost to the process. One that `hurries` compiles
    a hasty program in a fraction of the time that another takes.
    """

    faults: tuple[type[Exception], ...]
    hurries: bool

    @property
    def binaries(self) -> Binaries:
        """Machine code that is kept for other processes, by `machine_code_key`."""
        ...

    @property
    def target(self) -> Target:
        """The facts that schedules depend on."""
        ...

    @property
    def arrays(self) -> str:
        """The kind of arrays that programs take: "numpy" or "cupy"."""
        ...

    @property
    def compiler(self) -> Mapping[str, str] | None:
        """What `select.open_compiler` takes; None where the device itself must compile."""
        ...

    def machine_code_key(self, source: KernelSource) -> str:
        """What decides the machine code of a program: the device, its driver, options, the text."""
        ...

    def compiled(self, source: KernelSource) -> Compiled:
        """Compiles a program, for `load`; CompileError where it is refused."""
        ...

    def load(self, compiled: Compiled, sizes: Sequence[int] = ()) -> CompiledProgram:
        """The program that a compiler made, in this process or another; CompileError if refused."""
        ...

    def is_captured(self) -> bool:
        """Whether what this thread launches now is recorded, to run at any time later."""
        ...

    def is_lost(self) -> bool:
        """Whether this process can no longer use the device."""
        ...

    def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> CompiledProgram:
        """Compiles a program, bound to run-time sizes; CompileError where the source is refused."""
        ...

    def empty(
        self, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
    ) -> Array:
        """An uninitialised array, aligned so that streaming stores apply."""
        ...
