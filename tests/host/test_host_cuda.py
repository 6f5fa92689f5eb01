"""Kernels of the user's on CUDA devices, and what goes between these and OpenCL's."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from mdtensor import host
from mdtensor.errors import CompileError, LaunchError, ShapeError

pytestmark = pytest.mark.gpu

SUMS = """
extern "C" __global__ void sums(float* result, const float* input, int N)
{
    const int tid = blockIdx.x * blockDim.x + threadIdx.x, threadN = gridDim.x * blockDim.x;
    float sum = 0;
    for (int pos = tid; pos < N; pos += threadN) sum += input[pos];
    result[tid] = sum;
}
"""
STEP = """
extern "C" __global__ void step(const int* x, int* y, int a)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < SPINS; ++k) __nanosleep(1000);
    y[n] = a + x[n];
}
"""


def test_chunks_as_in_the_listing() -> None:
    devices = host.devices("cuda")
    n, threads = 1 << 20, 32 * 256
    numbers = np.random.default_rng(0).random(n * len(devices), dtype="f4")
    x, out = host.buffer(numbers), host.empty(threads * len(devices))
    sums = host.kernel(SUMS)
    with host.profile() as seen:
        for k, device in enumerate(devices):
            part, rows = out[threads * k : threads * (k + 1)], x[n * k : n * (k + 1)]
            sums(threads, 256, device=device)(host.write(part), host.read(rows), n)
        got = out.numpy()
    print(seen)
    right = numbers.astype("f8").reshape(len(devices), -1, threads).sum(1).reshape(-1)
    np.testing.assert_allclose(got, right, rtol=1e-5)


def test_orders_follow_from_buffers_and_what_is_independent_overlaps() -> None:
    step = host.kernel(STEP, options=["-DSPINS=5000"])
    buffers = [host.buffer(np.arange(64, dtype="i4")) for _ in range(4)]
    results = [host.empty(64, "i4") for _ in range(4)]

    def steps() -> list[list[int]]:
        for n in range(3):
            for x, y in zip(buffers, results, strict=True):
                step(64, 32)(host.read(x), host.write(y), n)
                step(64, 32)(host.read(y), host.write(x), 1)
        return [x.numpy().tolist() for x in buffers]

    assert steps() == [[*range(6, 70)]] * 4  # memory is there then, for which devices wait
    with host.profile() as seen:
        assert steps() == [[*range(12, 76)]] * 4
    kernels = [span for span in seen.spans if span.kind == "kernel"]
    assert len(kernels) == 24
    alone = sum(span.end - span.begin for span in kernels)
    together = max(s.end for s in kernels) - min(s.begin for s in kernels)
    assert together < 0.8 * alone  # 0.25 at best


def test_parts_begin_anywhere_and_buffers_move() -> None:
    step = host.kernel(STEP, options=["-DSPINS=0"])
    x, y = host.buffer(np.arange(1000, dtype="i4")), host.empty(1000, "i4")
    for begin in range(999, -1, -3):
        step(1, 1)(host.read(x[begin : begin + 1]), host.write(y[begin : begin + 1]), 5)
    for begin in range(0, 1000, 7):
        end = min(begin + 7, 1000)
        step(end - begin, 1)(host.read(x[begin:end]), host.write(y[begin:end]), 5)
    assert y.numpy().tolist() == [*range(5, 1005)]


def test_gpus_copy_among_each_other() -> None:
    devices = host.devices("cuda") * 2
    step = host.kernel(STEP, options=["-DSPINS=100"])
    x, y = host.buffer(np.zeros(1 << 20, "i4")), host.empty(1 << 20, "i4")
    for n in range(10):
        step(1 << 20, 256, device=devices[n % 2])(host.read(x), host.write(y), 1)
        x, y = y, x
    assert np.unique(x.numpy()).tolist() == [10]


if importlib.util.find_spec("pyopencl") is not None:  # as not all machines with GPUs have it

    def test_opencl_and_cuda_take_turns() -> None:
        twice = host.kernel("kernel void twice(global int* x) { x[get_global_id(0)] *= 2; }")
        step = host.kernel(STEP, options=["-DSPINS=100"])
        x, y = host.buffer(np.arange(256, dtype="i4")), host.empty(256, "i4")
        step(256, 64)(host.read(x), host.write(y), 1)
        twice(256)(host.read_write(y))
        step(256, 64)(host.read(y), host.write(x), 1)
        assert x.numpy().tolist() == [2 * (n + 1) + 1 for n in range(256)]


def test_what_is_refused() -> None:
    x = host.buffer(np.zeros(4, "i4"))
    with pytest.raises(CompileError, match='identifier "nothing" is undefined'):
        host.kernel('extern "C" __global__ void f(int* x) { x[0] = nothing; }')(1, 1)(host.write(x))
    with pytest.raises(CompileError, match='hint: declare it extern "C"'):
        host.kernel("__global__ void f(int* x) { x[0] = 1; }")(1, 1)(host.write(x))
    with pytest.raises(ShapeError, match="needs a local size"):
        host.kernel(STEP)(4)
    step = host.kernel(STEP, options=["-DSPINS=0"])
    with pytest.raises(LaunchError, match=r"CUDA 0: .* refused a launch"):
        step(4096, 4096)(host.read(x), host.write(x), 1)
    step(4, 4)(host.read(x), host.read_write(x), 1)
    assert x.numpy().tolist() == [1] * 4
