"""Kernels of the user's on OpenCL devices: results, sizes, arguments, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor import host
from mdtensor.errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    DTypeError,
    LaunchError,
    MdtensorError,
    ShapeError,
)
from mdtensor.host import Device
from tests import children

SUMS = """
kernel void sums(global float* result, global const float* input, int N)
{
    const int tid = get_global_id(0), threadN = get_global_size(0);
    float sum = 0;
    for (int pos = tid; pos < N; pos += threadN) sum += input[pos];
    result[tid] = sum;
}
"""
FILL = "kernel void fill(global TYPE* x, TYPE v) { x[get_global_id(0)] = v; }"


def test_chunks_on_two_devices_as_in_the_listing(two_devices: list[Device]) -> None:
    assert host.devices() == two_devices
    n, threads = 4096, 128
    numbers = np.random.default_rng(0).random(n * 2).astype("f4")
    x, out = host.buffer(numbers), host.empty(threads * 2)
    sums = host.kernel(SUMS)
    with host.profile() as seen:
        for k, device in enumerate(two_devices):
            part, rows = out[threads * k : threads * (k + 1)], x[n * k : n * (k + 1)]
            sums(threads, 32, device=device)(host.write(part), host.read(rows), n)
        got = out.numpy()
    right = numbers.astype("f8").reshape(2, -1, threads).sum(1).reshape(-1)
    np.testing.assert_allclose(got, right, rtol=1e-5)
    assert mdt.einsum("i->", out) == pytest.approx(right.sum(), rel=1e-5)
    kinds = sorted((span.kind, span.nbytes) for span in seen.spans if span.where != "host")
    assert kinds == [
        *[("copy from", 4 * threads)] * 2,
        *[("copy to", 4 * n)] * 2,
        *[("kernel", 0)] * 2,
    ]


def test_results_go_from_device_to_device(two_devices: list[Device]) -> None:
    text = """kernel void next(global const int* x, global int* y) {
        y[get_global_id(0)] = x[get_global_id(0)] + 1; }"""
    step = host.kernel(text)
    x, y = host.buffer(np.arange(1000, dtype="i4")), host.empty(1000, "i4")
    for n in range(20):
        step(1000, device=two_devices[n % 2])(host.read(x), host.write(y))
        x, y = y, x
    assert x.numpy().tolist() == [*range(20, 1020)]


def test_sizes_of_several_dims() -> None:
    text = """kernel void places(global int* x) {
        int w = get_global_size(0), n = get_global_id(0) + w * get_global_id(1);
        x[n] = 100 * get_group_id(1) + get_local_id(0); }"""
    x = host.empty((4, 6), "i4")
    host.kernel(text)((6, 4), (3, 2))(host.write(x))
    assert x.numpy().tolist() == [[0, 1, 2, 0, 1, 2]] * 2 + [[100, 101, 102, 100, 101, 102]] * 2


@pytest.mark.parametrize(
    ("name", "dtype", "value"),
    [
        ("char", "i1", -3),
        ("uchar", "u1", 255),
        ("unsigned short", "u2", 65535),
        ("int", "i4", -(2**31)),
        ("uint", "u4", np.int64(7)),
        ("long", "i8", 2**62),
        ("ulong", "u8", 2**64 - 1),
        ("float", "f4", 3),
        ("float", "f4", 0.1),
        ("double", "f8", 0.1),
    ],
)
def test_numbers_have_the_type_that_the_kernel_declares(name: str, dtype: str, value: Any) -> None:
    x = host.empty(3, dtype)
    host.kernel(FILL.replace("TYPE", name))(3)(host.write(x), value)
    assert x.numpy().tolist() == [np.dtype(dtype).type(value)] * 3


def test_types_that_the_text_does_not_tell() -> None:
    x = host.empty(3)
    fill = host.kernel(FILL, options=["-DTYPE=float"])
    fill(3)(host.write(x), np.float32(2.5))
    assert x.numpy().tolist() == [2.5] * 3
    with pytest.raises(DTypeError) as caught:
        fill(3)(host.write(x), 2.5)
    assert str(caught.value) == (
        "argument 1, v, is of a type that is not known here, 'TYPE'\n"
        "  hint: a number of NumPy's, such as numpy.float32(2.0), has a type of its own"
    )
    with pytest.raises(LaunchError, match="refused argument 1: INVALID_ARG_SIZE"):
        fill(3)(host.write(x), np.float64(2.5))


def test_complex_numbers_and_records_are_what_kernels_make_of_them() -> None:
    x = host.buffer(np.array([1 + 2j, 3 - 1j], "c8"))
    host.kernel("kernel void c(global float2* x) { x[get_global_id(0)].y *= -1; }")(2)(
        host.read_write(x)
    )
    assert x.numpy().tolist() == [1 - 2j, 3 + 1j]
    pair = np.dtype([("a", "i4"), ("b", "f4")])
    y = host.buffer(np.array([(1, 2.0)], pair))
    text = "struct p { int a; float b; }; kernel void r(global struct p* y) { y[0].a = y[0].b; }"
    host.kernel(text)(1)(host.read_write(y))
    assert y.numpy()[0].item() == (2, 2.0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (lambda x: (host.write(x), host.read(x)), ArgumentError, "takes 3 arguments, and got 2"),
        (
            lambda x: (host.write(x), host.read(x), 2.5),
            DTypeError,
            "argument 2, N, is 2.5, and in the kernel of type int",
        ),
        (
            lambda x: (host.write(x), host.read(x), 2**31),
            DTypeError,
            "argument 2, N, is 2147483648, and in the kernel of type int",
        ),
        (
            lambda x: (host.write(x), host.read(x), host.read(x)),
            DTypeError,
            "argument 2, N, is a number in the kernel, and got a buffer",
        ),
        (
            lambda x: (x, host.read(x), 1),
            DTypeError,
            "argument 0, result, is a buffer",
        ),
        (
            lambda x: (host.write(x), np.zeros(3), 1),
            DTypeError,
            r"argument 1, input, is a pointer in the kernel, and got an array \(3,\) of float64",
        ),
        (
            lambda x: (host.write(x), host.write(x), 1),
            ArgumentError,
            "argument 1, input, is const in the kernel, which cannot write it",
        ),
        (
            lambda x: (host.write(host.empty(3, "f8")), host.read(x), 1),
            DTypeError,
            "argument 0, result, points to float, and the buffer has float64",
        ),
        (
            lambda x: (host.write(x), host.read(host.empty(3)), 1),
            ArgumentError,
            "elements 0 to 3 of a buffer are read, and were never written",
        ),
    ],
)
def test_wrong_arguments(arguments: Any, error: type[MdtensorError], message: str) -> None:
    x = host.buffer(np.zeros(3, "f4"))
    with pytest.raises(error, match=message):
        host.kernel(SUMS)(1)(*arguments(x))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0,), "global_size is 0"),
        (((4, 4, 4, 4),), r"global_size is \(4, 4, 4, 4\)"),
        ((10, 4), r"global_size \(10,\) is no multiple of local_size \(4,\)"),
        (((8, 8), 4), r"global_size \(8, 8\) is no multiple of local_size \(4,\)"),
    ],
)
def test_wrong_sizes(sizes: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        host.kernel(SUMS)(*sizes)


def test_what_the_device_refuses() -> None:
    x = host.buffer(np.zeros(1 << 20, "f4"))
    with pytest.raises(LaunchError, match=r"OpenCL.* refused a launch: INVALID_WORK_GROUP_SIZE"):
        host.kernel(SUMS)(1 << 20, 1 << 20)(host.write(x), host.read(x), 1)


def test_texts_that_do_not_compile() -> None:
    wrong = host.kernel("kernel void wrong(global float* x)\n{\n    x[0] = y;\n}")
    x = host.empty(1)
    with pytest.raises(CompileError) as caught:
        wrong(1)(host.write(x))
    said = str(caught.value)
    assert "3:12: error: use of undeclared identifier 'y'" in said
    assert "     3 |     x[0] = y;" in said


def test_texts_without_a_kernel_or_with_several() -> None:
    with pytest.raises(ArgumentError, match="the text defines no kernel"):
        host.kernel("void f() {} // kernel void g() {}")
    two = "kernel void f(global int* x) {} kernel void g(void) {}"
    with pytest.raises(ArgumentError, match="the text defines several kernels"):
        host.kernel(two)
    with pytest.raises(ArgumentError, match=r"no kernel called 'h'\n  hint: it defines .'f', 'g'."):
        host.kernel(two, "h")
    assert repr(host.kernel(two, "f")) == "<opencl kernel f(x)>"
    with pytest.raises(DTypeError, match="options are '-DN=1'"):
        host.kernel(two, "f", options="-DN=1")
    with pytest.raises(DTypeError, match="3 is no text of a kernel"):
        host.kernel(3)  # pyright: ignore[reportArgumentType]


def test_kernels_of_the_other_language() -> None:
    cuda = host.kernel("__global__ static void f(float* x) {}")
    with pytest.raises(DeviceError, match=r"<cuda kernel f\(x\)> cannot run on"):
        cuda(1, 1, device=host.device("opencl"))


def test_devices_that_are_not_there() -> None:
    with pytest.raises(DeviceError) as caught:
        host.device("abacus")
    assert str(caught.value).startswith("no device is called 'abacus'\n  available: ")
    with pytest.raises(DTypeError, match="3 is no name of a device"):
        host.device(3)  # pyright: ignore[reportArgumentType]


def test_parts_that_a_device_cannot_begin() -> None:
    x = host.buffer(np.zeros(64, "f4"))
    sums = host.kernel(SUMS)
    out = host.empty(1)
    sums(1)(host.write(out), host.read(x), 64)
    sums(1)(host.write(out), host.read(x[32:]), 32)
    with pytest.raises(ShapeError, match="12 bytes before this one, and begins parts at multiples"):
        sums(1)(host.write(out), host.read(x[3:]), 61)


def test_work_items_of_a_group_share_memory() -> None:
    text = """kernel void sums(global const int* x, global int* y) {
        local int t[16];
        const int n = get_local_id(0);
        t[n] = x[get_global_id(0)];
        for (int rest = 8; rest > 0; rest /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (n < rest) t[n] += t[n + rest];
        }
        if (n == 0) y[get_group_id(0)] = t[0]; }"""
    numbers = np.random.default_rng(0).integers(0, 100, 160, "i4")
    y = host.empty(10, "i4")
    host.kernel(text)(160, 16)(host.read(host.buffer(numbers)), host.write(y))
    assert y.numpy().tolist() == numbers.reshape(10, 16).sum(1).tolist()


def test_buffers_without_elements() -> None:
    text = "kernel void nothing(global const int* x, global int* y) {}"
    x, y = host.buffer(np.zeros((0, 3), "i4")), host.empty(0, "i4")
    host.kernel(text)(4)(host.read(x), host.write(y))
    assert (x.numpy().shape, y.numpy().shape) == ((0, 3), (0,))


def test_local_memory_is_declared_in_the_kernel() -> None:
    text = "kernel void f(local float* t, global float* x) {}"
    with pytest.raises(ArgumentError, match="argument 0, t, is memory of a work-group"):
        host.kernel(text)(1)(64, host.write(host.empty(1)))


LONG = """
import numpy as np, threading
from mdtensor import host
text = '''kernel void long_one(global float* x) {
    float a = x[0];
    for (long n = 0; n < 30000000; ++n) a = a * 0.5f + x[n & 1];
    x[0] = a; }'''
