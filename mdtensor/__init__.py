"""Tensor expressions, compiled and tuned for the shape and the device that you have.

>>> import numpy as np
>>> import mdtensor as mdt
>>> mdt.einsum("ij,jk->ik", np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
array([[1., 2.],
       [3., 4.]])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdtensor import errors
    from mdtensor.api import ndimage
    from mdtensor.api.array_spec import spec
    from mdtensor.api.compile import compile  # noqa: A004
    from mdtensor.api.convolution import conv, conv_capsule
    from mdtensor.api.correlation import convolve, correlate
    from mdtensor.api.device import device, devices
    from mdtensor.api.directive import mdh
    from mdtensor.api.dsl import inp_view, md_hom, out_view
    from mdtensor.api.einsum import einsum, einsum_path
    from mdtensor.api.lazy import lazy
    from mdtensor.api.operators import cc, operator, ps, pw
    from mdtensor.api.plan import Plan
    from mdtensor.api.reduce import reduce, scan
    from mdtensor.api.statistics import stats
    from mdtensor.api.stencil import stencil
    from mdtensor.api.tensordot import tensordot
    from mdtensor.api.tune import tune
    from mdtensor.api.tuning_context import tuning

# Watches forks, which may come while a thread imports the rest.
importlib.import_module("mdtensor.forks")
# Watches torch.compile, which may trace the first call of all.
importlib.import_module("mdtensor.torch_compile")

__version__ = "0.1.0"

__all__ = [
    "Plan",
    "cc",
    "compile",
    "conv",
    "conv_capsule",
    "convolve",
    "correlate",
    "device",
    "devices",
    "einsum",
    "einsum_path",
    "errors",
    "inp_view",
    "lazy",
    "md_hom",
    "mdh",
    "ndimage",
    "operator",
    "out_view",
    "ps",
    "pw",
    "reduce",
    "scan",
    "spec",
    "stats",
    "stencil",
    "tensordot",
    "tune",
    "tuning",
]

_HOMES = {
    "Plan": "api.plan",
    "cc": "api.operators",
    "compile": "api.compile",
    "conv": "api.convolution",
    "conv_capsule": "api.convolution",
    "convolve": "api.correlation",
    "correlate": "api.correlation",
    "device": "api.device",
    "devices": "api.device",
    "einsum": "api.einsum",
    "einsum_path": "api.einsum",
    "errors": "errors",
    "inp_view": "api.dsl",
    "lazy": "api.lazy",
    "md_hom": "api.dsl",
    "mdh": "api.directive",
    "ndimage": "api.ndimage",
    "operator": "api.operators",
    "out_view": "api.dsl",
    "ps": "api.operators",
    "pw": "api.operators",
    "reduce": "api.reduce",
    "scan": "api.reduce",
    "spec": "api.array_spec",
    "stats": "api.statistics",
    "stencil": "api.stencil",
    "tensordot": "api.tensordot",
    "tune": "api.tune",
    "tuning": "api.tuning_context",
}


def __getattr__(name: str) -> Any:
    """Loads a public name when it is first used, so that importing mdtensor costs little."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    value = module if name in ("errors", "ndimage") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
