"""Arrays on two GPUs: each call computes on the device of its arrays, whichever is current."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.backends.cuda.cuda_graphs import WORTH_RECORDING
from mdtensor.errors import DeviceError
from tests.hurried import at_once

pytestmark = pytest.mark.gpus

RNG = np.random.default_rng(11)
LEFT, RIGHT = (RNG.integers(-9, 9, shape).astype("f4") for shape in ((16, 40), (40, 24)))
LONG, WIDE = (RNG.integers(-9, 9, shape).astype("f4") for shape in ((16, 2048), (2048, 100)))
TEXT = "ij,jk->ik"


@mdt.stencil(border="reflect")
def mean(u: Any) -> Any:
    return 0.25 * u[-1] + 0.5 * u[0] + 0.25 * u[1]


def moved(cupy: Any, device: int, *hosts: np.ndarray) -> list[Any]:
    with cupy.cuda.Device(device):
        return [cupy.asarray(host) for host in hosts]


def on(found: Any, device: int) -> np.ndarray:
    assert found.device.id == device
    with found.device:
        return found.get()


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("hosts", [(LEFT, RIGHT), (LONG, WIDE)], ids=["small", "split"])
def test_calls_of_every_kind_compute_where_their_arrays_are(
    cupy: Any, start: int, hosts: tuple[np.ndarray, np.ndarray]
) -> None:
    expected = hosts[0].astype("f8") @ hosts[1]
    plan = mdt.compile(TEXT, *moved(cupy, 1, *hosts))
    with cupy.cuda.Device(start):
        for turn in range(WORTH_RECORDING + 8):  # single launches, then graphs
            for device in (0, 1):
                a, b, out = moved(cupy, device, *hosts, np.zeros(expected.shape, "f4"))
                found = [mdt.einsum(TEXT, a, b), plan(a, b)]
                found.append((plan if turn % 2 else mdt.einsum)(*_said(turn, a, b), out=out))
                assert found[-1] is out
                for each in found:
                    np.testing.assert_array_equal(on(each, device), expected)
                assert cupy.cuda.runtime.getDevice() == start


def _said(turn: int, a: Any, b: Any) -> tuple[Any, ...]:
    return (a, b) if turn % 2 else (TEXT, a, b)


def test_front_ends_compute_where_their_array_is(cupy: Any) -> None:
    (row,) = moved(cupy, 1, LONG[0])
    for _ in range(3):
        np.testing.assert_array_equal(on(mdt.scan("i->i", row), 1), LONG[0].cumsum())
        np.testing.assert_array_equal(on(mean(row), 1), weighted(0.25, 0.5, 0.25))
        found = mdt.ndimage.correlate1d(row, [1.0, 2.0, 0.5])
        np.testing.assert_array_equal(on(found, 1), weighted(1.0, 2.0, 0.5))


def weighted(*weights: float) -> np.ndarray:
    """The line's neighbours in that ratio; beyond its ends, it is mirrored with its ends twice."""
    return np.correlate(np.pad(LONG[0], 1, "symmetric").astype("f8"), weights, "valid")


def test_the_device_s_own_current_stream_is_taken(cupy: Any) -> None:
    a, b, out = moved(cupy, 1, LEFT, RIGHT, np.zeros((16, 24), "f4"))
    for _ in range(WORTH_RECORDING + 8):
        mdt.einsum(TEXT, a, b, out=out)
    with cupy.cuda.Device(1), cupy.cuda.Stream(non_blocking=True) as stream:
        stream.synchronize()
        out.fill(0)
        stream.begin_capture()
        with cupy.cuda.Device(0):
            assert mdt.einsum(TEXT, a, b, out=out) is out
        captured = stream.end_capture()
        stream.synchronize()
        assert not out.get().any()
        captured.launch(stream)
        stream.synchronize()
        np.testing.assert_array_equal(out.get(), LEFT @ RIGHT)


def test_tensors_of_torch_are_computed_where_they_are(cupy: Any) -> None:
    import torch

    for device in (1, 0, 1):
        a, b = (torch.from_numpy(x).to(f"cuda:{device}") for x in (LEFT, RIGHT))
        out = torch.zeros((16, 24), device=a.device)
        np.testing.assert_array_equal(on(mdt.einsum(TEXT, a, b), device), LEFT @ RIGHT)
        assert mdt.einsum(TEXT, a, b, out=out) is out
        np.testing.assert_array_equal(out.cpu().numpy(), LEFT @ RIGHT)


def test_arrays_of_two_devices_are_refused(cupy: Any) -> None:
    (a,), (b,) = moved(cupy, 0, LEFT), moved(cupy, 1, RIGHT)
    with pytest.raises(DeviceError, match=r"operand 1 of shape \(40, 24\) is on CUDA device 1"):
        mdt.einsum(TEXT, a, b)


def test_threads_have_devices_of_their_own(cupy: Any) -> None:
    plan = mdt.compile(TEXT, *moved(cupy, 0, LEFT, RIGHT))

    def compute(device: int) -> None:
        cupy.cuda.Device(device).use()
        a, b = moved(cupy, device, LEFT, RIGHT)
        for _ in range(WORTH_RECORDING + 8):
            for found in (plan(a, b), mdt.einsum(TEXT, a, b)):
                np.testing.assert_array_equal(on(found, device), LEFT @ RIGHT)

    at_once(*(lambda n=n: compute(n % 2) for n in range(4)))


def test_arrays_of_the_second_device_are_tuned_there(cupy: Any) -> None:
    plan = mdt.compile(TEXT, *moved(cupy, 1, LEFT, RIGHT))
    (report,) = plan.tune(8, quiet=True, again=True)
    assert report.trials > report.failed
    with cupy.cuda.Device(1):
        engine = registry.engine_for("cupy")
    assert engine.device.number == 1  # type: ignore[attr-defined]
    np.testing.assert_array_equal(on(plan(*moved(cupy, 1, LEFT, RIGHT)), 1), LEFT @ RIGHT)
