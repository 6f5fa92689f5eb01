"""Sharded arrays: calls on them, by threads of two devices and by streams that run late."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.calls import program_calls
from mdtensor.api.multi_device import device_tasks, sharded_array, sharded_calls, spread_call
from mdtensor.api.multi_device.device_list import DeviceList
from mdtensor.api.multi_device.device_report import report_of
from mdtensor.api.multi_device.sharding import Sharding, shares_of_shards
from mdtensor.errors import ArgumentError, DeviceError, DTypeError, ShapeError, TranslationError
from mdtensor.specs import TensorSpec
from tests.api.dask.random_calls import KINDS
from tests.api.multi_device.late_streams import LateStreams, undefined
from tests.api.multi_device.pools import computation_of
from tests.api.multi_device.test_device_streams import several

BOTH = ["llvm", "pool"]
RNG = np.random.default_rng(71)


def boxes_of(sharding: Sharding, shape: tuple[int, ...]) -> list[Any]:
    """The boxes of an array that the shards have."""
    if sharding.axis is None:
        return [(...,)] * len(sharding.devices)
    before = (slice(None),) * sharding.axis
    return [(*before, slice(*span)) for span in itertools.pairwise(sharding.edges)]


def sharded(array: np.ndarray, rng: np.random.Generator) -> Any:
    """An array cut anywhere along a random axis; those that cannot be cut as they are."""
    axes = [axis for axis, extent in enumerate(array.shape) if extent]
    if not axes or array.size == 0:
        return array
    weights = dict(zip(BOTH, rng.uniform(1, 6, 2), strict=True))
    return mdt.shard(array, weights, int(rng.choice(axes)) if rng.random() < 0.8 else None)


def gathered(found: Any) -> Any:
    return found.gather() if isinstance(found, mdt.ShardedArray) else found


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(60))
def test_random_calls(seed: int) -> None:
    rng = np.random.default_rng(7100 + seed)
    drawn = KINDS[seed % len(KINDS)](rng)
    cut = [sharded(array, rng) if rng.random() < 0.8 else array for array in drawn.arrays]
    cut[0] = sharded(drawn.arrays[0], rng)
    for _ in range(2):  # the second time as the first
        found = gathered(drawn.call(*cut))
        said = f"{drawn.name}\n{cut}"
        np.testing.assert_allclose(found, drawn.expected, atol=1e-3, rtol=1e-4, err_msg=said)


def late(
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[..., Any],
    arrays: tuple[np.ndarray, ...],
    cut: tuple[Sharding | None, ...],
    devices: DeviceList,
    home: int,
    seed: int,
) -> tuple[Any, list[np.ndarray]]:
    """The results of a call on late streams: shards are there late, and dropped at once."""
    planned, operands = computation_of(call, arrays)
    streams = LateStreams(4, seed)
    monkeypatch.setattr(spread_call, "peer_streams", lambda: streams)
    monkeypatch.setattr(program_calls, "executor", streams.compute)
    specs = [TensorSpec.of(operand.shape, operand.dtype) for operand in operands]
    specs += [TensorSpec.of(spec.shape, spec.dtype) for spec in planned.results]
    run, shardings = sharded_array._runner_of(planned, specs, cut, devices, None)

    def placed(whole: np.ndarray, sharding: Sharding | None, *, is_there: bool) -> list[Any]:
        boxes = [(...,)] if sharding is None else boxes_of(sharding, whole.shape)
        places = (home,) if sharding is None else sharding.devices
        made = [
            streams.empty(place, whole[box].shape, whole.dtype)
            for box, place in zip(boxes, places, strict=True)
        ]
        for box, place, array in zip(boxes, places, made, strict=True):
            if is_there:
                to, of = array.host, whole[box].copy()
                streams.enqueue(place, lambda to=to, of=of: np.copyto(to, of))
        return made

    given = [a for o, s in zip(operands, cut, strict=True) for a in placed(o, s, is_there=True)]
    fills = [*planned.fills, *(None,) * (len(planned.results) - len(planned.fills))]
    wholes = [
        np.full(spec.shape, 0 if fill is None else fill, spec.dtype)
        for spec, fill in zip(planned.results, fills, strict=True)
    ]
    results = [placed(w, s, is_there=True) for w, s in zip(wholes, shardings, strict=True)]
    run([*given, *(array for result in results for array in result)])
    for array in given:  # somebody else has their memory now
        streams.enqueue(array.device, lambda host=array.host: undefined(host))
    for whole, sharding, result in zip(wholes, shardings, results, strict=True):
        boxes = [(...,)] if sharding is None else boxes_of(sharding, whole.shape)
        for box, array in zip(boxes, result, strict=True):
            to, of = whole[box], array.host
            streams.enqueue(array.device, lambda to=to, of=of: np.copyto(to, of))
    del given, results
    gc.collect(0)
    streams.run()
    return run, wholes


def random_sharding(rng: np.random.Generator, shape: tuple[int, ...]) -> Sharding | None:
    if not shape or 0 in shape or rng.random() < 0.2:
        return Sharding(None, (), (0, 2)) if rng.random() < 0.5 else None
    axis = int(rng.integers(len(shape)))
    most = min(3, shape[axis])
    count = int(rng.integers(1, most + 1))
    inner = sorted(rng.choice(np.arange(1, shape[axis]), count - 1, replace=False).tolist())
    devices = rng.permutation(3)[:count].tolist()
    return Sharding(axis, (0, *inner, shape[axis]), tuple(devices))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(120))
def test_random_calls_on_late_streams(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7200 + seed)
    drawn = KINDS[seed % len(KINDS)](rng)
    _, operands = computation_of(drawn.call, drawn.arrays)
    cut = tuple(random_sharding(rng, operand.shape) for operand in operands)
    home = int(rng.integers(4))  # the last one computes nothing
    devices = several(home, 1.0, 1.0, 1.0)
    run, (found, *_) = late(monkeypatch, drawn.call, drawn.arrays, cut, devices, home, seed)
    said = f"{drawn.name}, {cut} at {home}\n{report_of(run.programs.tasks, devices.names)}"
    np.testing.assert_allclose(found, drawn.expected, atol=1e-3, rtol=1e-4, err_msg=said)


def test_each_device_reads_its_shard_and_a_row_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    blur = mdt.stencil(lambda u: u[-1, 0] + u[1, 1], border="fixed")
    x = RNG.random((128, 32))
    expected = blur(x)
    cut = (Sharding(0, (0, 64, 128), (0, 1)),)
    run, (found,) = late(monkeypatch, blur, (x,), cut, several(0, 1.0, 1.0), 0, 0)
    np.testing.assert_allclose(found, expected)
    tasks = run.programs.tasks
    inside = [task for task in tasks.tasks if task.md_hom.points > 1000]
    assert [(task.device, task.md_hom.extents["i0"]) for task in inside] == [(0, 62), (1, 62)]
    assert all(tasks.is_there(v, t.device) for t in inside for v in (*t.reads, *t.writes))
    said = report_of(tasks, ["A", "B"])
    assert said.splitlines()[0] == "A: reads 18.7 kB, writes 17.2 kB; 256 B copied to it, 0 B back"
    assert "reads operand 0, shard 1[0:1, 0:32]\n    writes array 0 between[2:3, 0:32]" in said


@pytest.mark.parametrize("home", [0, None])
def test_kernels_of_gpus_get_arrays_that_are_aligned(home: int | None) -> None:
    step = mdt.stencil(lambda u: u[0, -1] + u[1, 0], border="fixed")
    planned, _ = computation_of(step, (np.zeros((128, 32), "f4"),))
    spec, cut = TensorSpec.of((128, 32), "f4"), Sharding(0, (0, 64, 128), (0, 1))
    inside = replace(planned, steps=planned.steps[:1])
    shares = shares_of_shards(inside.steps[0].md_hom, [cut])
    assert shares is not None
    task = device_tasks.tasks_of(inside, [spec, spec], [shares], home, [cut, cut]).tasks[0]
    assert task.writes[0].box[1] == slice(1, 32, 1)
    assert task.leads == (0, 0 if home is None else 1)
    assert repr(task.md_hom.out_view[0]) == ("(i0, i1)" if home is None else "(i0, i1+1)")


CASES: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: mdt.einsum("ij->i", x, devices=BOTH), ArgumentError, "devices= in a call on shard"),
    (lambda x: mdt.einsum("ij->i", x, memory_limit="1GB"), ArgumentError, "memory_limit= in a"),
    (lambda x: mdt.einsum("ij,ij->ij", x, mdt.shard(x.gather(), ["llvm"])), DeviceError,
     "sharded arrays of one call are on different devices"),
    (lambda x: mdt.einsum("ij->ij", x, out=x), ArgumentError, "out shares memory with an operand"),
    (lambda x: mdt.einsum("ij->i", x, out=mdt.shard(np.zeros(7), BOTH)), ShapeError,
     "out has shape (7,) but the result (40,)"),
    (lambda x: mdt.einsum("ij->i", x, out=mdt.shard(np.zeros(40, "f4"), BOTH)), DTypeError,
     "the result is float64, which does not go into float32"),
    (lambda x: mdt.einsum("ij->ij", x, out=mdt.shard(x.gather(), BOTH, None)), ArgumentError,
     "out has a replica on each device"),
    (lambda x: mdt.shard(x.gather(), BOTH, 2), ShapeError, "axis 2 of an array of shape (40, 6)"),
    (lambda x: mdt.shard(np.zeros((0, 3)), BOTH), ShapeError, "axis 0 of an array of shape (0, 3)"),
    (lambda x: mdt.shard(x.gather(), ["nobody"]), DeviceError, "no device for numpy arrays"),
    (lambda x: mdt.shard(x.gather().astype(object), BOTH), DTypeError, "no kernels"),
    (lambda x: mdt.outer(x, x), TranslationError, "is more than kernels on them"),
    (np.asarray, TypeError, "its gather() is one array"),
    (lambda x: mdt.compile("ij->i", x), DTypeError, "its gather() is one array"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "error", "said"), CASES, ids=[said for *_, said in CASES])
def test_what_makes_no_sense_is_refused(
    wrong: Callable[[Any], Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as raised:
        wrong(mdt.shard(RNG.random((40, 6)), BOTH))
    assert said in str(raised.value)


def test_results_that_are_not_cut_are_whole_arrays() -> None:
    x = RNG.random((40, 6))
    cut = mdt.shard(x, BOTH)
    total = mdt.einsum("ij->j", cut)
    assert type(total) is np.ndarray
    np.testing.assert_allclose(total, x.sum(0))
    assert type(mdt.sum(cut)) is np.float64
    out = np.zeros(6)
    assert mdt.einsum("ij->j", cut, out=out) is out
    np.testing.assert_allclose(out, x.sum(0))
    onto = mdt.shard(np.zeros((40, 6)), BOTH, 1)  # cut otherwise than the operand
    assert mdt.einsum("ij->ij", cut, out=onto) is onto
    np.testing.assert_array_equal(onto.gather(), x)


def test_repeated_calls_are_known() -> None:
    x, y = mdt.shard(RNG.random((40, 6)), BOTH), mdt.shard(RNG.random((40, 6)), BOTH)
    before = len(sharded_calls._known)
    for scale in (2.0, 3.0, -0.0):  # which belong to what is computed
        for cut in (x, y):
            found = mdt.reduce("ij->i", cut, combine="max").gather()
            np.testing.assert_array_equal(found, cut.gather().max(1))
            scaled = mdt.stencil(lambda u, by: by * u[0, 0])(cut, scale).gather()
            np.testing.assert_array_equal(scaled, scale * cut.gather())
    assert len(sharded_calls._known) > before


def test_one_array_twice_is_another_call_than_two_arrays() -> None:
    x, y = RNG.random((40, 6)), RNG.random((40, 6))
    cut, other = mdt.shard(x, BOTH), mdt.shard(y, BOTH)
    for one, two, a, b in ((cut, cut, x, x), (cut, other, x, y), (cut, y, x, y), (cut, x, x, x)):
        found = mdt.einsum("ij,ij->i", one, two).gather()
        np.testing.assert_allclose(found, np.einsum("ij,ij->i", a, b))


def test_weights_beside_a_sharded_array_are_read() -> None:
    x = RNG.random((40, 6))
    for weights in (np.array([[1.0, 2.0, 1.0]]), np.array([[3.0, 0.0, 1.0]])):
        found = mdt.ndimage.correlate(mdt.shard(x, BOTH), weights).gather()
        np.testing.assert_allclose(found, mdt.ndimage.correlate(x, weights))


@pytest.mark.parametrize("border", ["fixed", "nearest", "valid"])
def test_steps_of_a_stencil_take_turns(border: str) -> None:
    near = mdt.stencil(lambda u: 0.5 * u[-1, 0] + 0.25 * (u[1, 0] + u[0, 1]), border=border)
    x = RNG.random((90, 31))
    for axis in (0, 1):
        found = near.steps(mdt.shard(x, BOTH, axis), n=7)
        assert found.axis == axis
        np.testing.assert_allclose(found.gather(), near.steps(x, n=7), rtol=1e-12)
    out = mdt.shard(x, BOTH)
    assert near.steps(mdt.shard(x, BOTH), n=4, out=out) is out if border != "valid" else True
    with pytest.raises(ShapeError, match="n is 0, and copies nothing of sharded arrays"):
        near.steps(out, n=0)
