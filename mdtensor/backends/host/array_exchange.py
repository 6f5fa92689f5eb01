"""DLPack's C exchange API of an array class: address, layout and stream of an array.

`__dlpack_c_exchange_api__` of a class is a capsule of a table of C functions (DLPack 1.3), with
which an array is described in tens of nanoseconds, without a capsule for each of them.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass

_ATTRIBUTE, _NAME = "__dlpack_c_exchange_api__", b"dlpack_exchange_api"
_MAJOR = 1  # version of DLPack that the table is of
# Places of functions in the table: behind its version and the table of an older one.
_LAYOUT, _STREAM, _WORDS = 5, 6, 7


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int64),
        ("kind", ctypes.c_int64),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class ArrayLayout:
    """An array's shape and strides (in elements), its `device`, and its `kind`: axes and type.

    Both are words of DLPack's: type and number of a device, number of axes and type of elements.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int
    kind: int

    @property
    def itemsize(self) -> int:
        """Bytes of an element; its bits are in byte 5 of `kind`."""
        return math.ceil((self.kind >> 40 & 0xFF) / 8)


class ArrayExchange:
    """The DLPack functions of an array class, and the checks of plain arrays.

    `words` are those that built-in functions read: the addresses of the functions, then of the
    objects that `plain` has, in the order of `DLPackWords`.
    """

    def __init__(self, table: int, plain: tuple[object, ...]) -> None:
        functions = (ctypes.c_void_p * _WORDS).from_address(table)
        places = [functions[_LAYOUT] or 0, functions[_STREAM] or 0, *map(id, plain)]
        self.words = np.array(places, np.int64)
        self._plain = plain
        of_array = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
        self._describe: Any = of_array(places[0])

    @classmethod
    def of(cls, kind: type, plain: tuple[object, ...]) -> ArrayExchange | None:
        """The exchange of a class; None if it has none, or another major version."""
        capsule = getattr(kind, _ATTRIBUTE, None)
        if capsule is None:
            return None
        get: Any = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        table = get(capsule, _NAME)
        major = ctypes.c_uint32.from_address(table).value
        functions = (ctypes.c_void_p * _WORDS).from_address(table)
        is_whole = functions[_LAYOUT] and functions[_STREAM]
        return cls(table, plain) if major == _MAJOR and is_whole else None

    def layout(self, array: Any) -> ArrayLayout:
        """The layout of an array; errors are those of the array's library."""
        found: Any = _DLTensor()
        self._describe(array, ctypes.byref(found))
        axes = found.kind & 0xFFFF_FFFF
        shape, strides = (
            tuple(words[:axes] if axes else ()) for words in (found.shape, found.strides)
        )
        return ArrayLayout(shape, strides, found.device, found.kind)
