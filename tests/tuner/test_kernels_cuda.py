"""CUDA kernels of users as costs."""

import numpy as np
import pytest

from mdtensor.tuner import CUDAKernel, Parameter, Space, divides, evaluations, random_array, search

pytestmark = pytest.mark.gpu

N = 1 << 16
SOURCE = """
extern "C" __global__ void saxpy(const int n, const float a, const float* x, float* y)
{
#if WPT == 8
    eight
#elif WPT == 16
    while (y[0] > -1) y[0] += 0 * x[0];
#elif WPT == 32
    y = (float*)8;
#endif
    for (int w = 0; w < WPT; ++w) {
        const int index = (w * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
        y[index] += a * x[index] + (WPT == 64);
    }
}
"""


def test_kernels_are_timed_checked_and_may_fail_in_every_way():
    x, y = random_array(N, seed=1), random_array(N, seed=2)
    with CUDAKernel(
        SOURCE,
        "saxpy",
        [N, 2.5, x, y],
        grid=lambda WPT, LS: N // WPT // LS,
        block=lambda LS: LS,
        expected={3: y + np.float32(2.5) * x},
        timeout_s=20,
    ) as cost:
        status = {
            (wpt, ls): cost({"WPT": wpt, "LS": ls}).status
            for wpt, ls in [(1, 256), (8, 64), (16, 64), (32, 64), (64, 64), (1, 2048), (4, 128)]
        }
        assert status == {
            (1, 256): "ok",
            (8, 64): "compile_error",
            (16, 64): "timeout",
            (32, 64): "crashed",
            (64, 64): "wrong",
            (1, 2048): "rejected",
            (4, 128): "ok",
        }
        space = Space(
            [
                Parameter("WPT", (1, 2, 4)),
                Parameter("LS", range(32, 1025), divides(lambda WPT: N // WPT)),
            ]
        )
        found = search(space, cost, abort=evaluations(12))
    assert 0 < found.best.trial.seconds < 1e-3
