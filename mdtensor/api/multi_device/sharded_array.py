"""Sharded arrays: cut along an axis, with a shard in the memory of each device."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Sequence
from typing import Any, NoReturn

import numpy as np

from mdtensor.api.arrays import cupy_arrays
from mdtensor.api.arrays.device_scope import at, device_of
from mdtensor.api.arrays.operands import Array, array_module, as_computed, spec_of
from mdtensor.api.calls import statistics
from mdtensor.api.devices import Devices
from mdtensor.api.multi_device import spread_call
from mdtensor.api.multi_device.device_list import DeviceList
from mdtensor.api.multi_device.device_tasks import copy_of, tasks_of
from mdtensor.api.multi_device.sharding import Sharding, sharding_of, shares_of_shards
from mdtensor.api.multi_device.shares import Shares, edges_by_rates, whole_on
from mdtensor.bounded import Bounded
from mdtensor.errors import ShapeError
from mdtensor.options import whole
from mdtensor.specs import TensorSpec
from mdtensor.stage_timer import stage
from mdtensor.translate.md_hom_program import Program

_MOST = 256  # computations on shards that are kept
# By computation, layouts, shardings and devices; the computation is kept, as its number is a key.
_kept = Bounded[Hashable, "tuple[Program, spread_call.Runner, Shardings]"](_MOST)
Shardings = tuple[Sharding | None, ...]


class ShardedArray:
    """An array cut along an axis into shards, each in the memory of a device (block distribution).

    `mdtensor.shard` makes it of an array, and calls on sharded arrays make results: each device
    computes on the shards that it has. `shards` are its parts, arrays of NumPy or CuPy, `edges`
    where they begin and end on the `axis`, `devices` the names of the devices that have them.
    """

    __slots__ = ("dtype", "listed", "shape", "sharding", "shards")

    # Calls with such an argument are left to this module.
    __mdtensor_calls__ = "mdtensor.api.multi_device.sharded_calls"

    def __init__(
        self, shards: Sequence[Array], sharding: Sharding, listed: DeviceList, dtype: np.dtype
    ) -> None:
        self.shards, self.sharding, self.listed = tuple(shards), sharding, listed
        self.dtype = dtype
        shape = list(shards[0].shape)
        if sharding.axis is not None:
            shape[sharding.axis] = sharding.edges[-1]
        self.shape = tuple(shape)

    @property
    def axis(self) -> int | None:
        """The sharded axis; None where each device has a replica."""
        return self.sharding.axis

    @property
    def edges(self) -> tuple[int, ...]:
        """The edges of the shards on the axis: each beginning, and the last end."""
        return self.sharding.edges

    @property
    def devices(self) -> tuple[str, ...]:
        """The device name of each shard."""
        return tuple(self.listed.names[device] for device in self.sharding.devices)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements; replicas count once."""
        return self.size * self.dtype.itemsize

    @property
    def spec(self) -> TensorSpec:
        """The spec of the whole, in C order."""
        return TensorSpec.of(self.shape, self.dtype)

    def gather(self) -> Array:
        """The whole array: NumPy's, or CuPy's on the current device."""
        [result] = computed(_copying(self.shape, self.dtype), [self], self.listed, (), (None,))
        return result

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a ShardedArray is in several parts; its gather() is one array")

    def __repr__(self) -> str:
        pairs = zip(self.edges, self.edges[1:], self.devices, strict=False)
        said = ", ".join(f"{low}:{high} on {name}" for low, high, name in pairs)
        said = f"axis {self.axis}: {said}" if self.edges else f"whole on {', '.join(self.devices)}"
        return f"ShardedArray({self.dtype.name}{list(self.shape)}, {said})"


def shard(array: Any, devices: Devices = "all", axis: int | None = 0) -> ShardedArray:
    """Cuts an array along an axis and copies the shards to devices, where calls compute on them.

    `array` is of NumPy, or of CuPy on any of the host's GPUs; the devices are those that compute
    such arrays: names as `mdtensor.devices()` has them, "all", or a dict from names to weights,
    which has shards as long as the weights are. Others are equally long, up to multiples of 64.
    With `axis=None` each device has a replica of the whole, for what all of them read.

    Raises DeviceError and DTypeError for devices that are none, ShapeError for an axis that is not
    there or has no elements, DTypeError for types without kernels.

    >>> from mdtensor.api.devices import devices
    >>> names = [name for name in devices() if not name.startswith("CUDA")]
    >>> x = shard(np.arange(12.0).reshape(6, 2), names)
    >>> x.shape, x.axis, x.edges[-1]
    ((6, 2), 0, 6)
    >>> x.gather().sum()
    np.float64(66.0)
    """
    xp = array_module((array,))
    [given] = as_computed([array], xp)
    listed = DeviceList.of(devices, "numpy" if xp is np else "cupy")
    sharding = _sharding(given, listed, axis)
    copying, listed = _copying(given.shape, given.dtype), DeviceList(listed.arrays, listed.names)
    with at(device_of(given)):
        [result] = computed(copying, [given], listed, (), (sharding,))
    return result


