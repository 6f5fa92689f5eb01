"""Host code for user kernels: devices, buffers, and launches ordered by data dependences.

The page docs/host.md shows it.
"""

from mdtensor.host.buffers import Access, DeviceBuffer, Part, buffer, empty, read, read_write, write
from mdtensor.host.host_devices import Device, device, devices
from mdtensor.host.host_kernels import Kernel, Launch, kernel
from mdtensor.host.profiling import Profile, Span, profile

__all__ = [
    "Access",
    "Device",
    "DeviceBuffer",
    "Kernel",
    "Launch",
    "Part",
    "Profile",
    "Span",
    "buffer",
    "device",
    "devices",
    "empty",
    "kernel",
    "profile",
    "read",
    "read_write",
    "write",
]
