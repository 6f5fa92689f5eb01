"""NumPy arrays on the OpenCL device: any layout, many threads, and what goes wrong."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mdtensor.backends.host import hardware
from mdtensor.backends.host.binary_cache import Compiled, MachineCode
from mdtensor.backends.opencl import opencl_device as backend
from mdtensor.backends.opencl.opencl_target import target_of
from mdtensor.backends.select import open_compiler
from mdtensor.errors import CompileError, LaunchError, NoDeviceError
from mdtensor.kernels.cstyle import render
from mdtensor.kernels.opencl import OPENCL
from mdtensor.lower.lowering import lowered
from tests.hurried import at_once
from tests.kernels.kernel_cases import CASES, cpu, matmul, source
from tests.lower import fuzz
from tests.lower.fuzz import Case
from tests.lower.random_problems import Einsum, Operand


@pytest.fixture(scope="module")
def device():
    return backend.open_device(backend.devices()[0][1])


def operand(shape: tuple[int, ...], dtype: str = "f4", **changes: object) -> Operand:
    rank = len(shape)
    plain = Operand(dtype, shape, tuple(range(rank)), (1,) * rank, (0,) * rank)
    return replace(plain, **changes)


VECTOR = operand((6,))
LAYOUTS = {
    "contiguous": operand((5, 6)),
    "Fortran order": operand((5, 6), order=(1, 0)),
    "every second row": operand((5, 6), steps=(2, 1)),
    "every third column": operand((5, 6), steps=(1, 3)),
    "rows reversed": operand((5, 6), steps=(-1, 1)),
    "columns reversed": operand((5, 6), steps=(1, -1)),
    "all reversed, with gaps": operand((5, 6), steps=(-2, -3), pads=(1, 2)),
    "rows all the same": operand((5, 6), steps=(0, 1)),
    "columns all the same": operand((5, 6), steps=(1, 0)),
    "one element for all": operand((5, 6), steps=(0, 0)),
    "not aligned": operand((5, 6), offset=3),
}


def compiled(device, case: Case):
    nests = lowered(case.problem(), case.schedule)
    text = render(nests, OPENCL, inline=case.schedule.inline)
    return device.compile(text, fuzz.run_time_sizes(case))


def plain_case(einsum: Einsum) -> Case:
    problem = Case(einsum, cpu(0, ())).problem()
    schedule = cpu(len(problem.extents), problem.contracted)
    return Case(einsum, replace(schedule, staged=("",) * len(problem.streams)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_input_of_any_layout(device, layout):
    einsum = Einsum("ij,j->i", (LAYOUTS[layout], VECTOR), operand((5,)))
    fuzz.check_program(compiled(device, plain_case(einsum)), einsum, 0)


@pytest.mark.parametrize(
    "layout", [name for name in LAYOUTS if "same" not in name and "all" not in name]
)
def test_output_of_any_layout(device, layout):
    einsum = Einsum("i,j->ij", (operand((5,)), VECTOR), LAYOUTS[layout])
    fuzz.check_program(compiled(device, plain_case(einsum)), einsum, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_read_only_input(device, layout):
    matrix = replace(LAYOUTS[layout], readonly=True)
    einsum = Einsum("ij,j->i", (matrix, replace(VECTOR, readonly=True)), operand((5,)))
    fuzz.check_program(compiled(device, plain_case(einsum)), einsum, 0)


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("dtype", ["f2", "i1", "?", "c16", "u8"])
def test_arrays_without_axes(device, dtype, readonly):
    scalar = operand((), dtype, readonly=readonly)
    einsum = Einsum(",->", (scalar, scalar), operand((), dtype))
    fuzz.check_program(compiled(device, plain_case(einsum)), einsum, 0)


def test_many_threads_run_one_program(device):
    program = compiled(device, CASES["dot_split"])  # its groups share scratch memory
    start = threading.Barrier(8)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        start.wait()
        for _ in range(200):
            a, b = (rng.uniform(-1, 1, 203).astype("f4") for _ in range(2))
            out = np.full((), np.nan, "f4")
            program(a, b, out)
            assert abs(float(out) - float(a.astype("f8") @ b.astype("f8"))) < 1e-4

    at_once(*(partial(work, seed) for seed in range(8)))


def test_a_launch_within_another_one_of_the_thread_leaves_it_alone(device, monkeypatch):
    program = compiled(device, CASES["dot_split"])
    rng = np.random.default_rng(0)
    cases = [[rng.integers(-9, 9, 203).astype("f4") for _ in range(2)] for _ in range(2)]
    results = [np.full((), np.nan, "f4") for _ in cases]
    enqueue = device.cl.enqueue_nd_range_kernel

    def interrupted(*args: Any) -> Any:  # as a signal handler may, after the arguments are set
        monkeypatch.undo()
        program(*cases[1], results[1])
        return enqueue(*args)

    monkeypatch.setattr(device.cl, "enqueue_nd_range_kernel", interrupted)
    program(*cases[0], results[0])
    assert results == [a @ b for a, b in cases]


def test_results_are_there_when_the_call_returns(device):
    case = plain_case(matmul(64, 64, 64))
    case = replace(case, schedule=replace(case.schedule, parts=(8, 1, 8)))
    program = compiled(device, case)
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (64, 64)).astype("f4") for _ in range(2))
    expected = a.astype("f8") @ b.astype("f8")
    for _ in range(200):
        out = np.full((64, 64), np.nan, "f4")
        program(a, b, out)
        np.testing.assert_allclose(out.copy(), expected, atol=1e-4)


def test_one_program_serves_other_sizes(device):
    case = CASES["matmul_general"]
    program = compiled(device, case)
    other = replace(case, einsum=matmul(33, 11, 50))
    assert other.problem() == case.problem()
    bound = program.bound(fuzz.run_time_sizes(other))
    assert bound.owner is program.owner
    fuzz.check_program(bound, other.einsum, 0)
    fuzz.check_program(program, case.einsum, 0)


def test_an_array_on_a_boundary():
    for shape in ((3, 5), (), (0, 4), (1000,)):
        array = backend.aligned_empty(shape, "f4")
        assert array.shape == shape
        assert array.ctypes.data % 64 == 0
        assert array.flags.writeable
    turned = backend.aligned_empty((3, 5), "f8", (1, 3))
    assert turned.strides == (8, 24)


def test_source_that_does_not_compile_is_shown_with_numbers(device):
    good = source("matmul_remainder", OPENCL)
    bad = replace(good, text=good.text.replace("const long group =", "const lang group ="))
    line = next(n for n, text in enumerate(bad.text.splitlines(), 1) if "const lang" in text)
    with pytest.raises(CompileError, match="refused a kernel") as caught:
        device.compile(bad)
    text = str(caught.value)
    assert re.search(rf"^ *{line} \| +const lang group = get_group_id\(0\);$", text, re.MULTILINE)
    assert "unknown type name 'lang'" in text
    assert any("unknown type name" in note for note in caught.value.notes)


def test_a_wrong_number_of_sizes_is_refused(device):
    with pytest.raises(ValueError, match="zip"):
        device.compile(source("matmul_general", OPENCL), (1, 2, 3))


@pytest.mark.parametrize("lacking", ["Context", "CommandQueue"])
def test_a_device_that_cannot_be_opened_is_named(device, lacking, monkeypatch):
    def refuse(*_):
        raise device.cl.RuntimeError(f"{lacking} failed: DEVICE_NOT_AVAILABLE")

    monkeypatch.setattr(device.cl, lacking, refuse)
    label, raw = backend.devices()[0]
    with pytest.raises(NoDeviceError) as caught:
        backend.open_device(raw)
    assert str(caught.value) == (
        f"{label} cannot be opened: {lacking} failed: DEVICE_NOT_AVAILABLE\n"
        "  hint: set MDTENSOR_DEVICE to another of mdtensor.devices(); `clinfo` tells whether other"
        " programs can open it"
    )


def test_target_tells_what_the_device_is(device):
    target = device.target
    assert target.kind == "cpu"
    assert target.dialect == ("opencl-fma" if hardware.has_fma() else "opencl")
    assert target.cores >= 1
    assert target.vector_bytes in (16, 32, 64)
    assert target.l1_bytes <= target.l2_bytes
    assert target.local_bytes >= 16 << 10
    assert target.has_fp64


def test_target_of_a_gpu_has_none_of_the_processors_facts(device):
    """An H200 as NVIDIA's OpenCL describes it."""
    gpu = SimpleNamespace(
        type=device.cl.device_type.GPU,
        name="NVIDIA H200",
        platform=SimpleNamespace(name="NVIDIA CUDA"),
        driver_version="580.159.04",
        max_compute_units=132,
        max_clock_frequency=1980,
        global_mem_cache_size=4325376,
        local_mem_size=49152,
        max_work_group_size=1024,
        double_fp_config=63,
    )
    target = target_of(device.cl, gpu)
    assert (target.kind, target.dialect, target.warp, target.cores) == ("gpu", "opencl", 32, 132)
    assert (target.name, target.driver) == ("NVIDIA H200", "NVIDIA CUDA 580.159.04")
    assert target.rate == 1980e6 * 128
    assert (target.l1_bytes, target.l2_bytes, target.l3_bytes) == (49152, 4325376, 4325376)