x = host.buffer(np.ones(4, "f4"))
k = host.kernel(text)
"""


@pytest.mark.process
def test_a_process_ends_while_a_kernel_runs() -> None:
    program = LONG + "k(1)(host.read_write(x))\ndel x"
    assert children.run("-c", program).err == ""


@pytest.mark.process
def test_a_process_ends_while_a_daemon_waits() -> None:
    program = """
k(1)(host.read_write(x))
threading.Thread(target=x.numpy, daemon=True).start()
"""
    assert children.run("-c", LONG + program).err == ""


@pytest.mark.process
def test_commands_that_nobody_waits_for_are_done_before_a_process_ends() -> None:
    """A daemon thread that holds the buffer keeps its queue from being released before."""
    begin = """
import atexit
commands = []
atexit.register(lambda: print(commands[-1].is_done()))  # and so last
"""
    held = """
from mdtensor.host.host_devices import DeviceCommand
made = DeviceCommand.__init__
DeviceCommand.__init__ = lambda self, *given: (made(self, *given), commands.append(self))[0]
k(1)(host.read_write(x))
threading.Thread(target=lambda x=x: threading.Event().wait(), daemon=True).start()
"""
    end = children.run("-c", begin + LONG + held)
    assert (end.err, end.out) == ("", "True\n")
