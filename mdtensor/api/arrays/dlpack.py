"""GPU tensors of other libraries, imported into CuPy without a copy."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from mdtensor.errors import DTypeError

# CuPy's array or another library's tensor.
Array = Any

# Kinds of memory (dlpack.h): CUDA's, and what CUDA manages.
_OF_CUDA = (2, 13)


def is_on_gpu(array: object) -> bool:
    """Whether an array is CuPy's, or a tensor in a GPU's memory, by DLPack or CUDA's interface."""
    kind = type(array)
    if kind is np.ndarray:
        return False
    if kind.__module__.partition(".")[0] == "cupy":
        return True
    try:
        if hasattr(kind, "__dlpack_device__"):
            given: Any = array
            return int(given.__dlpack_device__()[0]) in _OF_CUDA
        return hasattr(kind, "__cuda_array_interface__")
    except (BufferError, RuntimeError, TypeError, ValueError):
        return False


def cupy_for(array: object) -> Any:
    """CuPy, which an array on a GPU needs; NoDeviceError where it is not installed."""
    if type(array).__module__.partition(".")[0] == "cupy":
        return importlib.import_module("cupy")
    return importlib.import_module("mdtensor.backends.cuda.cupy_device").load_cupy()


def shared(name: str, tensor: Any, cupy: Any) -> Array:
    """A CuPy array over a GPU tensor's memory, ordered after the work that fills it.

    Raises DTypeError where the tensor cannot be shared, as one that wants a gradient.
    """
    if type(tensor) is cupy.ndarray:
        return tensor
    try:
        if hasattr(tensor, "__dlpack__"):
            return cupy.from_dlpack(tensor)
        return cupy.asarray(tensor)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise not_taken(name, tensor, cupy, error) from error


def not_taken(name: str, given: object, xp: Any, error: Exception) -> DTypeError:
    """The error for an argument that NumPy or CuPy rejected, with their message."""
    return DTypeError(
        f"{name} is a {type(given).__name__} that {xp.__name__} does not take: {error}",
        hint=f"convert it to an array of {xp.__name__} first",
    )
