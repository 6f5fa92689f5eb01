"""The facts about an OpenCL device that schedules are chosen by."""

from __future__ import annotations

from typing import Any

from mdtensor.backends import hardware
from mdtensor.specs import Target


def target_of(cl: Any, device: Any) -> Target:
    """What the device tells of itself, and the processor where it is one."""
    is_cpu = bool(device.type & cl.device_type.CPU)
    vector_bytes, registers = hardware.vector_unit() if is_cpu else (4, 64)
    cores = int(device.max_compute_units)
    units = hardware.multiply_adds_per_cycle() if is_cpu else 1
    hertz = hardware.clock_hertz() if is_cpu else max(1, int(device.max_clock_frequency)) * 1e6
    return Target(
        kind="cpu" if is_cpu else "gpu",
        name=f"{device.name.strip()} {hardware.processor_model() if is_cpu else ''}".strip(),
        dialect="opencl-fma" if is_cpu and hardware.has_fma() else "opencl",
        driver=f"{device.platform.name.strip()} {device.driver_version}",
        cores=cores,
        vector_bytes=vector_bytes,
        vector_registers=registers,
        l1_bytes=hardware.cache_bytes(1, 32 << 10),
        l2_bytes=hardware.cache_bytes(2, 512 << 10),
        l3_bytes=hardware.cache_bytes(3, int(device.global_mem_cache_size)),
        local_bytes=int(device.local_mem_size),
        max_threads=int(device.max_work_group_size),
        warp=1 if is_cpu else 32,
        rate=hertz * units * vector_bytes / 4,
        units=units,
        bandwidth=40e9,
        launch_seconds=5e-6,
        has_fp64=bool(device.double_fp_config),
    )
