"""Tasks on several GPUs, whose streams run as late and as unlike as events allow; needs no GPU."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays.operands import spec_of
from mdtensor.api.calls import program_calls
from mdtensor.api.multi_device import spread_call
from mdtensor.api.multi_device.device_list import DeviceList
from mdtensor.api.multi_device.device_report import report_of
from mdtensor.api.multi_device.device_streams import DeviceStreams
from mdtensor.api.multi_device.shares import shares_of
from mdtensor.errors import DeviceError, LaunchError
from tests.api.dask.random_calls import KINDS
from tests.api.multi_device.late_streams import LateStreams, undefined
from tests.api.multi_device.pools import computation_of

CAPTURED: set[int] = set()


class Several(DeviceList):
    """GPUs that are not there; the arrays are on the one of number `home`."""

    home = 0

    def places(self) -> tuple[tuple[int, ...], int | None]:
        numbers = [int(name[-1]) for name in self.names]
        numbers += [] if self.home in numbers else [self.home]
        return tuple(numbers), numbers.index(self.home)

    def engines(self) -> tuple[Any, ...]:
        def engine(number: int) -> Any:
            return SimpleNamespace(device=SimpleNamespace(is_captured=lambda: number in CAPTURED))

        return tuple(engine(int(name[-1])) for name in self.names)


def several(home: int, *weights: float) -> DeviceList:
    names = tuple(f"GPU {n}" for n in range(len(weights)))
    return type("There", (Several,), {"home": home, "__slots__": ()})("cupy", names, weights)


def spread(
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[..., Any],
    arrays: Sequence[Any],
    devices: DeviceList,
    home: int,
    seed: int,
    along: str | None = None,
    between: Callable[[LateStreams], None] = lambda streams: None,
) -> tuple[DeviceStreams, list[np.ndarray]]:
    """The results of a call on late streams; its operands are there late, and dropped at once."""
    planned, operands = computation_of(call, arrays)
    streams = LateStreams(4, seed)
    monkeypatch.setattr(spread_call, "peer_streams", lambda: streams)
    monkeypatch.setattr(program_calls, "executor", streams.compute)
    given, found = [], []
    for operand in operands:
        given.append(streams.empty(home, operand.shape, operand.dtype))
        given[-1].host = np.lib.stride_tricks.as_strided(
            np.empty(operand.nbytes // max(1, operand.itemsize) + 64, operand.dtype),
            operand.shape,
            np.empty(operand.shape, operand.dtype).strides,
        )
        to, of = given[-1].host, operand
        streams.enqueue(home, lambda to=to, of=of: np.copyto(to, of))
    results = [streams.empty(home, spec.shape, spec.dtype) for spec in planned.results]
    for n, result in enumerate(results):
        host = result.host
        fill = planned.fills[n] if n < len(planned.fills) else None
        streams.enqueue(home, lambda host=host, fill=fill: host.fill(0 if fill is None else fill))
    specs = [spec_of(array.host) for array in (*given, *results)]
    run = spread_call.runner_of(planned, specs, devices, along)
    assert isinstance(run, DeviceStreams)
    between(streams)
    run([*given, *results])
    for array in given:  # somebody else has their memory now
        streams.enqueue(home, lambda host=array.host: undefined(host))
    for result in results:
        found.append(np.empty_like(result.host))
        streams.enqueue(home, lambda to=found[-1], of=result.host: np.copyto(to, of))
    del given, results
    gc.collect(0)
    streams.run()
    return run, found


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(36))
def test_random_calls_along_each_dim(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6300 + seed)
    drawn = KINDS[seed % len(KINDS)](rng)
    planned, _ = computation_of(drawn.call, drawn.arrays)
    home = int(rng.integers(4))  # the last one computes nothing
    devices = several(home, *rng.uniform(1, 3, 3))
    for dim in dict.fromkeys(d.name for step in planned.steps for d in step.md_hom.dims):
        run, (found, *_) = spread(
            monkeypatch, drawn.call, drawn.arrays, devices, home, seed, along=dim
        )
        said = f"{drawn.name} along {dim} at {home}\n{report_of(run.programs.tasks, devices.names)}"
        np.testing.assert_allclose(found, drawn.expected, atol=1e-3, rtol=1e-4, err_msg=said)


@pytest.mark.parametrize("seed", range(12))
def test_chains_and_columns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = rng.random((30, 40)), rng.random((40, 50)), rng.random((50, 20))
    devices, home = several(seed % 3, 1.0, 2.0), seed % 3
    call = lambda *given: mdt.einsum("ij,jk,kl->il", *given)  # noqa: E731
    _, (found,) = spread(monkeypatch, call, (a, b, c), devices, home, seed)
    np.testing.assert_allclose(found, a @ b @ c, rtol=1e-12)
    product = lambda *given: mdt.einsum("ij,jk->ik", *given)  # noqa: E731
    run, (found,) = spread(monkeypatch, product, (a[:3], b), devices, home, seed, along="k")
    np.testing.assert_allclose(found, a[:3] @ b, rtol=1e-12)
    assert not run.programs.tasks.places.count(None)


def test_a_device_gets_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).random((128, 32))
    blur = mdt.stencil(lambda u: u[-1, 0] + u[1, 0], border="valid")
    run, (found,) = spread(monkeypatch, blur, (x,), several(0, 1.0, 1.0), 0, 0)
    np.testing.assert_allclose(found, x[:-2] + x[2:])
    said = report_of(run.programs.tasks, ["A", "B"])
    assert said == (
        "A: reads 16.9 kB, writes 16.4 kB\n"
        "  md_hom[i0:64, i1:32](f, (cc, cc))\n"
        "    reads operand 0[0:66, 0:32]\n"
        "    writes result 0[0:64, 0:32]\n"
        "B: reads 16.4 kB, writes 15.9 kB; 16.4 kB copied to it, 15.9 kB back\n"
        "  md_hom[i0:62, i1:32](f, (cc, cc))\n"
        "    reads operand 0[64:128, 0:32]\n"
        "    writes result 0[64:126, 0:32]"
    )


def test_an_error_says_where_and_leaves_no_stream_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.ones((64, 8))
    failing: list[Any] = []

    def between(streams: LateStreams) -> None:
        compute = streams.compute

        def fails(md_hom: Any, inputs: Any, outputs: Any) -> None:
            if streams.current == 0:
                raise RuntimeError("an illegal memory access")
            compute(md_hom, inputs, outputs)

        failing.append(streams)
        monkeypatch.setattr(program_calls, "executor", fails)

    with pytest.raises(LaunchError) as raised:
        spread(
            monkeypatch, lambda x: mdt.einsum("ij->i", x), (a,), several(0, 1.0, 1.0), 0, 0,
            between=between,
        )  # fmt: skip
    assert str(raised.value).startswith("GPU 0 failed on its part: RuntimeError: an illegal")
    del raised
    gc.collect()
    failing[0].run()


def test_streams_that_are_captured_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.CAPTURED", {1})
    with pytest.raises(DeviceError) as raised:
        spread(
            monkeypatch, lambda x: mdt.einsum("ij->i", x), (np.ones((64, 8)),),
            several(0, 1.0, 1.0), 0, 0,
        )  # fmt: skip
    assert str(raised.value) == (
        "the stream of GPU 1 is being captured, and a call with devices= is no part of a graph\n"
        "  hint: make the call outside of the capture, or without devices="
    )


@pytest.mark.parametrize("seed", range(16))
def test_chains_that_are_cut_anyhow(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    i, j, k, m = (int(n) for n in rng.integers(2, 20, 4))
    arrays = [rng.random(shape) for shape in ((i, j), (j, k), (k, m), (m, i))]

    def anyhow(md_hom: Any, rates: Any, *_: Any) -> Any:
        return shares_of(md_hom, rates, str(rng.choice([d.name for d in md_hom.dims])))

    monkeypatch.setattr(spread_call, "shares_of", anyhow)
    monkeypatch.setattr(spread_call, "_SMALL", 10**9)  # nothing is
    path = ["einsum_path", (0, 1), (0, 2), (0, 1)]
    call = lambda *given: mdt.einsum("ij,jk,km,ml->il", *given, optimize=path)  # noqa: E731
    home = int(rng.integers(4))
    _, (found,) = spread(monkeypatch, call, arrays, several(home, 1.0, 2.0, 3.0), home, seed)
    np.testing.assert_allclose(found, np.linalg.multi_dot(arrays), rtol=1e-10)


@pytest.mark.parametrize("home", [0, 1, 2])
@pytest.mark.parametrize("columns", [2, 3])  # which can be cut into single ones, and which cannot
def test_elements_that_are_no_box(home: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    @mdt.mdh
    def apart(w: Any, x: Any) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                w[4 * i + j] = x[i, j]

    x = np.random.default_rng(0).random((20, columns))
    expected = np.zeros((20, 4))
    expected[:, :columns] = x
    call = lambda given: apart(np.zeros(80), given)  # noqa: E731
    run, (found,) = spread(monkeypatch, call, (x,), several(home, 1.0, 2.0), home, home)
    np.testing.assert_array_equal(found, expected.ravel())
    tasks = run.programs.tasks.tasks
    assert [task.updates for task in tasks] == ([True] if columns == 3 else [False, False])
