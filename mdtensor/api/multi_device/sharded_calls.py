"""Calls on sharded arrays: planned on placeholders, then run by the shards' devices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

import numpy as np

from mdtensor.api.arrays import cupy_arrays
from mdtensor.api.arrays.device_scope import at, device_of
from mdtensor.api.arrays.memory_overlap import is_apart
from mdtensor.api.arrays.nested_arguments import mapped_call
from mdtensor.api.arrays.operands import (
    Array,
    array_module,
    as_computed,
    as_output,
    read_only,
)
from mdtensor.api.arrays.results import as_returned, check_out
from mdtensor.api.arrays.unaligned_arrays import addressable
from mdtensor.api.calls.call_key import Described, NotPlainError
from mdtensor.api.multi_device.device_list import DeviceList
from mdtensor.api.multi_device.sharded_array import ShardedArray, computed
from mdtensor.api.parts.foreign_call import ForeignCall
from mdtensor.bounded import Bounded
from mdtensor.errors import ArgumentError, DeviceError, TranslationError
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.python.tuples import as_tuple

_MOST = 256  # calls that are known
# By function and arguments, what a call computes, and of which of its arrays.
_known = Bounded[Hashable, "tuple[Program, tuple[int, ...]]"](_MOST)
_SHARDED = "sharded array"


def called(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    described: Described,
) -> Any:
    """Run a front end's call with sharded arrays among its arguments; `described` gives cache keys.

    Each device computes on its shards; results are sharded arrays where they are cut, others are
    whole arrays. Arrays of NumPy and CuPy may stand beside them: devices read what they need.

    Raises DeviceError for arrays on other devices, ArgumentError for options that make no sense,
    TranslationError for calls that are more than kernels.
    """
    for name in ("devices", "memory_limit"):
        if options.get(name) is not None:
            raise ArgumentError(
                f"{name}= in a call on sharded arrays",
                hint="the devices of the shards compute it: leave the option out",
            )
    named = {name: None if name == "out" else option for name, option in options.items()}
    arrays: list[Any] = []
    told, told_options = mapped_call(partial(_told, arrays), args, named)
    call = _ShardedCall(arrays, options.get("out"))
    call.check()
    key: Hashable = None
    with suppress(NotPlainError, TypeError, RecursionError):
        parts, found = described(told, told_options)
        # Numbers that kernels get when they run are no part of keys.
        if all(any(each is array for array in arrays) for each in found):
            key = function, parts, tuple(map(call.number_of, arrays))
    known = None if key is None else _known.get(key)
    if known is not None:
        program, numbers = known
        results = call.computed(program, [arrays[n] for n in numbers])
        return call.out if call.out is not None else as_returned(results)
    returned = call.run(function, args, named)
    is_all = len(call.ran) == 1 and {*call.ran[0][1]} == {*map(call.number_of, arrays)}
    if key is not None and is_all:
        _known.keep(key, call.ran[0])
    if call.out is None:
        return as_returned(as_tuple(returned))
    if len(call.ran) != 1:
        raise call.refused()
    return call.out


def _told(arrays: list[Any], argument: Any) -> Any:
    """An argument's part of the cache key; arrays are collected in `arrays`."""
    if isinstance(argument, ShardedArray):
        arrays.append(argument)
        return _SHARDED, argument.shape, argument.dtype
    if isinstance(argument, np.ndarray) or device_of(argument) is not None:
        arrays.append(argument)
    return cast("Any", argument)


