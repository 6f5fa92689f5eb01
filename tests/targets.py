"""Devices as the lowering and the cost model see them, for tests that use none."""

from __future__ import annotations

from mdtensor.specs import Target

CPU = Target(
    kind="cpu",
    name="two cores",
    dialect="opencl",
    driver="none",
    cores=2,
    vector_bytes=64,
    vector_registers=32,
    l1_bytes=48 << 10,
    l2_bytes=1 << 20,
    l3_bytes=32 << 20,
    local_bytes=32 << 10,
    max_threads=4096,
    warp=1,
    rate=4e9 * 16,
    bandwidth=40e9,
    launch_seconds=5e-6,
)
H200 = Target(
    kind="gpu",
    name="NVIDIA H200",
    dialect="cuda",
    driver="CUDA 13000 sm_90",
    cores=132,
    vector_bytes=4,
    vector_registers=255,
    l1_bytes=228 << 10,
    l2_bytes=60 << 20,
    l3_bytes=60 << 20,
    local_bytes=48 << 10,
    max_threads=1024,
    warp=32,
    rate=1.98e9 * 128,
    units=128,
    bandwidth=4.8e12,
    launch_seconds=5e-6,
    counts_groups=True,
)