def test_barriers_are_compiled_as_they_stand_where_the_compiler_mistakes_them(device):
    """Intel's compiler got kernels of the GPU family wrong when it optimised them (ADR 4)."""

    def options(text: str, *, fragile: bool = False) -> str:
        return device.build(text, fragile=fragile).held.get_build_info(
            device.device, device.cl.program_build_info.OPTIONS
        )

    alone = "__kernel void f(__global int* x) { x[0] = 1; }"
    shared = "__kernel void f(__global int* x) { barrier(CLK_LOCAL_MEM_FENCE); x[0] = 1; }"
    kept = "__kernel void f(__global int* x) { __local int y[1]; y[0] = 1; x[0] = y[0]; }"
    assert "-cl-opt-disable" not in options(alone)
    assert ("-cl-opt-disable" in options(shared)) == device.mistakes_barriers
    assert ("-cl-opt-disable" in options(kept)) == device.mistakes_barriers
    assert ("-cl-opt-disable" in options(alone, fragile=True)) == device.mistakes_barriers
    assert device.mistakes_barriers == ("Intel" in device.device.platform.vendor)


@pytest.mark.parametrize("name", ["matmul_remainder", "dot_split"])
def test_machine_code_of_another_context_is_the_program(device, name):
    case, compiler = CASES[name], open_compiler(device.compiler)
    nests = lowered(case.problem(), case.schedule)
    made = compiler.compiled(render(nests, OPENCL, inline=case.schedule.inline))
    assert made.machine.code != made.source.text.encode()
    made = replace(made, source=replace(made.source, text=""))
    fuzz.check_program(device.load(made), case.einsum, 0)


