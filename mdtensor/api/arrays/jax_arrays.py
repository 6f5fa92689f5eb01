"""JAX arrays, concrete or traced; JAX is never imported here."""

from __future__ import annotations

import sys

import numpy as np

from mdtensor.errors import DTypeError
from mdtensor.specs import TensorSpec


def is_jax_array(given: object) -> bool:
    """Whether an object is a JAX array or tracer."""
    jax = sys.modules.get("jax")
    kind = getattr(jax, "Array", None)
    return kind is not None and isinstance(given, kind)


def spec_of_jax(name: str, array: object) -> TensorSpec:
    """The shape and type of an array of JAX; raises DTypeError for a type of JAX's own."""
    dtype = getattr(array, "dtype", None)
    if not isinstance(dtype, np.dtype):
        raise DTypeError(f"{name} is {dtype}, and no kernels compute with that")
    return TensorSpec.of(np.shape(array), dtype)  # pyright: ignore