def _sharding(array: Array, devices: DeviceList, axis: Any) -> Sharding:
    """The sharding of an array over devices; ShapeError for an axis that does not exist."""
    if axis is None:
        return Sharding(None, (), tuple(range(len(devices.names))))
    axis = whole("axis", axis)
    if not -array.ndim <= axis < array.ndim or not array.shape[axis]:
        raise ShapeError(
            f"axis {axis} of an array of shape {tuple(array.shape)} is not cut",
            hint="an axis that has elements, counted from 0, or from the end by -1",
        )
    rates = devices.weights or (1.0,) * len(devices.names)
    return Sharding(axis % array.ndim, *edges_by_rates(array.shape[axis], rates))


def computed(
    program: Program,
    operands: Sequence[Any],
    devices: DeviceList,
    out: Sequence[Any] = (),
    shardings: Shardings | None = None,
) -> list[Any]:
    """The results of a computation on sharded and whole arrays, sharded where a sharding exists.

    Whole arrays are NumPy's, or lie on the current device. `out` are results that exist, and
    `shardings` those of the results; else they follow from the operands'.
    """
    arrays: list[Array] = []
    cut: list[Sharding | None] = []
    specs: list[TensorSpec] = []
    for operand in operands:
        is_cut = isinstance(operand, ShardedArray)
        cut.append(operand.sharding if is_cut else None)
        specs.append(operand.spec if is_cut else spec_of(operand))
        arrays += operand.shards if is_cut else (operand,)
    given = shardings if not out else tuple(getattr(each, "sharding", None) for each in out)
    layouts = [
        TensorSpec.of(spec.shape, spec.dtype)
        if n >= len(out) or isinstance(out[n], ShardedArray)
        else spec_of(out[n])
        for n, spec in enumerate(program.results)
    ]
    run, made = _runner(program, (*specs, *layouts), tuple(cut), devices, given)
    results: list[Any] = [*out]
    for spec, sharding in zip(program.results[len(out) :], made[len(out) :], strict=True):
        results.append(_new(run, spec, sharding, devices))
    for fill, result, sharding in zip(program.fills, results, made, strict=False):
        if fill is not None:
            for place, array in _shards(result, sharding, devices):
                run.fill(place, array, fill)
    if program.steps:
        written = zip(results, made, strict=True)
        run([*arrays, *(array for pair in written for _, array in _shards(*pair, devices))])
    statistics.tally(statistics.GENERATED, program.results[0].dtype).calls += 1
    return results


def _runner(
    program: Program,
    specs: tuple[TensorSpec, ...],
    cut: Shardings,
    devices: DeviceList,
    given: Shardings | None,
) -> tuple[spread_call.Runner, Shardings]:
    """The memoised runner of a computation on sharded arrays, and the shardings of its results."""
    here = cupy_arrays.current_device() if devices.arrays == "cupy" else None

    def made() -> tuple[Program, spread_call.Runner, Shardings]:
        with stage("lower"):
            return program, *_runner_of(program, specs, cut, devices, given)

    return _kept.made((id(program), specs, cut, devices, given, here), made)[1:]


def _runner_of(
    program: Program,
    specs: Sequence[TensorSpec],
    cut: Shardings,
    devices: DeviceList,
    given: Shardings | None,
) -> tuple[spread_call.Runner, Shardings]:
    _, home = devices.places()
    count = program.operands
    slots: list[Sharding | None] = [*cut, *(None,) * len(program.specs)]
    fixed = range(count, count + len(given or ()))
    slots[fixed.start : fixed.stop] = given or ()
    largest = dict.fromkeys(range(len(slots)), 0)  # points of the step that a result is cut as
    shares: list[Shares] = []
    for step in program.steps:
        md_hom = step.md_hom
        found = shares_of_shards(
            md_hom, [slots[n] for n in step.operands], [slots[n] for n in step.results]
        )
        shares.append(found or whole_on((1.0,) * len(devices.names), home))
        for number, slot in enumerate(step.results):
            sharding = None if found is None else sharding_of(md_hom, number, found)
            if slot not in fixed and sharding is not None and md_hom.points > largest[slot]:
                slots[slot], largest[slot] = sharding, md_hom.points
    streams = None if home is None else spread_call.peer_streams()
    tasks = tasks_of(program, specs, shares, home, slots)
    results = tuple(slots[count : count + len(program.results)])
    return spread_call.runner_on(devices, tasks, streams), results


def _new(
    run: spread_call.Runner, spec: TensorSpec, sharding: Sharding | None, devices: DeviceList
) -> Any:
    if sharding is None:
        return run.new(_home(devices), TensorSpec.of(spec.shape, spec.dtype))
    shapes = zip(sharding.shapes(spec.shape), sharding.devices, strict=True)
    shards = [run.new(place, TensorSpec.of(shape, spec.dtype)) for shape, place in shapes]
    return ShardedArray(shards, sharding, devices, spec.dtype)


def _shards(result: Any, sharding: Sharding | None, devices: DeviceList) -> list[tuple[int, Array]]:
    """The arrays of a result, each with its device's number."""
    if sharding is None:
        return [(_home(devices), result)]
    return [*zip(sharding.devices, result.shards, strict=True)]


def _home(devices: DeviceList) -> int:
    _, home = devices.places()
    return home or 0


@functools.lru_cache(maxsize=64)
def _copying(shape: tuple[int, ...], dtype: np.dtype) -> Program:
    """A program that copies an array."""
    return Program.of(copy_of(shape, dtype))
