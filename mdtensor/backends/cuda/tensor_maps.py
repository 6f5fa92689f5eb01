"""Tensor maps (TMA descriptors) of arrays, encoded by the driver."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mdtensor.dataclass import dataclass
from mdtensor.errors import LaunchError, NoDeviceError
from mdtensor.kernels.kernel_source import LaunchMap

MAP_BYTES = 128
_ALIGNMENT = 64
# Of the driver's interface (cuda.h): CUtensorMapDataType, no interleaving, swizzling of 128 bytes,
# promotion to 256 bytes in L2, and zeros for what lies outside.
_TYPES = {"float16": 6, "float32": 7, "bfloat16": 9}
_TF32 = 11
_NOT_INTERLEAVED, _SWIZZLED, _PROMOTED, _ZEROS = 0, 3, 3, 0
_HOW = _NOT_INTERLEAVED, _SWIZZLED, _PROMOTED, _ZEROS
# (map, type, rank, address, extents, strides, box, steps, interleaved, swizzled, promoted, filled)
Encode = Callable[..., int]


@cache
def encode_function() -> Encode:
    """The driver's cuTensorMapEncodeTiled; NoDeviceError if it is missing."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return ctypes.CDLL(library).cuTensorMapEncodeTiled
    except (OSError, AttributeError) as error:
        raise NoDeviceError(f"no tensor maps: {error}", hint="a driver of CUDA 12") from error


class TensorMaps:
    """A thread's tensor maps of a launch, encoded for the addresses of their buffers.

    `positions` are those of the maps' buffers among the arguments.
    """

    def __init__(self, maps: Sequence[LaunchMap], positions: Sequence[int], encode: Encode) -> None:
        self._memory = ctypes.create_string_buffer(MAP_BYTES * len(maps) + _ALIGNMENT)
        first = -(-ctypes.addressof(self._memory) // _ALIGNMENT) * _ALIGNMENT
        self.addresses = [first + MAP_BYTES * n for n in range(len(maps))]
        self._described = [
            _Described.of(each, address, position)
            for each, address, position in zip(maps, self.addresses, positions, strict=True)
        ]
        self._encode, self._maps = encode, maps

    def encode(self, values: Any) -> None:
        """Encode the maps of buffers at these addresses."""
        for described, each in zip(self._described, self._maps, strict=True):
            begin = values[described.position] + described.offset
            if status := self._encode(*described.arguments(begin)):
                raise LaunchError(f"CUDA's driver refuses the tensor map {each}: error {status}")

    def words(self) -> list[tuple[int, ...]]:
        """The maps as words for the built-in function that encodes them, see `MapWords`."""
        return [described.words() for described in self._described]


@dataclass(frozen=True, slots=True)
class _Described:
    """The parameters of a tensor map at address `to`, as the driver encodes it.

    Its array begins `offset` bytes behind the address in argument `position`.
    """

    position: int
    offset: int
    to: int
    kind: int
    extents: Any
    strides: Any
    box: Any
    steps: Any

    @classmethod
    def of(cls, each: LaunchMap, address: int, position: int) -> _Described:
        rank, size = len(each.extents), each.memory.itemsize
        extents = (ctypes.c_uint64 * rank)(*each.extents)
        strides = (ctypes.c_uint64 * (rank - 1))(*(s * size for s in each.strides[1:]))
        apart = each.steps or (1,) * rank
        # The driver counts what a box spans, not what it has.
        spans = [(n - 1) * s + 1 for n, s in zip(each.box, apart, strict=True)]
        box, steps = (ctypes.c_uint32 * rank)(*spans), (ctypes.c_uint32 * rank)(*apart)
        kind = _TF32 if each.tf32 else _TYPES[each.memory.name]
        offset = each.offset * size
        return cls(position, offset, address, kind, extents, strides, box, steps)

    def arguments(self, begin: int) -> tuple[Any, ...]:
        """The arguments of the driver's function, for an array that begins at an address."""
        rank, to, place = len(self.extents), ctypes.c_void_p(self.to), ctypes.c_void_p(begin)
        arrays = self.extents, self.strides, self.box, self.steps
        return to, self.kind, rank, place, *arrays, *_HOW

    def words(self) -> tuple[int, ...]:
        """The arguments as words, without the address."""
        arrays = map(ctypes.addressof, (self.extents, self.strides, self.box, self.steps))
        place = self.position, self.offset, self.to
        return *place, self.kind, len(self.extents), *arrays, *_HOW