class _ShardedCall(ForeignCall):
    """A call on sharded arrays; `given` are all arrays among its arguments.

    `ran` has its programs, and the numbers of the arrays that each reads: -1 for constants.
    """

    def __init__(self, given: Sequence[Any], out: Any) -> None:
        super().__init__()
        self.given, self.out = given, out
        self.ran: list[tuple[Program, tuple[int, ...]]] = []

    def number_of(self, array: Any) -> int:
        """The index of an array among the `given` ones; -1 for any other."""
        return next((n for n, each in enumerate(self.given) if each is array), -1)

    def is_foreign(self, argument: Any) -> bool:
        return isinstance(argument, ShardedArray) or device_of(argument) is not None

    def placeholder(self, array: Any) -> np.ndarray:
        return self.placeholders.of(array)

    def constant(self, array: np.ndarray) -> Array:
        return self._module().asarray(array)

    def refused(self) -> TranslationError:
        return TranslationError(
            "a call on sharded arrays with these arguments is more than kernels on them",
            hint="x.gather() of each sharded array, and call it on these",
        )

    @property
    def devices(self) -> DeviceList:
        """The devices of the sharded arrays."""
        return next(each.listed for each in self.given if isinstance(each, ShardedArray))

    def targets(self) -> tuple[Any, ...]:
        """The caller's output arrays."""
        return () if self.out is None else as_tuple(self.out)

    def check(self) -> None:
        """Raises DeviceError where arrays are not on the same devices."""
        devices = self.devices
        for array in self.targets():
            if not isinstance(array, ShardedArray):
                as_output("out", array, self._module())
        for array in (*self.given, *self.targets()):
            if isinstance(array, ShardedArray):
                if array.listed != devices:
                    raise DeviceError(
                        "sharded arrays of one call are on different devices",
                        notes=[f"one: {devices.names}", f"another: {array.listed.names}"],
                        hint="shard them on the same devices, in the same order",
                    )
                continue
            place = device_of(array)
            if (place is None) != (devices.arrays == "numpy"):
                raise DeviceError(
                    f"sharded arrays of {devices.arrays} beside another kind of array",
                    hint="copy it with cupy.asarray(…) or .get() first",
                )
            if place is not None and place != cupy_arrays.current_device():
                raise DeviceError(
                    f"an array beside sharded ones is on GPU {place}, which is not the current one",
                    hint=f"call it in a `with cupy.cuda.Device({place})`",
                )

    def computed(self, planned: Program, operands: Sequence[Any]) -> list[Any]:
        """The results of a computation: new arrays, or the caller's."""
        self.ran.append((planned, tuple(map(self.number_of, operands))))
        xp, given = self._module(), list(operands)
        for number, dtype in planned.converted:
            given[number] = _converted(given[number], dtype)
        for number, operand in enumerate(given):
            if not isinstance(operand, ShardedArray):
                [given[number]] = as_computed([operand], xp)
        targets = self.targets()
        if targets:
            _check(planned, targets, given)
        return computed(planned, given, self.devices, targets)

    def _module(self) -> Any:
        """The array library: NumPy or CuPy."""
        if self.devices.arrays == "numpy":
            return np
        return array_module(array.shards[0] for array in self.given if hasattr(array, "shards"))


def _check(planned: Program, targets: Sequence[Any], operands: Sequence[Array]) -> None:
    """Raises ShapeError, DTypeError or ArgumentError where an output array does not fit."""
    check_out(targets, planned.results, "no")
    parts = [shard for each in operands for shard in getattr(each, "shards", (each,))]
    for target in targets:
        shards: tuple[Any, ...] = getattr(target, "shards", (target,))
        if isinstance(target, ShardedArray) and target.axis is None:
            raise ArgumentError(
                "out has a replica on each device", hint="pass an array that is cut, or none"
            )
        for shard in shards:
            if isinstance(shard, np.ndarray) and not shard.flags.writeable:
                raise read_only("out")
            if not (addressable(shard) and is_apart(shard, parts, array_module([target]))):
                raise ArgumentError(
                    "out shares memory with an operand",
                    hint="two arrays that take turns, or none",
                )


def _converted(array: Any, dtype: np.dtype) -> Any:
    """A copy in another type."""
    if not isinstance(array, ShardedArray):
        return array.astype(dtype, order="C")
    shards: list[Array] = []
    for shard in array.shards:
        with at(device_of(shard)):
            shards.append(shard.astype(dtype, order="C"))
    return ShardedArray(shards, array.sharding, array.listed, dtype)
