"""Selection of a device: by name, by `MDTENSOR_DEVICE`, or the best available."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mdtensor.backends.protocol import Compiler, ComputeDevice
from mdtensor.dataclass import dataclass
from mdtensor.errors import NoDeviceError

VARIABLE = "MDTENSOR_DEVICE"
_AS_TORCH_SAYS = re.compile(r"^cuda:(\d+)$")


@dataclass(frozen=True, slots=True)
class UsableDevice:
    """An available device: its name, array kind, and how to open it.

    `by` is what its kernels are compiled by: "llvm", "opencl" or "cuda".
    """

    name: str
    arrays: str
    open: Callable[[], ComputeDevice]
    by: str = ""

    def is_called(self, name: str) -> bool:
        """Whether a name means this device: `by`, a part of its name, or torch's name for it.

        >>> device = UsableDevice("Portable Computing Language: cpu", "numpy", object, "opencl")
        >>> device.is_called("OpenCL")
        True
        """
        return is_called(self.name, self.by, name)


def is_called(name: str, by: str, said: str) -> bool:
    """Whether `said` means a device: its compiler, a part of its name, or torch's "cuda:1"."""
    said = _AS_TORCH_SAYS.sub(r"cuda \1:", said.lower())
    return said == by or said in name.lower()


def found_devices() -> list[UsableDevice]:
    """All devices of this machine, in order of preference.

    Raises NoDeviceError where there is none; its hint says what to install.
    """
    found, reasons = _search()
    if not found:
        raise _nothing_found(reasons)
    return found


def _search() -> tuple[list[UsableDevice], list[str]]:
    """All devices, and the messages of libraries that found none."""
    reasons: list[str] = []
    found = _llvm_devices()
    try:
        found += _opencl_devices()
    except NoDeviceError as error:
        reasons.append(error.message)
    found += _cuda_devices()
    return found, reasons


def _nothing_found(reasons: Sequence[str]) -> NoDeviceError:
    return NoDeviceError(
        "no device to compute on: neither llvmlite nor an OpenCL implementation nor a CUDA device"
        " was found",
        notes=reasons,
        hint=_hint_for_numpy(),
    )


def _hint_for_numpy() -> str:
    """The install hint for a machine without a device for NumPy arrays."""
    from mdtensor.backends.llvm import presence
    from mdtensor.backends.opencl import opencl_runtime

    if presence.is_supported():
        return presence.hint_where_missing()
    return opencl_runtime.hint_where_none_is_found()


def _not_called(
    wanted: str | None, arrays: str, found: Sequence[UsableDevice], reasons: Sequence[str]
) -> NoDeviceError:
    """The error if devices exist, but none for these arrays by that name."""
    available = [device.name for device in found if device.arrays == arrays]
    asked = (wanted or "").lower()
    if "llvm" in asked:
        from mdtensor.backends.llvm.presence import hint_where_missing

        hint = hint_where_missing()
    elif asked == "opencl":
        from mdtensor.backends.opencl.opencl_runtime import hint_where_none_is_found

        hint = hint_where_none_is_found()
    elif asked.startswith("cuda") or arrays == "cupy":
        from mdtensor.backends.cuda.nvrtc import INSTALL_HINT

        hint = f"CUDA devices compute with CuPy's arrays; {INSTALL_HINT}"
    elif available:
        hint = f"name a part of one of these, by mdtensor.device(…), --device or {VARIABLE}"
    else:
        hint = _hint_for_numpy()
    if hint.startswith("CUDA"):
        reasons = ()  # which are why another library found none
    called = f" is called {wanted!r}" if wanted else ""
    return NoDeviceError(
        f"no device for {arrays} arrays{called}",
        notes=[*reasons, *(f"available: {name}" for name in available)],
        hint=hint,
    )


def _opencl_devices() -> list[UsableDevice]:
    from mdtensor.backends.opencl import opencl_device

    def opener(device: Any) -> Callable[[], ComputeDevice]:
        return lambda: opencl_device.open_device(device)

    return [
        UsableDevice(label, "numpy", opener(device), "opencl")
        for label, device in opencl_device.devices()
    ]


def _llvm_devices() -> list[UsableDevice]:
    from mdtensor.backends.llvm import presence

    def opened() -> ComputeDevice:
        from mdtensor.backends.llvm.llvm_device import open_device

        return open_device()

    return [UsableDevice(label, "numpy", opened, "llvm") for label in presence.devices()]


def _cuda_devices() -> list[UsableDevice]:
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        return []
    from mdtensor.backends.cuda import cupy_device

    return [
        UsableDevice(label, "cupy", lambda number=number: cupy_device.open_device(number), "cuda")
        for number, label in cupy_device.devices()
    ]


def is_llvm_default() -> bool:
    """Whether NumPy arrays are computed by LLVM's device, determined without opening one."""
    wanted = os.environ.get(VARIABLE) or ""
    return any(device.is_called(wanted) for device in _llvm_devices())


def open_device(name: str | None = None, arrays: str = "numpy") -> ComputeDevice:
    """Open the device whose name contains `name`, by default `MDTENSOR_DEVICE`.

    Without a name: the first that takes the given kind of arrays. Raises NoDeviceError where no
    device fits.
    """
    wanted = name if name is not None else os.environ.get(VARIABLE) if arrays == "numpy" else None
    # The loader of OpenCL takes 50 ms, and need not be asked.
    quick = [d for d in _llvm_devices() if d.arrays == arrays and d.is_called(wanted or "")]
    if quick:
        return quick[0].open()
    found, reasons = _search()
    if not found:
        raise _nothing_found(reasons)
    chosen = [d for d in found if d.arrays == arrays and d.is_called(wanted or "")]
    if not chosen:
        raise _not_called(wanted, arrays, found, reasons)
    return chosen[0].open()


def open_compiler(description: Mapping[str, str]) -> Compiler:
    """Open the compiler of a description (see `ComputeDevice.compiler`)."""
    if description["kind"] == "nvrtc":
        from mdtensor.backends.cuda.nvrtc import Nvrtc

        return Nvrtc(description["architecture"])
    if description["kind"] == "llvm":
        from mdtensor.backends.llvm.jit_compiler import JitCompiler

        return JitCompiler()
    from mdtensor.backends.opencl import opencl_device

    found = (device for label, device in opencl_device.devices() if label == description["device"])
    return opencl_device.open_device(next(found))
