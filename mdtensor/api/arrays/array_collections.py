"""Array collections among a call's arguments, and the modules that handle such calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.api.arrays.jax_arrays import is_jax_array
from mdtensor.api.arrays.xarray_arrays import is_of_xarray

LONGEST = 64  # elements of tuples and lists that are looked into
_OF_XARRAY = "mdtensor.api.frameworks.xarray_calls"
_type_of: Any = type


def collection_of(argument: Any, depth: int = 2) -> str | None:
    """The module that handles calls on an array collection, or on a list that holds one.

    Those are arrays of xarray, Dask and JAX, which are not imported for that, and sharded arrays.
    """
    kind = _type_of(argument)
    if kind is tuple or kind is list:  # which may hold itself
        is_short = depth and len(argument) <= LONGEST
        return collection_among(argument, depth - 1) if is_short else None
    if is_of_xarray(argument):
        return _OF_XARRAY
    if hasattr(kind, "__dask_graph__"):
        return "mdtensor.api.dask.dask_calls"
    if is_jax_array(argument):
        return "mdtensor.api.frameworks.jax_calls"
    return getattr(kind, "__mdtensor_calls__", None)


def collection_among(arguments: Sequence[Any], depth: int = 2) -> str | None:
    """The module that handles a call's arguments: xarray's if any, else the first one's."""
    found = [module for each in arguments if (module := collection_of(each, depth))]
    return _OF_XARRAY if _OF_XARRAY in found else next(iter(found), None)
