"""`spec`: shape and type of an array that does not exist yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from mdtensor.errors import ShapeError, shown
from mdtensor.options import MOST_AXES, beginning, whole
from mdtensor.specs import TensorSpec


def spec(shape: int | Sequence[int], dtype: object = "f4") -> TensorSpec:
    """Shape and type of an array that does not exist yet, in C order.

    Raises ShapeError and DTypeError for what is none.

    >>> spec((64, 128)), spec(10, "i8")
    (float32[64, 128], int64[10])
    """
    listed: Any = (shape,) if isinstance(shape, SupportsIndex) else shape
    try:
        extents = tuple(whole("an extent", extent) for extent in beginning(listed, MOST_AXES))
    except TypeError:
        raise ShapeError(
            f"{shown(shape)} is no shape", hint="whole numbers, such as (64, 128)"
        ) from None
    if len(extents) > MOST_AXES:
        raise ShapeError(f"{shown(shape)} is no shape", hint=f"at most {MOST_AXES} axes")
    return TensorSpec.of(extents, dtype)
