"""Kernels of users as costs: compiled with a configuration, launched, checked, timed, killed."""

import math

import numpy as np
import pytest

from mdtensor.errors import TuningError
from mdtensor.tuner import (
    OpenCLKernel,
    Parameter,
    Space,
    divides,
    evaluations,
    random_array,
    search,
)

pytestmark = pytest.mark.process

N = 1 << 14
SAXPY = """
__kernel void saxpy(const int N, const float a, const __global float* x, __global float* y)
{
    for (int w = 0; w < WPT; ++w) {
        const int index = w * get_global_size(0) + get_global_id(0);
        y[index] += a * x[index];
    }
}
"""
X, Y = random_array(N, seed=1), random_array(N, seed=2)


def saxpy_space():
    return Space(
        [
            Parameter("WPT", range(1, N + 1), divides(N)),
            Parameter("LS", range(1, N + 1), divides(lambda WPT: N // WPT)),
        ]
    )


def saxpy(source=SAXPY, **options):
    given = {
        "global_size": lambda WPT: N // WPT,
        "local_size": lambda LS: LS,
        "expected": lambda N, a, x, y: {3: y + a * x},
        "timeout_s": 250,
        **options,
    }
    return OpenCLKernel(source, "saxpy", [N, 2.5, X, Y], **given)


@pytest.mark.process
def test_saxpy_is_tuned_and_its_result_checked():
    with saxpy() as cost:
        found = search(saxpy_space(), cost, abort=evaluations(25))
    assert {each.trial.status for each in found.trials} <= {"ok", "rejected"}
    assert found.best.trial.seconds == min(each.trial.cost for each in found.trials)
    assert 0 < found.best.trial.seconds < 1


@pytest.mark.process
def test_a_wrong_result_is_no_cost_and_says_by_how_much():
    wrong = SAXPY.replace("a * x", "(WPT == 4) + a * x")
    with saxpy(wrong) as cost:
        assert cost({"WPT": 2, "LS": 4}).status == "ok"
        trial = cost({"WPT": 4, "LS": 4})
    assert trial.status == "wrong"
    assert trial.detail == f"argument 3: {N} of {N} elements are off by up to 1"


@pytest.mark.process
def test_what_does_not_compile_or_launch_is_invalid():
    broken = SAXPY.replace("{\n    for", "{\n#if WPT == 8\n    eight\n#endif\n    for")
    with saxpy(broken) as cost:
        failed = cost({"WPT": 8, "LS": 2})
        assert failed.status == "compile_error"
        assert "eight" in failed.detail
        assert cost({"WPT": 1, "LS": N}).status == "rejected"  # more than a group may have
        assert cost({"WPT": 1, "LS": 3}).status == "rejected"
        assert cost({"WPT": 2, "LS": 2}).status == "ok"


@pytest.mark.process
def test_a_kernel_may_hang_and_crash():
    source = """
    kernel void saxpy(int N, float a, global const float* x, global float* y) {
    #if WPT == 1
        while (y[0] >= 0) y[0] += x[1] - x[1] + (y[0] > 8 ? -1 : 1);
    #elif WPT == 2
        ((volatile global float*)(ulong)8)[get_global_id(0)] = a;
    #else
        if (get_global_id(0) == 0) y[0] = N;
    #endif
    }"""
    right = Y.copy()
    right[0] = N
    with saxpy(source, expected={3: right}) as cost:
        status = []
        for wpt in (4, 1, 2, 8):
            cost._timeout_s = 3 if wpt == 1 else 250
            status.append(cost({"WPT": wpt, "LS": 1}).status)
    assert status == ["ok", "timeout", "crashed", "ok"]


@pytest.mark.process
def test_arguments_keep_their_types_and_two_dims_their_sizes():
    source = """
    kernel void placed(long n, double a, global short* out) {
        if (sizeof(n) == 8)
            out[get_global_id(1) * get_global_size(0) + get_global_id(0)]
                = get_local_size(0) * 100 + get_local_size(1) * 10 + (int)(n + a);
    }"""
    out = np.zeros((6, 4), np.int16)
    with OpenCLKernel(
        source,
        "placed",
        [np.int64(1), np.float64(2), out],
        global_size=[4, lambda ROWS: ROWS],
        local_size=(2, 3),
        expected={2: np.full((6, 4), 233)},
    ) as cost:
        assert cost({"ROWS": 6}).status == "ok"
        assert cost({"ROWS": 3}).detail == "argument 2: 12 of 24 elements are wrong"


@pytest.mark.process
def test_every_launch_begins_with_the_same_arguments():
    with saxpy(repeats=20) as cost:
        assert cost({"WPT": 2, "LS": 4}).status == "ok"
        assert cost({"WPT": 4, "LS": 4}).status == "ok"  # y was added to 20 times


@pytest.mark.process
def test_mistakes_of_the_user_are_named():
    with pytest.raises(TuningError, match="argument 1 of a kernel cannot be None"):
        OpenCLKernel("", "f", [1, None], global_size=1)
    with pytest.raises(TuningError, match="expected in argument 0, which is no array"):
        OpenCLKernel("", "f", [1], global_size=1, expected={0: 2})
    with pytest.raises(TuningError, match=r"has the shape \(3,\), and what is expected there"):
        OpenCLKernel("", "f", [np.zeros(3)], global_size=1, expected={0: np.zeros(4)})
    with (
        saxpy(global_size=lambda width: width) as cost,
        pytest.raises(TuningError, match="reads 'width', which is not a parameter"),
    ):
        cost({"WPT": 1, "LS": 1})
    with (
        saxpy(device="no such device") as cost,
        pytest.raises(TuningError, match="no OpenCL device is called 'no such device'"),
    ):
        cost({"WPT": 1, "LS": 1})


def test_data_is_random_and_repeatable():
    whole = random_array((3, 5), "int16", seed=3)
    assert whole.dtype == np.int16
    assert whole.shape == (3, 5)
    np.testing.assert_array_equal(whole, random_array((3, 5), "int16", seed=3))
    assert 0 <= random_array(100).min() < random_array(100).max() < 1
    assert math.isclose(random_array(10_000, "float64").mean(), 0.5, abs_tol=0.02)
