"""Plans over several devices, and the front ends that take `devices`."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.multi_device.device_list import DeviceList
from mdtensor.errors import DeviceError, TranslationError, TuningError
from tests.api.multi_device import pools

BOTH = ["llvm", "pool"]
RNG = np.random.default_rng(63)


@mdt.stencil(border="nearest")
def smoothed(u: Any) -> Any:
    return 0.25 * u[-1, 0] + 0.5 * u[0, 0] + 0.25 * u[2, 0]


def smooth(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((1, 2), (0, 0)), "edge")
    return 0.25 * padded[:-3] + 0.5 * padded[1:-2] + 0.25 * padded[3:]


def test_a_plan_of_a_string() -> None:
    a, b = RNG.random((90, 40)), RNG.random((40, 30))
    plan = mdt.compile("ij,jk->ik", a, b, devices=BOTH)
    for _ in range(2):
        np.testing.assert_allclose(plan(a, b), a @ b, rtol=1e-13)
        out = np.empty((90, 30))
        assert plan(a, b, out=out) is out
        np.testing.assert_allclose(out, a @ b, rtol=1e-13)
    assert repr(plan).endswith(f"devices=['{mdt.devices()[0]}', '{pools.POOL}'])")
    copy = pickle.loads(pickle.dumps(plan))
    np.testing.assert_array_equal(copy(a, b), plan(a, b))


def test_a_plan_of_a_stencil_reads_what_its_parts_need() -> None:
    x = RNG.random((640, 40))
    plan = mdt.compile(smoothed, x, devices=BOTH)
    np.testing.assert_allclose(plan(x), smooth(x), rtol=1e-13)
    reads = [view.box[0] for task in plan.programs().tasks.tasks for view in task.reads]  # type: ignore[attr-defined]
    assert reads[0].stop - reads[0].start == 320 + 3
    assert reads[0].stop - reads[1].start == 3


def test_a_plan_says_who_gets_what() -> None:
    a, b = RNG.random((96, 40)), RNG.random((40, 30))
    said = mdt.compile("ij,jk->ik", a, b, devices={"pool": 2, "llvm": 1}).explain()
    assert said.startswith(
        """\
Pool: threads: reads 30.1 kB, writes 15.4 kB
  md_hom[i:64, j:40, k:30](mul, (cc, pw(add), cc))
    reads operand 0[0:64, 0:40], operand 1[0:40, 0:30]
    writes result 0[0:64, 0:30]
"""
    )
    assert f"\n{mdt.devices()[0]}: reads 19.8 kB, writes 7.68 kB\n" in said
    assert "\n\non Pool: threads\nmd_hom\n" in said
    assert said.count("schedule (from") == 2


def test_partial_results_are_named_in_what_a_plan_says() -> None:
    x = RNG.random(4096)
    said = mdt.compile("i,i->", x, x, devices=BOTH).explain()
    assert "    reads array 0 between[], array 1 between[]\n    writes array 2 between[]\n" in said
    assert mdt.compile("i,i->", x[:0], x[:0], devices=BOTH).explain().startswith("nothing is")


def test_a_plan_of_two_computations_is_refused() -> None:
    with pytest.raises(TranslationError, match="and not spread over devices"):
        mdt.compile(mdt.ndimage.gaussian_gradient_magnitude, RNG.random((40, 40)), 2.0,
                    devices=BOTH)  # fmt: skip
    with pytest.raises(DeviceError, match="is called 'abacus'"):
        mdt.compile("ij->i", RNG.random((4, 4)), devices=["abacus"])


def test_a_plan_is_for_arrays_of_its_devices() -> None:
    a = RNG.random((40, 40))
    plan = mdt.compile("ij->i", a, devices=BOTH)
    plan.devices = DeviceList("cupy", ("CUDA 0: A", "CUDA 1: B"))  # type: ignore[attr-defined]
    with pytest.raises(DeviceError) as raised:
        plan(a)
    assert str(raised.value) == (
        "devices for cupy arrays were named, and these are numpy arrays\n"
        "  named: CUDA 0: A\n  named: CUDA 1: B\n"
        "  hint: a plan is for the devices of the arrays that it was made with"
    )


@pytest.mark.process
def test_a_plan_over_devices_is_not_tuned() -> None:
    plan = mdt.compile("ij->i", RNG.random((40, 40)), devices=BOTH)
    with pytest.raises(TuningError, match=r"^a plan over several devices is not tuned"):
        plan.tune(0)


def test_reductions_scans_and_convolutions() -> None:
    x = RNG.random((64, 48))
    for options in ({}, {"combine": "max"}, {"combine": "logaddexp"}):
        whole = mdt.reduce("ij->j", x, **options)
        np.testing.assert_allclose(mdt.reduce("ij->j", x, devices=BOTH, **options), whole)
    position, _ = np.unravel_index(x.argmin(), x.shape)
    assert mdt.reduce("ij->", x, combine="argmin", devices=BOTH) == x.argmin()
    assert mdt.reduce("ij->i", x, combine="min", devices=BOTH).argmin() == position
    out = np.empty_like(x)
    assert mdt.scan("ij->ij", x, combine={"i": "add"}, out=out, devices=BOTH) is out
    np.testing.assert_allclose(out, x.cumsum(0), rtol=1e-13)
    two = mdt.reduce("ij->i", x, f=lambda v: (v, v * v), combine="add", devices=BOTH)
    np.testing.assert_allclose(two, (x.sum(1), (x * x).sum(1)), rtol=1e-13)
    img, flt, bias = RNG.random((2, 20, 18, 5)), RNG.random((7, 3, 3, 5)), RNG.random(7)
    whole = mdt.conv(img, flt, padding="same", bias=bias, epilogue="relu")
    parts = mdt.conv(img, flt, padding="same", bias=bias, epilogue="relu", devices=BOTH)
    np.testing.assert_allclose(parts, whole, rtol=1e-13)
