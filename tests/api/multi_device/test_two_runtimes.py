"""One call by two runtimes of the processor: LLVM's kernels for a part, OpenCL's for another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry

REAL_DEVICES = True
BOTH = ["llvm", "opencl"]
RNG = np.random.default_rng(6)

pytestmark = pytest.mark.usefixtures("device_chosen_here")


@mdt.stencil(border="wrap")
def mean(u):  # type: ignore[no-untyped-def]
    return 0.25 * u[-1, 0] + 0.5 * u[0, 0] + 0.25 * u[0, 1]


def test_parts_of_both_make_one_result() -> None:
    a, b = RNG.random((200, 90)), RNG.random((90, 70))
    plan = mdt.compile("ij,jk->ik", a, b, devices=BOTH)
    first, second = (choice.source.text for choice in plan.choices())
    assert "define " in first
    assert "__kernel " in second
    np.testing.assert_allclose(plan(a, b), a @ b, rtol=1e-13)
    np.testing.assert_allclose(mdt.einsum("ij,ij->", a, a, devices=BOTH), (a * a).sum())
    expected = 0.25 * np.roll(a, 1, 0) + 0.5 * a + 0.25 * np.roll(a, -1, 1)
    np.testing.assert_allclose(mdt.compile(mean, a, devices=BOTH)(a), expected, rtol=1e-13)


def test_a_report_is_on_the_part_of_each(tmp_path: Path) -> None:
    a, b = RNG.random((200, 91)), RNG.random((91, 70))
    plan = mdt.compile("ij,jk->ik", a, b, devices=BOTH)
    plan.report(tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert text.count("(De/re)-composition</h3>") == 2
    assert "define " in text
    assert "__kernel " in text


@pytest.mark.parametrize("default", BOTH)
def test_the_device_that_is_chosen_does_not_matter(default: str) -> None:
    mdt.device(default)
    a = np.rint(9 * RNG.random((200, 90)))
    np.testing.assert_array_equal(mdt.einsum("ij->j", a, devices=BOTH), a.sum(0))
    np.testing.assert_array_equal(mdt.einsum("ij->j", a, devices=BOTH[::-1]), a.sum(0))
    assert registry.device_name() == default


def test_names_are_those_that_devices_have() -> None:
    a = RNG.random((64, 32))
    names = [name for name in mdt.devices() if not name.startswith("CUDA")]
    assert len(names) > 1
    for devices in (names, names[::-1], {name: 1 + n for n, name in enumerate(names)}, "all"):
        np.testing.assert_array_equal(mdt.einsum("ij->ji", a, devices=devices), a.T)
