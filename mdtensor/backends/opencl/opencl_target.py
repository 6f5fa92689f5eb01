"""The Target of an OpenCL device, for schedules and the cost model."""

from __future__ import annotations

from typing import Any

from mdtensor.backends.host import hardware
from mdtensor.specs import Target

# What OpenCL tells of no GPU: work-items of a warp, lanes of a core, bytes of memory a second.
_WARP, _LANES, _BANDWIDTH = 32, 128, 400e9


def target_of(cl: Any, device: Any) -> Target:
    """The Target of a device, with the host processor's facts for a CPU."""
    is_cpu = bool(device.type & cl.device_type.CPU)
    return _processor(device) if is_cpu else _gpu(device)


def _processor(device: Any) -> Target:
    vector_bytes, registers = hardware.vector_unit()
    units = hardware.multiply_adds_per_cycle()
    return Target(
        kind="cpu",
        name=f"{device.name.strip()} {hardware.processor_model()}".strip(),
        dialect="opencl-fma" if hardware.has_fma() else "opencl",
        driver=_driver(device),
        cores=int(device.max_compute_units),
        vector_bytes=vector_bytes,
        vector_registers=registers,
        l1_bytes=hardware.cache_bytes(1, 32 << 10),
        l2_bytes=hardware.cache_bytes(2, 512 << 10),
        l3_bytes=hardware.cache_bytes(3, int(device.global_mem_cache_size)),
        local_bytes=int(device.local_mem_size),
        max_threads=int(device.max_work_group_size),
        warp=1,
        rate=hardware.clock_hertz() * units * vector_bytes / 4,
        units=units,
        bandwidth=40e9,
        launch_seconds=5e-6,
        has_fp64=bool(device.double_fp_config),
    )


def _gpu(device: Any) -> Target:
    cache = int(device.global_mem_cache_size)
    return Target(
        kind="gpu",
        name=device.name.strip(),
        dialect="opencl",
        driver=_driver(device),
        cores=int(device.max_compute_units),
        vector_bytes=4,
        vector_registers=64,
        l1_bytes=int(device.local_mem_size),
        l2_bytes=cache,
        l3_bytes=cache,
        local_bytes=int(device.local_mem_size),
        max_threads=int(device.max_work_group_size),
        warp=_WARP,
        rate=max(1, int(device.max_clock_frequency)) * 1e6 * _LANES,
        units=_LANES,
        bandwidth=_BANDWIDTH,
        launch_seconds=5e-6,
        has_fp64=bool(device.double_fp_config),
    )


def _driver(device: Any) -> str:
    return f"{device.platform.name.strip()} {device.driver_version}"
