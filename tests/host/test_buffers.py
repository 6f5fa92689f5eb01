"""Buffers on several devices: their newest elements, needed copies, and the order of commands."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np
import pytest

from mdtensor import host
from mdtensor.errors import ArgumentError, DTypeError, IndexingError, LaunchError, ShapeError
from mdtensor.host import Device, DeviceBuffer, Part
from mdtensor.host.buffer_state import MOST_RANGES
from tests.host.late_device import LateDevice, World
from tests.hurried import at_once

SIZE = 12
TEXT = """
kernel void copy(global const int* x, global int* y) { }
kernel void add(global const int* x, global int* y) { }
kernel void ramp(global int* y, int first) { }
"""


def copy(x: np.ndarray, y: np.ndarray) -> None:
    y[:] = x[: y.size]


def add(x: np.ndarray, y: np.ndarray) -> None:
    y.view("i4")[:] += x.view("i4")[: y.size // 4]


def ramp(y: np.ndarray, first: int) -> None:
    y.view("i4")[:] = first + np.arange(y.size // 4)


KERNELS = {"copy": copy, "add": add, "ramp": ramp}


def late_devices(seed: int) -> list[Device]:
    """Two devices that copy between each other, and one that does not with them."""
    world = World(seed)
    families = ["a", "a", "b"]
    return [
        Device(LateDevice(f"late {n}", world, family, KERNELS)) for n, family in enumerate(families)
    ]


def moved(device: Device) -> int:
    native: Any = device.native
    return native.moved


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(120))
def test_random_programs_have_the_results_of_one_device(seed: int) -> None:
    check_random_program(seed, late_devices(seed), TEXT)


def check_random_program(seed: int, devices: list[Device], text: str) -> None:
    """Compares buffers, and what the host saw of them, with arrays of NumPy."""
    draw = random.Random(seed)
    names = {name: host.kernel(text, name) for name in KERNELS}
    filled = [draw.random() < 0.7 for _ in range(3)]
    truth = [np.arange(SIZE, dtype="i4") * (n + 1) for n in range(3)]
    known = [np.full(SIZE, each) for each in filled]
    buffers: list[DeviceBuffer] = [
        host.buffer(truth[n]) if filled[n] else host.empty(SIZE, "i4") for n in range(3)
    ]
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def box(length: int | None = None) -> tuple[int, int]:
        if length is None:
            begin, end = sorted(draw.sample(range(SIZE + 1), 2))
            return begin, end
        begin = draw.randrange(SIZE - length + 1)
        return begin, begin + length

    for _ in range(draw.randrange(5, 40)):
        n, m = draw.sample(range(3), 2)
        a, b = box()
        c, d = box(b - a)
        device, kind = draw.choice(devices), draw.choice(["copy", "add", "ramp", "set", "see"])
        x, y = buffers[m][c:d], buffers[n][a:b]
        launch = names[kind](b - a, 1, device=device) if kind in names else None
        if kind in ("copy", "add") and not known[m][c:d].all():
            continue
        if kind in ("add", "see") and not known[n][a:b].all():
            continue
        if kind == "copy" and launch:
            launch(host.read(x), host.write(y))
            truth[n][a:b] = truth[m][c:d]
        elif kind == "add" and launch:
            launch(host.read(x), host.read_write(y))
            truth[n][a:b] += truth[m][c:d]
        elif kind == "ramp" and launch:
            launch(host.write(y), a)
            truth[n][a:b] = a + np.arange(b - a)
        elif kind == "set":
            buffers[n][a:b] = 100 * a
            truth[n][a:b] = 100 * a
        else:
            seen.append((y.numpy(), truth[n][a:b].copy()))
        if kind != "see":
            known[n][a:b] = True
    for n, each in enumerate(buffers):
        if known[n].all():
            assert each.numpy().tolist() == truth[n].tolist()
    for got, right in seen:
        assert got.tolist() == right.tolist()


def test_copies_are_made_when_they_are_needed() -> None:
    first, second, other = late_devices(0)
    x, y = host.buffer(np.arange(SIZE, dtype="i4")), host.empty(SIZE, "i4")
    kernel = host.kernel(TEXT, "copy")
    for _ in range(3):
        kernel(SIZE, device=first)(host.read(x), host.write(y))
    assert moved(first) == 4 * SIZE  # x once, y never
    y.numpy()
    y.numpy()
    assert moved(first) == 8 * SIZE
    kernel(SIZE, device=second)(host.read(y[4:8]), host.write(x[:4]))
    assert (moved(first), moved(second)) == (8 * SIZE, 4 * 4)  # from device to device
    kernel(SIZE, device=other)(host.read(x[:4]), host.write(y[:4]))
    assert (moved(second), moved(other)) == (2 * 4 * 4, 4 * 4)  # through the host
    assert y.numpy().tolist() == [4, 5, 6, 7, *range(4, SIZE)]


def test_a_write_on_the_host_makes_copies_stale() -> None:
    device = late_devices(0)[0]
    x, y = host.buffer(np.zeros(SIZE, "i4")), host.empty(SIZE, "i4")
    kernel = host.kernel(TEXT, "copy")
    kernel(SIZE, device=device)(host.read(x), host.write(y))
    x[2:4] = [7, 8]
    kernel(SIZE, device=device)(host.read(x), host.write(y))
    assert y.numpy()[:5].tolist() == [0, 0, 7, 8, 0]
    assert moved(device) == 4 * (SIZE + 2 + SIZE)


@pytest.mark.parametrize("seed", range(8))
def test_copies_to_the_host_wait_for_copies_from_there(seed: int) -> None:
    first, _, other = late_devices(seed)
    x, y = host.buffer(np.zeros(SIZE, "i4")), host.empty(SIZE, "i4")
    host.kernel(TEXT, "copy")(SIZE, device=first)(host.read(x), host.write(y))
    host.kernel(TEXT, "ramp")(SIZE, device=other)(host.write(x), 5)
    assert x.numpy().tolist() == [*range(5, 5 + SIZE)]
    assert y.numpy().tolist() == [0] * SIZE


@pytest.mark.parametrize("seed", range(8))
def test_kernels_wait_for_copies_that_another_thread_asked_for(seed: int) -> None:
    device = late_devices(seed)[0]
    ramp_of, x = host.kernel(TEXT, "ramp"), host.empty(SIZE, "i4")
    ramp_of(SIZE, device=device)(host.write(x), 1)
    array, _ = x.whole.lent(0, SIZE)  # and waits later
    ramp_of(SIZE, device=device)(host.write(x), 5)
    device.wait()
    assert array.tolist() == [*range(1, 1 + SIZE)]


def test_what_was_handed_out_does_not_change() -> None:
    device = late_devices(0)[0]
    x = host.buffer(np.zeros(SIZE, "i4"))
    before = x.numpy()
    host.kernel(TEXT, "ramp")(SIZE, device=device)(host.write(x), 5)
    part = x[1:3].numpy()
    x[:] = 3
    assert (before.tolist(), part.tolist()) == ([0] * SIZE, [6, 7])
    assert x.numpy().tolist() == [3] * SIZE
    with pytest.raises(ValueError, match="read-only"):
        before[0] = 1


def test_a_buffer_does_not_change_with_the_array_that_it_was_made_of() -> None:
    array = np.zeros((2, 3), "f4").T
    x = host.buffer(array)
    array[:] = 1
    assert np.asarray(x).tolist() == [[0, 0]] * 3
    assert np.array(x, "f8").dtype == np.float64
    assert (x.size, x.ndim, x.nbytes, len(x), repr(x)) == (
        6,
        2,
        24,
        3,
        "<buffer (3, 2) of float32>",
    )


def test_parts_are_rows() -> None:
    x = host.buffer(np.arange(12).reshape(4, 3))
    assert x[1:3].numpy().tolist() == [[3, 4, 5], [6, 7, 8]]
    assert x[1:][-1:].numpy().tolist() == [[9, 10, 11]]
    assert x[2:2].numpy().shape == (0, 3)
    x[1:3] = host.buffer(np.full(3, -1))
    assert x.numpy()[:, 0].tolist() == [0, -1, -1, 9]
    scalar = host.buffer(3.0)
    scalar[...] = 4
    assert scalar.numpy() == 4.0


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (3, "a buffer has no 3"),
        (slice(None, None, 2), "a buffer has no slice"),
        ((slice(0, 1), 2), "a buffer has no"),
        (slice(2, 5), "rows 2 to 5 of a buffer that has 4"),
        (slice(-5, 2), "rows -1 to 2 of a buffer that has 4"),
        (slice(3, 2), "rows 3 to 2 of a buffer that has 4"),
    ],
)
def test_wrong_parts(index: Any, message: str) -> None:
    with pytest.raises(IndexingError, match=message):
        host.empty(4)[index]


def test_wrong_elements_shapes_and_types() -> None:
    x = host.empty((4, 2), "i4")
    with pytest.raises(DTypeError, match=r"a buffer of int32 cannot take an array \(\) of float64"):
        x[:] = 0.5
    with pytest.raises(ShapeError, match=r"<buffer \(4, 2\) of int32> cannot take an array \(3,\)"):
        x[:] = [1, 2, 3]
    with pytest.raises(DTypeError, match="a buffer has numbers or records, and no object"):
        host.buffer([None])
    with pytest.raises(ShapeError, match="-1 is no shape of a buffer"):
        host.empty(-1)
    with pytest.raises(DTypeError, match="'nothing' is no type of elements"):
        host.empty(2, "nothing")
    with pytest.raises(DTypeError, match=r"host\.read takes a buffer, and got an array \(3,\)"):
        host.read(np.zeros(3))  # pyright: ignore[reportArgumentType]


def test_elements_that_were_never_written() -> None:
    x = host.empty(4)
    x[:2] = 1
    with pytest.raises(ArgumentError) as caught:
        x.numpy()
    assert str(caught.value) == (
        "elements 2 to 4 of a buffer are read, and were never written\n"
        "  hint: x[a:b] = … writes them, or a kernel with host.write(x)"
    )
    assert x[:2].numpy().tolist() == [1, 1]


def test_a_launch_that_is_refused_changes_nothing() -> None:
    device = late_devices(0)[0]
    x = host.buffer(np.zeros(SIZE, "i4"))
    native: Any = device.native
    native.refuses = True
    with pytest.raises(LaunchError, match="late 0 refused a launch"):
        host.kernel(TEXT, "ramp")(SIZE, device=device)(host.read_write(x), 1)
    native.refuses = False
    assert x.numpy().tolist() == [0] * SIZE
    host.kernel(TEXT, "ramp")(SIZE, device=device)(host.read_write(x), 1)
    assert x.numpy().tolist() == [*range(1, SIZE + 1)]


def test_many_parts_are_joined() -> None:
    device = late_devices(0)[0]
    x = host.buffer(np.zeros(1000, "i4"))
    ramp_at = host.kernel(TEXT, "ramp")
    for begin in range(0, 1000, 4):
        ramp_at(1, device=device)(host.write(x[begin : begin + 4]), begin)
        x[:8].numpy()
    device.wait()
    assert x.numpy().tolist() == [*range(1000)]
    x[:1].numpy()
    assert len(x.whole._state.ranges) <= MOST_RANGES


def test_threads_share_buffers(two_devices: list[Device]) -> None:
    text = "kernel void more(global int* x) { x[get_global_id(0)] += 1; }"
    x = host.buffer(np.zeros(256, "i4"))
    more = host.kernel(text)

    def work(device: Device, part: Part) -> None:
        for _ in range(50):
            more(len(part), device=device)(host.read_write(part))
            more(len(x), device=device)(host.read_write(x))
            part.numpy()

    at_once(*(partial(work, two_devices[n % 2], x[32 * n : 32 * n + 32]) for n in range(4)))
    assert x.numpy().tolist() == [250] * 128 + [200] * 128
