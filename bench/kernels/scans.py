"""Prefix sums: scan, and the bottom boxes of MBBS."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.kernels.kernel import Kernel, compiled_by_torch, tensor_of, whole, xla
from bench.workload import CALL, Arrays, Call
from mdtensor.specs import TensorSpec

STREAMING = 0.8


def scan(size: int, label: str, floor: float | None = None) -> Kernel:
    """The sums of all beginnings of a vector."""
    return Kernel(
        name=f"scan-add-{label}",
        formula="out[i] = Σ x[n] for n ≤ i",
        inputs=(TensorSpec.of((size,)),),
        outputs=(TensorSpec.of((size,)),),
        reduction=1,  # exact, since operands are whole numbers
        flops=size,
        exact=np.cumsum,
        says={
            "mdtensor": _scan_mdtensor,
            "numpy": _scan_numpy,
            "numba": _scan_numba,
            "torch": _scan_torch,
            "jax": _scan_jax,
        },
        draw=(whole,),
        floor=floor,
        limit_floor=STREAMING,
        shared=True,
    )


def _scan_mdtensor(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    import mdtensor as mdt

    function: Any = mdt.scan
    (x,), (out,) = operands, outs
    return {CALL: lambda: function("i->i", x, combine="add", out=out)}


def _scan_numpy(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    (x,), (out,) = operands, outs
    return {"cumsum": lambda: np.cumsum(x, out=out)}


def _scan_numba(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    from bench.kernels import loops

    return {"loop": lambda: loops.scan(*operands, *outs)}


def _scan_torch(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    torch: Any = importlib.import_module("torch")
    x, out = torch.from_dlpack(operands[0]), tensor_of(outs[0])
    calls: dict[str, Call] = {"cumsum": lambda: torch.cumsum(x, 0, out=out)}
    return calls | compiled_by_torch(lambda x: torch.cumsum(x, 0), x)


def _scan_jax(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    def associative_scan(x: Any) -> Any:
        jax: Any = importlib.import_module("jax")
        return jax.lax.associative_scan(jax.numpy.add, x)

    return {
        "cumsum": xla(lambda x: x.cumsum(), operands),
        "associative_scan": xla(associative_scan, operands),
    }


def mbbs(n: int, floor: float | None = None) -> Kernel:
    """Prefix sums of the sums of rows (003, listing 13)."""
    return Kernel(
        name=f"mbbs-{n}x{n}",
        formula="out[i] = Σ a[n, j] for n ≤ i and all j",
        inputs=(TensorSpec.of((n, n)),),
        outputs=(TensorSpec.of((n,)),),
        reduction=1,  # exact, since operands are whole numbers
        flops=n * n,
        exact=lambda a: np.cumsum(a.sum(axis=1)),
        says={
            "mdtensor": _mbbs_mdtensor,
            "numpy": _mbbs_numpy,
            "numba": _mbbs_numba,
            "torch": _mbbs_torch,
            "jax": _mbbs_jax,
        },
        draw=(whole,),
        floor=floor,
        limit_floor=STREAMING,
        shared=True,
    )


def _mbbs_mdtensor(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    import mdtensor as mdt

    reduce: Any = mdt.reduce
    (a,), (out,) = operands, outs
    combine = {"i": mdt.ps("add"), "j": "add"}
    return {CALL: lambda: reduce("ij->i", a, combine=combine, out=out)}


def _mbbs_numpy(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    (a,), (out,) = operands, outs
    ones = np.ones(a.shape[1], a.dtype)
    return {
        "sum, cumsum": lambda: np.cumsum(np.sum(a, axis=1, out=out), out=out),
        "matmul, cumsum": lambda: np.cumsum(np.matmul(a, ones, out=out), out=out),
    }


def _mbbs_numba(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    from bench.kernels import loops

    return {"prange": lambda: loops.mbbs(*operands, *outs)}


def _mbbs_torch(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    torch: Any = importlib.import_module("torch")
    a, out = torch.from_dlpack(operands[0]), tensor_of(outs[0])
    calls: dict[str, Call] = {"sum, cumsum": lambda: torch.cumsum(torch.sum(a, dim=1), 0, out=out)}
    return calls | compiled_by_torch(lambda a: torch.cumsum(torch.sum(a, dim=1), 0), a)


def _mbbs_jax(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    return {"sum, cumsum": xla(lambda a: a.sum(1).cumsum(), operands)}


SCANS = (scan(2**24, "2^24", floor=4.5), mbbs(4096, floor=1.0))
