"""Which device computes, and that choosing it again costs nothing."""

from __future__ import annotations

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.tuning import bench_worker
from mdtensor.backends import select
from mdtensor.backends.cuda.cupy_device import CupyDevice, name_of
from mdtensor.backends.host import thread_count
from mdtensor.backends.llvm import presence
from mdtensor.backends.protocol import ComputeDevice
from mdtensor.backends.select import UsableDevice, open_device
from mdtensor.errors import ArgumentError, DTypeError, NoDeviceError
from tests import children

pytestmark = pytest.mark.usefixtures("device_chosen_here")


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


def is_by_llvm(device: ComputeDevice) -> bool:
    return device.target.dialect.startswith("llvm")


def test_llvm_computes_and_others_for_those_who_name_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(select.VARIABLE, raising=False)
    assert is_by_llvm(open_device())
    assert mdt.devices()[0].startswith("LLVM: ")
    monkeypatch.setenv(select.VARIABLE, "opencl")
    assert open_device().target.dialect.startswith("opencl")
    a, b = np.random.default_rng(0).random((2, 40, 40))
    for name, driver in (("opencl", "OpenCL"), ("llvm", "LLVM ")):
        mdt.device(name)
        np.testing.assert_allclose(mdt.einsum("ij,jk->ik", a, b), a @ b, rtol=1e-13)
        assert driver in mdt.device().driver


@pytest.mark.process
def test_the_default_loads_no_opencl() -> None:
    program = "import sys, mdtensor; mdtensor.device(); print('pyopencl' in sys.modules)"
    assert children.run("-c", program, env={select.VARIABLE: ""}).out == "False\n"


@pytest.mark.parametrize(
    ("lacking", "hint"),
    [
        ("find_spec", "pip install llvmlite, which mdtensor computes with"),
        ("is_supported", "the llvm device is for CPython on Linux and macOS; OpenCL's is for all"),
    ],
)
def test_where_llvm_is_missing_what_brings_it_is_named(
    lacking: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, lacking, lambda *_: None)
    monkeypatch.setenv(select.VARIABLE, "llvm")
    with pytest.raises(NoDeviceError) as caught:
        open_device()
    assert caught.value.message == "no device for numpy arrays is called 'llvm'"
    assert caught.value.hint == hint
    monkeypatch.delenv(select.VARIABLE)
    assert open_device().target.dialect.startswith("opencl"), "the next one computes"


def missing() -> list[UsableDevice]:
    raise NoDeviceError("PyOpenCL cannot be imported")


def test_where_opencl_is_missing_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "_opencl_devices", missing)
    with pytest.raises(NoDeviceError, match="no device for numpy arrays is called 'opencl'") as at:
        open_device("opencl")
    assert "pip install 'mdtensor[opencl]' brings PyOpenCL" in (at.value.hint or "")
    assert at.value.notes[0] == "PyOpenCL cannot be imported"
    assert is_by_llvm(open_device())


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_where_a_gpu_is_named_for_arrays_of_numpy_its_extra_is(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "_opencl_devices", missing)
    with pytest.raises(NoDeviceError, match=f"no device for numpy arrays is called '{name}'") as at:
        open_device(name)
    assert (at.value.hint or "").startswith(
        "CUDA devices compute with CuPy's arrays; pip install 'mdtensor[cuda12]'"
    )
    assert all(note.startswith("available: ") for note in at.value.notes)


def test_where_nothing_computes_llvmlite_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(select.VARIABLE, raising=False)
    monkeypatch.setattr(presence, "find_spec", lambda *_: None)
    monkeypatch.setattr(select, "_opencl_devices", missing)
    monkeypatch.setattr(select, "_cuda_devices", list)
    for ask in (open_device, select.found_devices):
        with pytest.raises(NoDeviceError, match="no device to compute on") as caught:
            ask()
        assert caught.value.notes == ("PyOpenCL cannot be imported",)
        assert caught.value.hint == "pip install llvmlite, which mdtensor computes with"
    on_gpu = [UsableDevice(name_of(0), "cupy", registry.engine_for, "cuda")]  # type: ignore[arg-type]
    monkeypatch.setattr(select, "_cuda_devices", lambda: list(on_gpu))
    with pytest.raises(NoDeviceError, match=r"^no device for numpy arrays\n") as caught:
        open_device()
    assert caught.value.hint == "pip install llvmlite, which mdtensor computes with"


@pytest.mark.parametrize("number", [1, 11])
@pytest.mark.parametrize("name", ["cuda:{}", "CUDA {}:", "cuda {}: nvidia"])
def test_cuda_devices_have_the_names_that_torch_gives_them(number: int, name: str) -> None:
    found = [
        UsableDevice(f"{name_of(n)} NVIDIA H200", "cupy", registry.engine_for) for n in range(12)
    ]  # type: ignore[arg-type]
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


def test_a_limit_of_threads_ends_with_its_block() -> None:
    a = np.arange(10000.0)
    with mdt.threads(1) as limit:
        assert (limit.most, thread_count.limit()) == (1, 1)
        with mdt.threads(None):
            assert thread_count.limit() == thread_count.ALL
        assert thread_count.limit() == 1
        np.testing.assert_allclose(mdt.einsum("i,i->", a, a), a @ a, rtol=1e-13)
    assert thread_count.limit() == thread_count.ALL
    assert repr(limit) == "at most 1 thread"


@pytest.mark.parametrize("most", [0, -1, 1.5, "2"])
def test_what_is_no_number_of_threads_is_refused(most: object) -> None:
    with pytest.raises((ArgumentError, DTypeError), match=r"is no number of threads|not a whole"):
        mdt.threads(most)  # type: ignore[arg-type]
    assert thread_count.limit() == thread_count.ALL
