"""Kernels of users on CUDA's streams, with what stands for CuPy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from mdtensor import host
from mdtensor.backends.cuda import cuda_streams
from mdtensor.backends.cuda.cuda_streams import CudaStreams
from mdtensor.errors import CompileError, LaunchError, ShapeError
from mdtensor.host import Device
from tests.host.late_cupy import World
from tests.host.late_device import LateDevice
from tests.host.late_device import World as OtherWorld
from tests.host.test_buffers import KERNELS, TEXT, check_random_program

CUDA_TEXT = TEXT.replace("kernel void", '\nextern "C" __global__ void').replace("global ", "")


def cuda_devices(seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[World, list[Device]]:
    """Two devices, and a compiler that takes every text."""
    world = World(seed, KERNELS)
    monkeypatch.setattr(cuda_streams, "load_cupy", world.cupy)
    compiler = SimpleNamespace(kept=lambda text: SimpleNamespace(code=text))
    monkeypatch.setattr(cuda_streams, "Nvrtc", lambda architecture, options: compiler)
    return world, [Device(CudaStreams(n, f"CUDA {n}")) for n in range(2)]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(80))
def test_random_programs_have_the_results_of_one_device(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_random_program(seed, cuda_devices(seed, monkeypatch)[1], CUDA_TEXT)


def test_devices_copy_among_each_other_but_not_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    _, (first, second) = cuda_devices(0, monkeypatch)
    other = Device(LateDevice("late", OtherWorld(0), "late", KERNELS))
    x, y = host.empty(4, "i4"), host.empty(4, "i4")
    ramp, copy = host.kernel(CUDA_TEXT, "ramp"), host.kernel(CUDA_TEXT, "copy")
    with host.profile() as seen:
        ramp(4, 1, device=first)(host.write(x), 5)
        copy(4, 1, device=second)(host.read(x), host.write(y))
        host.kernel(TEXT, "copy")(4, 1, device=other)(host.read(y), host.write(x))
        assert x.numpy().tolist() == [5, 6, 7, 8]
        second.wait()
    spans = [(s.kind, s.where) for s in seen.spans if s.where != "host"]
    assert spans == [
        ("kernel", "CUDA 0"),
        ("copy between", "CUDA 1"),
        ("kernel", "CUDA 1"),
        ("copy from", "CUDA 1"),
        ("copy to", "late"),
        ("kernel", "late"),
        ("copy from", "late"),
    ]


def test_kernels_have_threads_and_blocks_and_c_names(monkeypatch: pytest.MonkeyPatch) -> None:
    _, (device, _) = cuda_devices(0, monkeypatch)
    x = host.buffer(np.zeros(8, "i4"))
    with pytest.raises(ShapeError) as shape:
        host.kernel(CUDA_TEXT, "ramp")(8, device=device)
    assert str(shape.value) == (
        "a launch by CUDA needs a local size\n  hint: the threads of a block, such as 256"
    )
    with pytest.raises(CompileError) as compiled:
        host.kernel("__global__ void f(int* x) {}")(8, 4, device=device)(host.write(x))
    assert str(compiled.value) == (
        "the text has no kernel called 'f'\n"
        '  hint: declare it extern "C": C++ has another name for f otherwise'
    )


def test_what_a_driver_says_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    world, (device, _) = cuda_devices(0, monkeypatch)
    ramp, x = host.kernel(CUDA_TEXT, "ramp"), host.empty(4, "i4")

    def refuse(*_: object) -> None:
        raise ValueError("CUDA_ERROR_INVALID_VALUE")

    def ramp_now(*arguments: object) -> None:
        ramp(4, 1, device=device)(host.write(x), 1)

    world.refuse = refuse
    with pytest.raises(LaunchError, match="CUDA 0 refused a launch: CUDA_ERROR_INVALID_VALUE"):
        ramp_now()
    world.refuse = None
    ramp_now()
    assert x.numpy().tolist() == [1, 2, 3, 4]
    world.kernels["ramp"] = refuse
    ramp_now()
    with pytest.raises(LaunchError, match="a command of CUDA 0 failed: CUDA_ERROR_INVALID_VALUE"):
        x.numpy()