def test_what_is_no_machine_code_is_refused(device):
    made = Compiled(source("dot_split", OPENCL), MachineCode(b"no code"))
    with pytest.raises(CompileError, match=r"refused machine code: .*INVALID"):
        device.load(made)


class TestWithoutSharedMemory:
    """Devices that do not see the process's memory take buffers around it."""

    @pytest.fixture
    def device(self, monkeypatch):
        apart = backend.open_device(backend.devices()[0][1])
        monkeypatch.setattr(apart, "takes_addresses", False)
        return apart

    @pytest.mark.parametrize("name", ["matmul_remainder", "dot_split", "matmul_general"])
    def test_result(self, device, name):
        case = CASES[name]
        fuzz.check_program(compiled(device, case), case.einsum, 0)

    def test_input_with_gaps(self, device):
        matrix = replace(LAYOUTS["every third column"], readonly=True)
        einsum = Einsum("ij,j->i", (matrix, VECTOR), operand((5,), steps=(2,)))
        fuzz.check_program(compiled(device, plain_case(einsum)), einsum, 0)

    def test_negative_strides_are_refused(self, device):
        einsum = Einsum("ij,j->i", (LAYOUTS["rows reversed"], VECTOR), operand((5,)))
        program = compiled(device, plain_case(einsum))
        with pytest.raises(LaunchError, match="negative strides need a device with system SVM"):
            fuzz.check_program(program, einsum, 0)


def test_programs_that_nobody_uses_are_released_while_nobody_compiles(device, monkeypatch):
    """Intel's compiler ran without end when another thread released a program beside it."""
    released: list[bool] = []

    class Program:
        def _build(self, options: bytes, devices: None) -> None:
            pass

        def __del__(self) -> None:
            released.append(device._building.locked())

    monkeypatch.setattr(device, "_new_program", lambda *arguments: Program())
    at_once(*[partial(device.build, "")] * 4)
    assert len(released) < 4
    monkeypatch.undo()
    device.build("__kernel void f(__global int* x) { x[0] = 1; }")
    assert released == [True] * 4


def test_kernel_objects_keep_their_program(device):
    program = device.compile(source("dot_split", OPENCL))
    kernels = program.made()
    held = weakref.ref(program)
    gc.collect()
    before = len(device._programs)
    del program
    gc.collect()
    assert held() is None
    assert len(device._programs) == before
    kernels.clear()
    assert len(device._programs) == before + 1


def test_once_the_process_ends_its_own_thread_alone_compiles():
    """Another that waited would keep what handlers of the end may need."""
    device = backend.open_device(backend.devices()[0][1])
    text, ended = "__kernel void f(__global int* x) { x[0] = 1; }", []

    def work() -> None:
        with pytest.raises(SystemExit):
            device.build(text)
        ended.append(threading.get_ident())

    device._end()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    assert len(ended) == 1
    assert device.build(text).held is not None
