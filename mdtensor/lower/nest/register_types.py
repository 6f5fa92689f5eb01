"""The types in which a kernel holds numbers, which are not always those of memory."""

from __future__ import annotations

import numpy as np

F16, F32, F64 = (np.dtype(t) for t in ("f2", "f4", "f8"))
U8, I32, I64, BOOL = (np.dtype(t) for t in ("u1", "i4", "i8", "?"))

_SHORT = frozenset(("float16", "bfloat16"))


def is_short_float(dtype: np.dtype) -> bool:
    """Whether a type is one of 16 bits, in which numbers are kept and not computed."""
    return dtype.itemsize == 2 and dtype.name in _SHORT


def register_dtype(dtype: np.dtype) -> np.dtype:
    """The type in which a value is held: short floats as float32, booleans as bytes 0 and 1."""
    return F32 if is_short_float(dtype) else U8 if dtype == BOOL else dtype
