"""User kernels: compiled per device on demand, launched on buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from mdtensor.errors import ArgumentError, DeviceError, DTypeError, ShapeError, shown
from mdtensor.host.buffers import Access, Part, whole_numbers
from mdtensor.host.host_devices import LOCK, Device, DeviceCommand, devices
from mdtensor.host.kernel_signature import KernelParameter, Signature, scalar, signature_of
from mdtensor.host.profiling import noted

Size = int | Sequence[int]


class Kernel:
    """A kernel in OpenCL C or CUDA C++; see `host.kernel`."""

    def __init__(
        self, text: str, signature: Signature, options: tuple[str, ...], device: Device | None
    ) -> None:
        self.text, self.signature, self.options = text, signature, options
        self._device = device
        self._compiled: dict[Device, Any] = {}

    def __repr__(self) -> str:
        arguments = ", ".join(each.name or each.type for each in self.signature.arguments)
        return f"<{self.signature.language} kernel {self.signature.name}({arguments})>"

    def __call__(
        self, global_size: Size, local_size: Size | None = None, *, device: Device | None = None
    ) -> Launch:
        """A launch of `global_size` work-items in groups of `local_size`, in 1 to 3 dims.

        In CUDA's words these are threads, in all and in a block. Without a local size, OpenCL
        chooses one. `device` is where it runs, by default the kernel's own device, or the first
        that takes its language.

        Raises ShapeError for sizes that do not go together, DeviceError for a device of the other
        language.
        """
        chosen = device or self._device or devices(self.signature.language)[0]
        if chosen.language != self.signature.language:
            raise DeviceError(
                f"{self!r} cannot run on {chosen.name}, which takes {chosen.language}",
                hint=f"one of host.devices({self.signature.language!r})",
            )
        whole, group = _sizes("global_size", global_size), None
        if local_size is not None:
            group = _sizes("local_size", local_size)
            if len(group) != len(whole) or any(n % m for n, m in zip(whole, group, strict=True)):
                raise ShapeError(
                    f"global_size {whole} is no multiple of local_size {group}",
                    hint="more work-items, of which the kernel has the last ones do nothing",
                )
        elif chosen.language == "cuda":
            raise ShapeError(
                "a launch by CUDA needs a local size", hint="the threads of a block, such as 256"
            )
        return Launch(self, chosen, whole, group)

    def compiled(self, device: Device) -> Any:
        """Compile the kernel for a device; memoised, guarded by LOCK.

        Raises CompileError with the compiler's words and numbered source.
        """
        if device not in self._compiled:
            name = self.signature.name
            with noted("compile", f"{name} for {device.name}"):
                made = device.native.compiled(self.text, name, self.options)
            self._compiled[device] = made
        return self._compiled[device]


class Launch:
    """A kernel bound to sizes and a device, to be called with the arguments."""

    def __init__(
        self, kernel: Kernel, device: Device, whole: tuple[int, ...], group: tuple[int, ...] | None
    ) -> None:
        self.kernel, self.device, self.whole, self.group = kernel, device, whole, group

    def __call__(self, *arguments: Any) -> None:
        """Enqueue the kernel after the commands that its buffers depend on; does not block.

        An argument is a number, or a buffer as `host.read`, `host.write` or `host.read_write`.
        What is read is copied to the device where it is not there yet.

        Raises ArgumentError for a wrong number of arguments and for elements that were never
        written, DTypeError for types other than the kernel's, CompileError where the kernel is
        compiled first, LaunchError for what the device refuses.
        """
        signature = self.kernel.signature
        if len(arguments) != len(signature.arguments):
            raise ArgumentError(
                f"{self.kernel!r} takes {len(signature.arguments)} arguments, and got"
                f" {len(arguments)}"
            )
        given = [
            _checked(n, declared, argument)
            for n, (declared, argument) in enumerate(
                zip(signature.arguments, arguments, strict=True)
            )
        ]
        with LOCK:
            self._enqueue(given)

    def _enqueue(self, given: Sequence[Any]) -> None:
        device, compiled = self.device, self.kernel.compiled(self.device)
        accesses = [each for each in given if isinstance(each, Access)]
        for each in accesses:
            each.part.whole.make_room(device, each.part.begin, each.part.end)
        values = [
            each.part.whole.memory(device, each.part.begin, each.part.end)
            if isinstance(each, Access)
            else each
            for each in given
        ]
        after: list[DeviceCommand] = []
        for each in accesses:
            part = each.part
            if each.reads:
                after += part.whole.bring(device, part.begin, part.end)
            if each.writes:
                after += part.whole.before_write(device, part.begin, part.end)
        sizes = self.whole, self.group
        command = device.launch(self.kernel.signature.name, compiled, sizes, values, after)
        for each in accesses:
            note = each.part.whole.written if each.writes else each.part.whole.used
            note(device, each.part.begin, each.part.end, command)


def kernel(
    text: str,
    name: str | None = None,
    *,
    options: Sequence[str] = (),
    device: Device | None = None,
) -> Kernel:
    """A kernel from OpenCL C or CUDA C++ source, which determines language and arguments.

    `name` says which, where the text defines several. `options` are for the compiler, such as
    `"-DN=16"`. It is compiled when a device first runs it.

    >>> from mdtensor import host
    >>> twice = host.kernel("kernel void twice(global float* x) { x[get_global_id(0)] *= 2; }")
    >>> x = host.buffer([1, 2, 3])
    >>> y = host.buffer(x.numpy().astype("float32"))
    >>> twice(3)(host.read_write(y))
    >>> y.numpy()
    array([2., 4., 6.], dtype=float32)

    Raises ArgumentError where the text defines no such kernel, or several and no name is given.
    """
    if not isinstance(cast("object", text), str):
        raise DTypeError(f"{shown(text)} is no text of a kernel")
    if isinstance(cast("object", options), str) or not all(
        isinstance(cast("object", each), str) for each in options
    ):
        raise DTypeError(f"options are {shown(options)}", hint='a list of texts, such as ["-DN=1"]')
    return Kernel(text, signature_of(text, name), tuple(options), device)


def _sizes(name: str, given: Any) -> tuple[int, ...]:
    found = whole_numbers(name, given)
    if not 1 <= len(found) <= 3 or min(found) < 1:
        raise ShapeError(f"{name} is {shown(given)}", hint="one to three whole numbers above 0")
    return found


def _checked(position: int, declared: KernelParameter, given: Any) -> Any:
    where = f"argument {position}, {declared.name or declared.type},"
    if declared.is_local:
        raise ArgumentError(
            f"{where} is memory of a work-group", hint="declare it inside of the kernel"
        )
    if not declared.is_pointer:
        if isinstance(given, Access | Part):
            raise DTypeError(f"{where} is a number in the kernel, and got a buffer")
        return scalar(declared, given, where)
    if not isinstance(given, Access):
        if isinstance(given, Part):
            raise DTypeError(f"{where} is a buffer", hint="host.read(x), host.write(x), …")
        raise DTypeError(
            f"{where} is a pointer in the kernel, and got {shown(given)}",
            hint="host.read(x), host.write(x) or host.read_write(x), where x = host.buffer(array)",
        )
    if declared.is_constant and given.writes:
        raise ArgumentError(f"{where} is const in the kernel, which cannot write it")
    if declared.dtype is not None and not _fits(declared.dtype, given.part.dtype):
        raise DTypeError(
            f"{where} points to {declared.type}, and the buffer has {given.part.dtype}"
        )
    return given


def _fits(declared: np.dtype[Any], given: np.dtype[Any]) -> bool:
    """Whether a pointer type matches a buffer's: the same type, complex of it, or records."""
    is_pair = given.kind == "c" and given.itemsize == 2 * declared.itemsize
    return declared == given or is_pair or given.kind == "V"
