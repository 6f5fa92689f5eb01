"""xarray objects, whose axes have names; xarray is never imported here."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from mdtensor.errors import DTypeError
from mdtensor.specs import TensorSpec, is_computed

_CLASSES = ("DataArray", "Dataset", "DataTree", "Variable")


def is_of_xarray(given: object) -> bool:
    """Whether an object is an xarray object that holds arrays."""
    xarray = sys.modules.get("xarray")
    if xarray is None:
        return False
    return isinstance(given, tuple([getattr(xarray, name, ()) for name in _CLASSES]))


def spec_of_xarray(name: str, array: Any) -> TensorSpec:
    """The shape and type of a DataArray, in native byte order.

    Raises DTypeError for xarray's other objects, and for a type without kernels.
    """
    if not isinstance(array, sys.modules["xarray"].DataArray):
        raise DTypeError(
            f"{name} is xarray's {type(array).__name__}, not a DataArray",
            hint="call it on one DataArray of a Dataset, or by dataset.map(function)",
        )
    dtype: Any = array.dtype
    if not isinstance(dtype, np.dtype) or not is_computed(array.dtype):
        raise DTypeError(
            f"{name} is {dtype}, and no kernels compute with that",
            hint="convert the DataArray by astype, or call xarray's own function",
        )
    return TensorSpec.of(array.shape, array.dtype.newbyteorder("="))
