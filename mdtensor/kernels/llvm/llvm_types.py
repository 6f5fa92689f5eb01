"""LLVM IR's spelling of types and constants."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from mdtensor.errors import LoweringError

# LLVM rounds to its own bfloat by a function of a compiler's library, one element at a time, where
# a processor has no instruction for that; and such instructions lose subnormal numbers.
_TYPES = {"float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double"}


@lru_cache(1024)  # NumPy makes a type's name anew each time: half of the time of rendering
def type_of(dtype: np.dtype, lanes: int = 1) -> str:
    """The IR type of a number, or of a vector of several lanes.

    >>> type_of(np.dtype("f4"), 16), type_of(np.dtype("?"))
    ('<16 x float>', 'i8')
    """
    if dtype.name in _TYPES:
        scalar = _TYPES[dtype.name]
    elif dtype.kind in "iub":
        scalar = f"i{8 * dtype.itemsize}"
    else:
        raise LoweringError(f"llvm has no type {dtype.name}")
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


@lru_cache(1024)
def mangled(dtype: np.dtype, lanes: int = 1) -> str:
    """The type's suffix in names of intrinsics.

    >>> mangled(np.dtype("f4"), 16), mangled(np.dtype("i8"))
    ('v16f32', 'i64')
    """
    bits, kind = 8 * dtype.itemsize, "f" if dtype.kind == "f" else "i"
    return f"{kind}{bits}" if lanes == 1 else f"v{lanes}{kind}{bits}"


def constant(number: bool | int | float, dtype: np.dtype) -> str:
    """The literal of a number; floats are spelled as the bits of a double.

    >>> constant(1.5, np.dtype("f4")), constant(255, np.dtype("u1"))
    ('0x3FF8000000000000', '255')
    """
    if dtype.kind != "f":
        return str(int(number))
    value = float(number)
    if math.isnan(value):
        return "0x7FF8000000000000"
    if dtype == np.float32:
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


def vector(scalar: str, constants: Sequence[str]) -> str:
    """A constant vector of a scalar type.

    >>> vector("i32", ("0", "1"))
    '<i32 0, i32 1>'
    """
    return f"<{', '.join(f'{scalar} {each}' for each in constants)}>"
