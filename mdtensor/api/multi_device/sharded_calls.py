"""Calls on sharded arrays: planned on placeholders, then computed by the devices of the shards."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

import numpy as np

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.device_scope import at, device_of
from mdtensor.api.arrays.memory_overlap import is_apart
from mdtensor.api.arrays.operands import (
    Array,
    addressable,
    array_module,
    as_computed,
    as_output,
    read_only,
)
from mdtensor.api.calls.call_cache import Described, NotPlainError
from mdtensor.api.calls.program_calls import Request
from mdtensor.api.multi_device.device_list import DeviceList
from mdtensor.api.multi_device.sharded_array import ShardedArray, computed
from mdtensor.api.parts.placeholders import Placeholders, planned_by
from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.errors import ArgumentError, DeviceError, DTypeError, ShapeError, TranslationError
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.python.tuples import as_tuple

_MOST = 256  # calls that are known
# By function and arguments, what a call computes, and of which of its arrays.
_known = Bounded[Hashable, "tuple[Program, tuple[int, ...]]"](_MOST)
_type_of: Any = type
_SHARDED = "sharded array"
_DEPTH = 2  # of tuples and lists that are looked into; they may hold themselves
_HINT = "x.gather() of each sharded array, and call it on these"


def called(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    described: Described,
) -> Any:
    """A call of a front end with sharded arrays among its arguments; `described` gives keys.

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
    call = _Call(options.get("out"))
    named = {name: None if name == "out" else option for name, option in options.items()}
    told, told_options = [*map(call.told, args)], {n: call.told(o) for n, o in named.items()}
    call.check()
    key: Hashable = None
    with suppress(NotPlainError, TypeError, RecursionError):
        key, arrays = described(told, told_options)
        # Numbers that kernels get when they run are no part of keys.
        key = (function, key) if all(map(call.has, arrays)) else None
    known = None if key is None else _known.get(key)
    if known is not None:
        planned, numbers = known
        return call.returned(call.computed(planned, [call.arrays[n] for n in numbers]))
    given = [call.stand_in(argument) for argument in args]
    named = {name: call.stand_in(option) for name, option in named.items()}
    returned = planned_by(call.plan, function, *given, **named)
    found = call.arrays_of(returned)
    if key is not None and len(call.planned) == 1 and -1 not in call.planned[0][1]:
        _known.keep(key, call.planned[0])
    return found


