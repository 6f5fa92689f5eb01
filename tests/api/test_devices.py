"""Which device computes, and that choosing it again costs nothing."""

from __future__ import annotations

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.tuning import bench_worker
from mdtensor.backends import select
from mdtensor.backends.cuda.cupy_device import CupyDevice, name_of
from mdtensor.backends.llvm import llvm_device
from mdtensor.backends.select import Found, open_device
from mdtensor.errors import NoDeviceError


@pytest.fixture(autouse=True)
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is chosen here counts here."""
    monkeypatch.setitem(registry._engines, "numpy", registry.engine_for())
    monkeypatch.setattr(registry, "_chosen", list(registry._chosen))


def test_a_device_that_is_chosen_again_keeps_its_programs() -> None:
    name, a = mdt.devices()[0], np.ones((5, 6))
    mdt.device(name)
    engine = registry.engine_for()
    mdt.einsum("ij->i", a)
    programs = set(engine.structures)
    for _ in range(3):
        mdt.device(name)
        assert registry.engine_for() is engine
    assert programs
    assert programs <= set(engine.structures)
    np.testing.assert_array_equal(mdt.einsum("ij->i", a), a.sum(1))


def test_a_name_that_no_device_has_changes_nothing() -> None:
    engine = registry.engine_for()
    with pytest.raises(NoDeviceError, match="is called 'abacus'"):
        mdt.device("abacus")
    assert registry.engine_for() is engine


def test_llvm_computes_for_those_who_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(select.VARIABLE, raising=False)
    assert not open_device().target.dialect.startswith("llvm")
    monkeypatch.setenv(select.VARIABLE, "llvm")
    assert open_device().target.dialect.startswith("llvm")
    mdt.device("llvm")
    a, b = np.random.default_rng(0).random((2, 40, 40))
    np.testing.assert_allclose(mdt.einsum("ij,jk->ik", a, b), a @ b, rtol=1e-13)
    assert mdt.device().driver.startswith("LLVM ")


@pytest.mark.parametrize(
    ("lacking", "hint"),
    [
        ("find_spec", "pip install 'mdtensor[llvm]', which brings llvmlite"),
        ("_is_supported", "the llvm device is for CPython on Linux and macOS; OpenCL's is for all"),
    ],
)
def test_where_llvm_is_missing_the_extra_is_named(
    lacking: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llvm_device, lacking, lambda *_: None)
    monkeypatch.setenv(select.VARIABLE, "llvm")
    with pytest.raises(NoDeviceError) as caught:
        open_device()
    assert caught.value.message == "no device for numpy arrays is called 'llvm'"
    assert caught.value.hint == hint


def test_an_opt_in_device_is_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(select.VARIABLE, raising=False)
    listed = [Found("LLVM: abc", "numpy", registry.engine_for, opt_in=True)]  # type: ignore[arg-type]
    monkeypatch.setattr(select, "_search", lambda: (listed, ["OpenCL is not there"]))
    assert select.found_devices() == listed
    with pytest.raises(NoDeviceError, match="no device to compute on") as caught:
        open_device()
    assert caught.value.notes == ("OpenCL is not there", "by name alone: LLVM: abc")


@pytest.mark.parametrize("number", [1, 11])
@pytest.mark.parametrize("name", ["cuda:{}", "CUDA {}:", "cuda {}: nvidia"])
def test_cuda_devices_have_the_names_that_torch_gives_them(number: int, name: str) -> None:
    found = [Found(f"{name_of(n)} NVIDIA H200", "cupy", registry.engine_for) for n in range(12)]  # type: ignore[arg-type]
    fitting = [n for n, each in enumerate(found) if each.is_called(name.format(number))]
    assert fitting == [number]


class Opened(CupyDevice):
    """A CUDA device that is opened where there is none."""

    def __init__(self) -> None:
        self.target = registry.engine_for().target
        self.used = 0

    def use(self) -> None:
        self.used += 1


def test_what_measures_makes_its_device_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    device, asked = Opened(), []
    monkeypatch.setattr(bench_worker, "open_device", lambda *said: asked.append(said) or device)
    bench_worker.open_bench({"device": name_of(1), "arrays": "cupy"})
    assert asked == [("CUDA 1:", "cupy")]
    assert device.used == 1
