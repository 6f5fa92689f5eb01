"""NumPy's and scipy's own functions, also after a program has monkey-patched their public names.

Programs may put mdtensor's functions in the places of NumPy's: `np.einsum = mdtensor.einsum`, or
one that calls it. What mdtensor hands to NumPy would come back for ever, so the functions are taken
from the modules that define them, where nobody puts others.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "numpy.einsum": "numpy._core.einsumfunc",
    "numpy.einsum_path": "numpy._core.einsumfunc",
    "numpy.tensordot": "numpy._core.numeric",
    "numpy.outer": "numpy._core.numeric",
    "numpy.dot": "numpy._core.multiarray",
    "numpy.inner": "numpy._core.multiarray",
    "numpy.vdot": "numpy._core.multiarray",
    "numpy.matmul": "numpy._core.umath",
    "numpy.linalg.matmul": "numpy.linalg._linalg",
    "numpy.linalg.outer": "numpy.linalg._linalg",
    "numpy.linalg.tensordot": "numpy.linalg._linalg",
    "numpy.convolve": "numpy._core.numeric",
    "numpy.correlate": "numpy._core.numeric",
    "scipy.signal.convolve": "scipy.signal._signaltools",
    "scipy.signal.correlate": "scipy.signal._signaltools",
}


def original(path: str) -> Any:
    """The function that a library defines under a public name, even if that is patched.

    Raises ImportError where the library is not installed.

    >>> original("numpy.einsum")("ij->i", [[1, 2], [3, 4]])
    array([3, 7])
    """
    module, _, name = path.rpartition(".")
    public = importlib.import_module(module)
    try:
        return getattr(importlib.import_module(_HOMES[path]), name)
    except (ImportError, AttributeError):  # another release keeps it elsewhere
        return getattr(public, name)
