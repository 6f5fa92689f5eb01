"""Devices for user kernels; commands are ordered by events and recorded for profiles."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from mdtensor.backends.cuda import cupy_device
from mdtensor.backends.cuda.cuda_streams import CudaStreams
from mdtensor.backends.opencl import opencl_device
from mdtensor.backends.opencl.opencl_queue import OpenCLQueue
from mdtensor.backends.select import is_called
from mdtensor.errors import DeviceError, DTypeError, NoDeviceError, shown
from mdtensor.forks import keep_over_forks
from mdtensor.host.profiling import Span, note, noted

# Held while buffers and devices change; commands are enqueued under it, and waited for without.
LOCK = threading.RLock()
keep_over_forks(LOCK)


# What a backend has of a device: both have the same methods. Devices of one `family` copy among
# each other, and wait for each other's events.
Native = OpenCLQueue | CudaStreams


class DeviceCommand:
    """A command enqueued on a device: a copy or a kernel."""

    __slots__ = ("_event", "device", "kind", "name", "nbytes")

    def __init__(self, device: Device, event: Any, kind: str, name: str, nbytes: int) -> None:
        self.device, self._event = device, event
        self.kind, self.name, self.nbytes = kind, name, nbytes
        note(self)

    def wait(self) -> None:
        """Wait for the command; LaunchError if it failed."""
        self.device.native.wait(self._event)

    def is_done(self) -> bool:
        """Whether the command has completed."""
        return self.device.native.is_done(self._event)

    def event_for(self, device: Device) -> Any:
        """The event if that device can wait for it; else None, after a blocking wait."""
        if device.native.family == self.device.native.family:
            return self._event
        self.wait()
        return None

    def span(self) -> Span:
        """The time span of the command's execution, after waiting for it."""
        self.wait()
        times = self.device.native.times(self._event)
        return Span(self.kind, self.name, self.device.name, *times, self.nbytes)


class Device:
    """A device that runs user kernels, by OpenCL or CUDA; see `host.devices`."""

    def __init__(self, native: Native) -> None:
        self.native = native
        self.name = native.name
        self.language = native.language

    def __repr__(self) -> str:
        return f"<device {self.name}>"

    def wait(self) -> None:
        """Wait for all commands of the device; LaunchError if one failed."""
        with noted("wait", self.name):
            self.native.finish()

    def put(
        self, memory: Any, begin: int, source: Any, after: Iterable[DeviceCommand]
    ) -> DeviceCommand:
        """Copy bytes from host to device memory."""
        event = self.native.put(memory, begin, source, self._events(after))
        return self._given(event, "copy to", "", source.nbytes)

    def get(
        self, target: Any, memory: Any, begin: int, after: Iterable[DeviceCommand]
    ) -> DeviceCommand:
        """Copy bytes from device to host memory."""
        event = self.native.get(target, memory, begin, self._events(after))
        return self._given(event, "copy from", "", target.nbytes)

    def copy(
        self,
        target: Any,
        to: int,
        source: Any,
        begin: int,
        nbytes: int,
        after: Iterable[DeviceCommand],
    ) -> DeviceCommand:
        """Copy bytes from memory of a device of the same family to this one's."""
        event = self.native.copy(target, to, source, begin, nbytes, self._events(after))
        return self._given(event, "copy between", "", nbytes)

    def launch(
        self,
        name: str,
        kernel: Any,
        sizes: tuple[Sequence[int], Sequence[int] | None],
        arguments: Sequence[Any],
        after: Iterable[DeviceCommand],
    ) -> DeviceCommand:
        """Enqueues a kernel that was compiled for this device."""
        event = self.native.launch(kernel, *sizes, arguments, self._events(after))
        return self._given(event, "kernel", name, 0)

    def _events(self, after: Iterable[DeviceCommand]) -> list[Any]:
        found = [command.event_for(self) for command in dict.fromkeys(after)]
        return [event for event in found if event is not None]

    def _given(self, event: Any, kind: str, name: str, nbytes: int) -> DeviceCommand:
        return DeviceCommand(self, event, kind, name, nbytes)


_opened: dict[str, Device] = {}


def devices(name: str = "") -> list[Device]:
    """The devices that run user kernels: OpenCL's, then CUDA's.

    With a name those that are called so: "opencl", "cuda", "cuda:1", or a part of a device's name.
    Raises NoDeviceError where there is none at all, DeviceError where none is called so.

    >>> devices()[0].language in ("opencl", "cuda")
    True
    """
    if not isinstance(cast("object", name), str):
        raise DTypeError(f"{shown(name)} is no name of a device")
    found, reason = _found()
    if not found:
        raise reason or NoDeviceError("no device of OpenCL or CUDA on this machine")
    chosen = [(label, opener) for label, by, opener in found if is_called(label, by, name)]
    if not chosen:
        raise DeviceError(
            f"no device is called {shown(name)}",
            notes=[f"available: {label}" for label, _, _ in found],
            hint="a part of one of these, or 'opencl' or 'cuda' for all of a kind",
        )
    with LOCK:
        for label, opener in chosen:
            if label not in _opened:
                _opened[label] = Device(opener())
        return [_opened[label] for label, _ in chosen]


def device(name: str = "") -> Device:
    """The first device that matches a name, see `devices`.

    >>> device("opencl").language
    'opencl'
    """
    return devices(name)[0]


_Found = tuple[str, str, Callable[[], Native]]


def _found() -> tuple[list[_Found], NoDeviceError | None]:
    """Name, language and opener of every device; the error of OpenCL's library if there is one."""
    found: list[_Found] = []
    reason = None
    try:
        for label, raw in opencl_device.devices():
            same = sum(label == known.partition(" #")[0] for known, _, _ in found)
            name = f"{label} #{same}" if same else label
            found.append((name, "opencl", lambda raw=raw, name=name: OpenCLQueue(raw, name)))
    except NoDeviceError as error:
        reason = error
    if "cupy" in sys.modules or importlib.util.find_spec("cupy") is not None:
        for number, name in cupy_device.devices():
            found.append((name, "cuda", lambda number=number, name=name: CudaStreams(number, name)))
    return found, reason
