"""Device scopes: each call runs on the CUDA device that holds its arrays, current or not.

Kernels, results and streams are those of the current device; so a call on arrays of another one
makes that the current device until it returns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from mdtensor.api.arrays import cupy_arrays
from mdtensor.api.arrays.dlpack import cupy_for, is_on_gpu
from mdtensor.errors import DeviceError

P = ParamSpec("P")
R = TypeVar("R")
Launch = Callable[..., Any]
# Classes of arguments that no GPU holds, which most calls have alone.
_ON_HOST = frozenset((np.ndarray, str, int, float, bool, type(None)))


class at:  # noqa: N801
    """Makes a CUDA device current in this thread for a `with` block; None changes nothing."""

    __slots__ = "_before", "_device"

    def __init__(self, device: int | None) -> None:
        self._device = device
        self._before: int | None = None

    def __enter__(self) -> None:
        if self._device is not None:
            if cupy_arrays.array_class is None:
                cupy_arrays.knows(cupy_for(None))
            self._before = cupy_arrays.current_device()
            cupy_arrays.library().use_device(self._device)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            cupy_arrays.library().use_device(self._before)


def device_of(array: Any) -> int | None:
    """The number of the CUDA device that holds an array; None for host arrays and other objects."""
    if type(array) is np.ndarray or type(array) is str or not is_on_gpu(array):
        return None
    if cupy_arrays.array_class is None:
        cupy_arrays.knows(cupy_for(array))
    if type(array).__module__.partition(".")[0] == "cupy":
        return getattr(getattr(array, "data", None), "device_id", None)
    if hasattr(array, "__dlpack_device__"):
        return int(array.__dlpack_device__()[1])
    place = array.__cuda_array_interface__["data"][0]
    return cupy_arrays.library().device_at(place) if place else None  # nothing lies at 0


def device_of_call(args: Collection[object], options: Mapping[str, object]) -> int | None:
    """The device of all arrays on GPUs among arguments; None where there are none.

    Raises DeviceError where they are on several devices.
    """
    if _ON_HOST.issuperset(map(type, args)) and _ON_HOST.issuperset(map(type, options.values())):
        return None
    found = list(_places(args, options))
    if len({device for _, _, device in found}) > 1:
        raise _on_several(found)
    return found[0][2] if found else None


def _places(
    args: Iterable[object], options: Mapping[str, object]
) -> Generator[tuple[str, Any, int]]:
    """The name, array and device number of every GPU array."""
    number = 0
    for argument in args:
        for array in _parts(argument):
            if (device := device_of(array)) is not None:
                yield f"operand {number}", array, device
            number += device is not None or hasattr(array, "shape")
    for name, argument in options.items():
        for array in _parts(argument):
            if (device := device_of(array)) is not None:
                yield name, array, device


def _parts(argument: Any) -> Sequence[Any]:
    return argument if type(argument) is tuple else (argument,)  # pyright: ignore[reportUnknownVariableType]


def _on_several(found: Sequence[tuple[str, Any, int]]) -> DeviceError:
    """The error for arrays on several devices; its hint moves one to the device of the majority."""
    devices = [device for _, _, device in found]
    most = max(devices, key=devices.count)
    wrong = next(name for name, _, device in found if device != most)
    return DeviceError(
        "arrays of one call lie on several devices",
        notes=[
            f"{name} {_shape(array)}is on CUDA device {device}" for name, array, device in found
        ],
        hint=f"with cupy.cuda.Device({most}): copy = cupy.asarray(…) moves {wrong}; a tensor of"
        f" torch is moved by .to('cuda:{most}')",
    )


def _shape(array: Any) -> str:
    shape = getattr(array, "shape", None)
    return "" if shape is None else f"of shape {tuple(shape)} "


def elsewhere(args: Collection[object], options: Mapping[str, object]) -> int | None:
    """The device of a call's arrays if not the current one; DeviceError for several devices."""
    device = device_of_call(args, options)
    return None if device is None or device == cupy_arrays.current_device() else device


def called_there(function: Callable[..., R], args: Sequence[Any], options: Mapping[str, Any]) -> R:
    """Calls a function with the device of its arrays made current."""
    with at(elsewhere(args, options)):
        return function(*args, **options)


def where_arrays_lie(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function to run on the device of its arrays."""

    @functools.wraps(function)
    def called(*args: P.args, **options: P.kwargs) -> R:
        return called_there(function, args, options)

    return called


def launched_at(device: int, launch: Launch) -> Launch:
    """Wrap a launch so that it runs with another device made current."""

    def launched(*arrays: Any) -> Any:
        before = cupy_arrays.current_device()
        cupy_arrays.library().use_device(device)
        try:
            return launch(*arrays)
        finally:
            cupy_arrays.library().use_device(before)

    return launched
