"""Array allocations in a traced program: `np.zeros(n)`, `np.full_like(x, 1)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from mdtensor.specs import TensorSpec, as_dtype
from mdtensor.translate.loop_nests.symbolic_buffers import SymbolicBuffer, SymbolicRow
from mdtensor.translate.python.tuples import as_tuple

# What the array is filled with; None for anything.
_FILLS = {
    np.zeros: 0,
    np.ones: 1,
    np.empty: None,
    np.full: "given",
    np.zeros_like: 0,
    np.ones_like: 1,
    np.empty_like: None,
    np.full_like: "given",
}


def is_allocation(function: Any) -> bool:
    """Whether a function allocates an array."""
    try:
        return function in _FILLS
    except TypeError:  # not hashable
        return False


def allocated(
    function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[TensorSpec, Any]:
    """The spec and the fill value of an allocating call.

    >>> allocated(np.ones, [(2, 3)], {"dtype": "f4"})
    (float32[2, 3], 1)
    """
    given = list(args)
    first = given[0]
    is_example = isinstance(first, SymbolicBuffer | SymbolicRow)
    fill = _FILLS[function]
    if fill == "given":
        fill = given.pop(1) if len(given) > 1 else named["fill_value"]
    extents = as_tuple(cast(Any, first.shape if is_example else first))
    by_default = first.dtype if is_example else np.result_type(fill) if fill else np.float64
    dtype = named.get("dtype", given[1] if len(given) > 1 else None) or by_default
    return TensorSpec.of(extents, as_dtype(dtype)), fill