@dataclass(slots=True)
class _Call:
    """A call, with placeholders for its arrays, and what is known of it for the next time."""

    out: Any
    placeholders: Placeholders = field(default_factory=Placeholders)
    arrays: list[Any] = field(default_factory=list[Any])
    planned: list[tuple[Program, tuple[int, ...]]] = field(
        default_factory=list[tuple[Program, tuple[int, ...]]]
    )

    def told(self, argument: Any, depth: int = _DEPTH) -> Any:
        """Notes the arrays in an argument, and gives what keys have for sharded ones."""
        if depth and _type_of(argument) in (tuple, list):
            return _type_of(argument)(self.told(each, depth - 1) for each in argument)
        if _is_array(argument):
            self.arrays.append(argument)
        if isinstance(argument, ShardedArray):
            return _SHARDED, argument.shape, argument.dtype
        return argument

    def stand_in(self, argument: Any, depth: int = _DEPTH) -> Any:
        """An argument with placeholders for arrays in it, also in tuples and lists."""
        if depth and _type_of(argument) in (tuple, list):
            return _type_of(argument)(self.stand_in(each, depth - 1) for each in argument)
        return self.placeholders.of(argument) if _is_array(argument) else argument

    def has(self, array: Any) -> bool:
        """Whether an array is one of the call's."""
        return any(array is each for each in self.arrays)

    @property
    def devices(self) -> DeviceList:
        """The devices of the sharded arrays."""
        return next(each.listed for each in self.arrays if isinstance(each, ShardedArray))

    def targets(self) -> tuple[Any, ...]:
        """The arrays that the caller gave for results."""
        return () if self.out is None else as_tuple(self.out)

    def check(self) -> None:
        """Raises DeviceError where arrays are not on the same devices."""
        devices = self.devices
        for array in self.targets():
            if not isinstance(array, ShardedArray):
                as_output("out", array, self._module())
        for array in (*self.arrays, *self.targets()):
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
            if place is not None and place != invalidation.current_device():
                raise DeviceError(
                    f"an array beside sharded ones is on GPU {place}, which is not the current one",
                    hint=f"call it in a `with cupy.cuda.Device({place})`",
                )

    def plan(self, request: Request) -> Any:
        """Computes what a front end would run; gives what stands for the results."""
        xp = self._module()
        given: list[Any] = []
        numbers: list[int] = []
        for operand in request.operands:
            array = self.placeholders.array_of(operand)
            if array is None and self.placeholders.has_part(operand):
                raise _more_than_kernels()
            is_known = (n for n, each in enumerate(self.arrays) if each is array)
            numbers.append(-1 if array is None else next(is_known, -1))
            given.append(xp.asarray(operand) if array is None else array)
        self.planned.append((request.program, tuple(numbers)))
        places = tuple(map(self.placeholders.of, self.computed(request.program, given)))
        return places[0] if len(places) == 1 else places

    def computed(self, planned: Program, operands: Sequence[Any]) -> list[Any]:
        """The results of a computation, new ones or those that were given."""
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

    def returned(self, results: Sequence[Any]) -> Any:
        """What the call returns for its results."""
        if self.out is not None:
            return self.out
        several = tuple(_as_returned(result) for result in results)
        return several[0] if len(several) == 1 else several

    def arrays_of(self, returned: Any) -> Any:
        """What a call returned, with arrays in the place of placeholders."""
        if self.out is not None:
            if len(self.planned) != 1:
                raise _more_than_kernels()
            return self.out
        if hasattr(returned, "shape"):
            return self._array_of(returned)
        return tuple(map(self._array_of, returned))

    def _array_of(self, value: Any) -> Any:
        found = self.placeholders.array_of(value)
        if found is None:
            raise _more_than_kernels()
        return _as_returned(found)

    def _module(self) -> Any:
        """NumPy or CuPy."""
        if self.devices.arrays == "numpy":
            return np
        return array_module(array.shards[0] for array in self.arrays if hasattr(array, "shards"))


def _is_array(argument: Any) -> bool:
    is_array = isinstance(argument, np.ndarray | ShardedArray)
    return is_array or device_of(argument) is not None


def _check(planned: Program, targets: Sequence[Any], operands: Sequence[Array]) -> None:
    """Raises ShapeError, DTypeError or ArgumentError where an array for a result does not fit."""
    if len(targets) != len(planned.results):
        raise ShapeError(f"{len(targets)} arrays in out for {len(planned.results)} results")
    parts = [shard for each in operands for shard in getattr(each, "shards", (each,))]
    for target, spec in zip(targets, planned.results, strict=True):
        if tuple(target.shape) != spec.shape:
            raise ShapeError(f"out has shape {tuple(target.shape)} but the result {spec.shape}")
        if target.dtype != spec.dtype:
            raise DTypeError(f"the result is {spec.dtype}, and out has {target.dtype}")
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
    """A copy of another type."""
    if not isinstance(array, ShardedArray):
        return array.astype(dtype, order="C")
    shards: list[Array] = []
    for shard in array.shards:
        with at(device_of(shard)):
            shards.append(shard.astype(dtype, order="C"))
    return ShardedArray(shards, array.sharding, array.listed, dtype)


def _as_returned(result: Any) -> Any:
    return result[()] if type(result) is np.ndarray and not result.ndim else result


def _more_than_kernels() -> TranslationError:
    return TranslationError(
        "a call on sharded arrays with these arguments is more than kernels on them", hint=_HINT
    )
