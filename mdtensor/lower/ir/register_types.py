"""Register types: the types in which kernels compute, where they differ from those in memory."""

from __future__ import annotations

import numpy as np

from mdtensor.specs import computed_dtype

F16, F32, F64 = (np.dtype(t) for t in ("f2", "f4", "f8"))
U8, I16, I32, I64, BOOL = (np.dtype(t) for t in ("u1", "i2", "i4", "i8", "?"))


def register_dtype(dtype: np.dtype) -> np.dtype:
    """The register type of a memory type: short floats as float32, booleans as bytes 0 and 1."""
    return U8 if dtype == BOOL else computed_dtype(dtype)
