"""Tensor maps (TMA descriptors) of arrays, encoded by the driver."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mdtensor.errors import LaunchError, NoDeviceError
from mdtensor.kernels.kernel_source import LaunchMap

MAP_BYTES = 128
_ALIGNMENT = 64
# Of the driver's interface (cuda.h): CUtensorMapDataType, no interleaving, swizzling of 128 bytes,
# promotion to 256 bytes in L2, and zeros for what lies outside.
_TYPES = {"float16": 6, "float32": 7, "bfloat16": 9}
_TF32 = 11
_NOT_INTERLEAVED, _SWIZZLED, _PROMOTED, _ZEROS = 0, 3, 3, 0
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
    """A thread's tensor maps of a launch, re-encoded when a buffer's address changes.

    `positions` are those of the maps' buffers among the arguments.
    """

    def __init__(self, maps: Sequence[LaunchMap], positions: Sequence[int], encode: Encode) -> None:
        self._memory = ctypes.create_string_buffer(MAP_BYTES * len(maps) + _ALIGNMENT)
        first = -(-ctypes.addressof(self._memory) // _ALIGNMENT) * _ALIGNMENT
        self.addresses = [first + MAP_BYTES * n for n in range(len(maps))]
        self._encoders = [
            _encoder(each, address, encode)
            for each, address in zip(maps, self.addresses, strict=True)
        ]
        self._positions = positions
        self._known = [0] * len(maps)

    def encode(self, values: Any) -> None:
        """Encode the maps of buffers whose addresses changed."""
        for n, position in enumerate(self._positions):
            place = values[position]
            if place != self._known[n]:
                self._encoders[n](place)
                self._known[n] = place


def _encoder(each: LaunchMap, address: int, encode: Encode) -> Callable[[int], None]:
    rank, size = len(each.extents), each.memory.itemsize
    extents = (ctypes.c_uint64 * rank)(*each.extents)
    strides = (ctypes.c_uint64 * (rank - 1))(*(s * size for s in each.strides[1:]))
    apart = each.steps or (1,) * rank
    # The driver counts what a box spans, not what it has.
    box = (ctypes.c_uint32 * rank)(*((n - 1) * s + 1 for n, s in zip(each.box, apart, strict=True)))
    steps = (ctypes.c_uint32 * rank)(*apart)
    how = _NOT_INTERLEAVED, _SWIZZLED, _PROMOTED, _ZEROS
    to = ctypes.c_void_p(address)
    kind = _TF32 if each.tf32 else _TYPES[each.memory.name]

    def encoded(place: int) -> None:
        begin = ctypes.c_void_p(place + each.offset * size)
        status = encode(to, kind, rank, begin, extents, strides, box, steps, *how)
        if status:
            raise LaunchError(f"CUDA's driver refuses the tensor map {each}: error {status}")

    return encoded
