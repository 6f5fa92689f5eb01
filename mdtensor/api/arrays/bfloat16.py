"""bfloat16 on processors, whose kernels have no such type: computed in float32, rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdtensor.api.arrays.operands import COMPUTED, Array, reason_of_types


def are_short(types: Sequence[np.dtype]) -> bool:
    """Whether kernels of a processor could compute with these types, were it not for bfloat16."""
    is_there = any(dtype.char not in COMPUTED and dtype.name == "bfloat16" for dtype in types)
    return is_there and not reason_of_types(types, on_gpu=True)


def in_single(arrays: Sequence[Array], computed: np.dtype) -> tuple[list[Array], np.dtype]:
    """Arrays of NumPy without bfloat16, and the type to compute in instead of `computed`.

    Elements are rounded to `computed` first where that is bfloat16.
    """
    if computed.name == "bfloat16":
        arrays, computed = [a.astype(computed, copy=False) for a in arrays], np.dtype(np.float32)
    return [a.astype(np.float32) if a.dtype.name == "bfloat16" else a for a in arrays], computed
