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
    from mdtensor import errors, host, tuner
    from mdtensor.api.arrays.array_spec import spec
    from mdtensor.api.arrays.ragged import Ragged, ragged
    from mdtensor.api.calls.call_trace import trace
    from mdtensor.api.calls.statistics import stats
    from mdtensor.api.devices import device, devices, threads
    from mdtensor.api.frontends.axes.axis_reductions import (
        argmax,
        argmin,
        max,  # noqa: A004
        mean,
        min,  # noqa: A004
        prod,
        std,
        sum,  # noqa: A004
        var,
    )
    from mdtensor.api.frontends.axes.cross_entropy import cross_entropy
    from mdtensor.api.frontends.axes.normalisation import (
        layer_norm,
        log_softmax,
        logsumexp,
        rms_norm,
        softmax,
    )
    from mdtensor.api.frontends.axes.pooling import avg_pool, max_pool
    from mdtensor.api.frontends.convolution import conv, conv_capsule
    from mdtensor.api.frontends.correlation import convolve, correlate
    from mdtensor.api.frontends.einsum.einsum import einsum, einsum_path
    from mdtensor.api.frontends.einsum.products import dot, inner, matmul, outer, vdot
    from mdtensor.api.frontends.einsum.tensordot import tensordot
    from mdtensor.api.frontends.lazy.lazy import lazy
    from mdtensor.api.frontends.loops.dsl import inp_view, md_hom, out_view
    from mdtensor.api.frontends.loops.mdh import mdh
    from mdtensor.api.frontends.ndimage import ndimage
    from mdtensor.api.frontends.operators import cc, operator, ps, pw
    from mdtensor.api.frontends.reduce import reduce, scan
    from mdtensor.api.frontends.stencil import stencil
    from mdtensor.api.gradients.gradients import grad, value_and_grad, vjp
    from mdtensor.api.multi_device.sharded_array import ShardedArray, shard
    from mdtensor.api.plans.compile import compile  # noqa: A004
    from mdtensor.api.plans.plan import Plan
    from mdtensor.api.replacing import replacing
    from mdtensor.api.reports.report import report
    from mdtensor.api.result_memory import memory
    from mdtensor.api.streaming.stream_plan import stream
    from mdtensor.api.tuning.tune import tune
    from mdtensor.api.tuning.tuning_context import tuning

# Watches forks, which may come while a thread imports the rest.
importlib.import_module("mdtensor.forks")
# Watches torch.compile, which may trace the first call of all.
importlib.import_module("mdtensor.torch_compile")

__version__ = "0.1.0"

__all__ = [
    "Plan",
    "Ragged",
    "ShardedArray",
    "argmax",
    "argmin",
    "avg_pool",
    "cc",
    "compile",
    "conv",
    "conv_capsule",
    "convolve",
    "correlate",
    "cross_entropy",
    "device",
    "devices",
    "dot",
    "einsum",
    "einsum_path",
    "errors",
    "grad",
    "host",
    "inner",
    "inp_view",
    "layer_norm",
    "lazy",
    "log_softmax",
    "logsumexp",
    "matmul",
    "max",
    "max_pool",
    "md_hom",
    "mdh",
    "mean",
    "memory",
    "min",
    "ndimage",
    "operator",
    "out_view",
    "outer",
    "prod",
    "ps",
    "pw",
    "ragged",
    "reduce",
    "replacing",
    "report",
    "rms_norm",
    "scan",
    "shard",
    "softmax",
    "spec",
    "stats",
    "std",
    "stencil",
    "stream",
    "sum",
    "tensordot",
    "threads",
    "trace",
    "tune",
    "tuner",
    "tuning",
    "value_and_grad",
    "var",
    "vdot",
    "vjp",
]

_HOMES = {
    "Plan": "api.plans.plan",
    "Ragged": "api.arrays.ragged",
    "ShardedArray": "api.multi_device.sharded_array",
    "argmax": "api.frontends.axes.axis_reductions",
    "argmin": "api.frontends.axes.axis_reductions",
    "avg_pool": "api.frontends.axes.pooling",
    "cc": "api.frontends.operators",
    "compile": "api.plans.compile",
    "conv": "api.frontends.convolution",
    "conv_capsule": "api.frontends.convolution",
    "convolve": "api.frontends.correlation",
    "correlate": "api.frontends.correlation",
    "cross_entropy": "api.frontends.axes.cross_entropy",
    "device": "api.devices",
    "devices": "api.devices",
    "dot": "api.frontends.einsum.products",
    "einsum": "api.frontends.einsum.einsum",
    "einsum_path": "api.frontends.einsum.einsum",
    "errors": "errors",
    "grad": "api.gradients.gradients",
    "host": "host",
    "inner": "api.frontends.einsum.products",
    "inp_view": "api.frontends.loops.dsl",
    "jax": "jax",
    "layer_norm": "api.frontends.axes.normalisation",
    "lazy": "api.frontends.lazy.lazy",
    "log_softmax": "api.frontends.axes.normalisation",
    "logsumexp": "api.frontends.axes.normalisation",
    "matmul": "api.frontends.einsum.products",
    "max": "api.frontends.axes.axis_reductions",
    "max_pool": "api.frontends.axes.pooling",
    "md_hom": "api.frontends.loops.dsl",
    "mdh": "api.frontends.loops.mdh",
    "mean": "api.frontends.axes.axis_reductions",
    "memory": "api.result_memory",
    "min": "api.frontends.axes.axis_reductions",
    "ndimage": "api.frontends.ndimage.ndimage",
    "operator": "api.frontends.operators",
    "out_view": "api.frontends.loops.dsl",
    "outer": "api.frontends.einsum.products",
    "prod": "api.frontends.axes.axis_reductions",
    "ps": "api.frontends.operators",
    "pw": "api.frontends.operators",
    "ragged": "api.arrays.ragged",
    "reduce": "api.frontends.reduce",
    "replacing": "api.replacing",
    "report": "api.reports.report",
    "rms_norm": "api.frontends.axes.normalisation",
    "scan": "api.frontends.reduce",
    "shard": "api.multi_device.sharded_array",
    "softmax": "api.frontends.axes.normalisation",
    "spec": "api.arrays.array_spec",
    "stats": "api.calls.statistics",
    "std": "api.frontends.axes.axis_reductions",
    "stencil": "api.frontends.stencil",
    "stream": "api.streaming.stream_plan",
    "sum": "api.frontends.axes.axis_reductions",
    "tensordot": "api.frontends.einsum.tensordot",
    "threads": "api.devices",
    "torch": "torch",
    "trace": "api.calls.call_trace",
    "tune": "api.tuning.tune",
    "tuner": "tuner",
    "tuning": "api.tuning.tuning_context",
    "value_and_grad": "api.gradients.gradients",
    "var": "api.frontends.axes.axis_reductions",
    "vdot": "api.frontends.einsum.products",
    "vjp": "api.gradients.gradients",
}
_MODULES = ("errors", "host", "jax", "ndimage", "torch", "tuner")


def __getattr__(name: str) -> Any:
    """Loads a public name when it is first used, so that importing mdtensor costs little."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
