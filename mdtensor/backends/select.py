"""Which device computes: by name, by `MDTENSOR_DEVICE`, or the best one there is."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mdtensor.backends.protocol import Compiler, Device
from mdtensor.errors import NoDeviceError

VARIABLE = "MDTENSOR_DEVICE"
_AS_TORCH_SAYS = re.compile(r"^cuda:(\d+)$")


@dataclass(frozen=True, slots=True)
class Found:
    """A device that could be used: its name, the kind of arrays it takes, and how to open it.

    One that is `opt_in` computes for those who name it, and is never the default.
    """

    name: str
    arrays: str
    open: Callable[[], Device]
    opt_in: bool = False

    def is_called(self, name: str) -> bool:
        """Whether a name is a part of this one's, or what torch calls it, such as "cuda:1"."""
        said = _AS_TORCH_SAYS.sub(r"cuda \1:", name.lower())
        return said in self.name.lower()


def found_devices() -> list[Found]:
    """Every device of this machine, those that are chosen first at the front.

    Raises NoDeviceError where there is none; its hint says what to install.
    """
    found, reasons = _search()
    if not found:
        raise _nothing_found(reasons)
    return found


def _search() -> tuple[list[Found], list[str]]:
    """The devices, and why a library found none."""
    reasons: list[str] = []
    found: list[Found] = []
    try:
        found += _opencl_devices()
    except NoDeviceError as error:
        reasons.append(error.message)
    found += _llvm_devices()
    found += _cuda_devices()
    return found, reasons


def _nothing_found(reasons: Sequence[str]) -> NoDeviceError:
    from mdtensor.backends.opencl import opencl_runtime

    return NoDeviceError(
        "no device to compute on: no OpenCL implementation and no CUDA device was found",
        notes=reasons,
        hint=opencl_runtime.hint_where_none_is_found(),
    )


def _no_llvm(wanted: str | None) -> NoDeviceError:
    from mdtensor.backends.llvm.llvm_device import hint_where_missing

    message = f"no device for numpy arrays is called {wanted!r}"
    return NoDeviceError(message, hint=hint_where_missing())


def _opencl_devices() -> list[Found]:
    from mdtensor.backends.opencl import opencl_device

    def opener(device: Any) -> Callable[[], Device]:
        return lambda: opencl_device.open_device(device)

    return [Found(label, "numpy", opener(device)) for label, device in opencl_device.devices()]


def _llvm_devices() -> list[Found]:
    from mdtensor.backends.llvm import llvm_device

    return [
        Found(label, "numpy", llvm_device.open_device, opt_in=True)
        for label in llvm_device.devices()
    ]


def _cuda_devices() -> list[Found]:
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        return []
    from mdtensor.backends.cuda import cupy_device

    return [
        Found(label, "cupy", lambda number=number: cupy_device.open_device(number))
        for number, label in cupy_device.devices()
    ]


def open_device(name: str | None = None, arrays: str = "numpy") -> Device:
    """The device whose name contains `name` (by default that of `MDTENSOR_DEVICE`).

    Without a name: the first that takes the given kind of arrays and is not `opt_in`. Raises
    NoDeviceError where no device fits.
    """
    wanted = name if name is not None else os.environ.get(VARIABLE) if arrays == "numpy" else None
    if arrays == "numpy" and "llvm" in (wanted or "").lower():
        if not (only := _llvm_devices()):
            raise _no_llvm(wanted)
        if only[0].name.lower().startswith((wanted or "").lower()):
            return only[0].open()  # nor does the loader of OpenCL need 50 ms
    found, reasons = _search()
    usable = [device for device in found if wanted or not device.opt_in]
    if not usable:
        raise _nothing_found([*reasons, *(f"by name alone: {device.name}" for device in found)])
    chosen = [d for d in usable if d.arrays == arrays and d.is_called(wanted or "")]
    if not chosen:
        available = [device.name for device in found if device.arrays == arrays]
        raise NoDeviceError(
            f"no device for {arrays} arrays is called {wanted!r}"
            if wanted
            else f"no device for {arrays} arrays",
            notes=[f"available: {label}" for label in available],
            hint=f"name a part of one of these, by mdtensor.device(…), --device or {VARIABLE}"
            if available
            else None,
        )
    return chosen[0].open()


def open_compiler(description: Mapping[str, str]) -> Compiler:
    """The compiler that a device describes (see `Device.compiler`)."""
    if description["kind"] == "nvrtc":
        from mdtensor.backends.cuda.nvrtc import Nvrtc

        return Nvrtc(description["architecture"])
    if description["kind"] == "llvm":
        from mdtensor.backends.llvm.jit_compiler import JitCompiler

        return JitCompiler()
    from mdtensor.backends.opencl import opencl_device

    found = (device for label, device in opencl_device.devices() if label == description["device"])
    return opencl_device.open_device(next(found))
