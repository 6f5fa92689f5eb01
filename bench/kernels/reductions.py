"""Reductions by other operators than addition, and several at once."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.kernels.kernel import Kernel, compiled_by_torch, normal, tensor_of, whole, xla
from bench.workload import CALL, Arrays, Call, Outs
from mdtensor.specs import TensorSpec

STREAMING = 0.8
# Logarithms of probabilities lie this far apart; products of exponentials would underflow.
LOG_SCALE = 40.0


def histogram(size: int, bins: int, dtype: str, label: str, floor: float | None = None) -> Kernel:
    """How often each value occurs among elements that are numbers of bins."""

    def elements(generator: np.random.Generator, spec: TensorSpec) -> np.ndarray:
        return generator.integers(0, bins, spec.shape)

    def mdtensor(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
        import mdtensor as mdt

        reduce: Any = mdt.reduce
        (out,) = outs
        said = {"f": _counts, "extents": {"b": bins}, "out": out}
        return {CALL: lambda: reduce("e->b", *operands, **said)}

    def numpy(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
        values = operands[0]
        return {
            "bincount": lambda: np.bincount(values, minlength=bins),
            "histogram": lambda: np.histogram(values, bins, (0, bins))[0],
        }

    def numba(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
        from bench.kernels import loops

        parts: int = importlib.import_module("numba").get_num_threads()
        return {"prange": lambda: loops.histogram(operands[0], bins, parts, *outs)}

    def torch(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
        module: Any = importlib.import_module("torch")
        values = module.from_dlpack(operands[0])
        calls: dict[str, Call] = {"bincount": lambda: module.bincount(values, minlength=bins)}
        if values.is_cuda:
            calls["histc"] = lambda: module.histc(values, bins, 0, bins - 1)
        return calls

    def jax(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
        def counted(values: Any) -> Any:
            return importlib.import_module("jax.numpy").bincount(values, length=bins)

        return {"bincount": xla(counted, operands[:1])}

    return Kernel(
        name=f"histogram-{label}x{bins}-{dtype}",
        formula="out[b] = number of e with elements[e] = b",
        inputs=(TensorSpec.of((size,), dtype),),
        outputs=(TensorSpec.of((bins,), "int64"),),
        reduction=size,
        flops=size,
        exact=lambda values: np.bincount(values, minlength=bins),
        says={"mdtensor": mdtensor, "numpy": numpy, "numba": numba, "torch": torch, "jax": jax},
        draw=(elements,),
        floor=floor,
        shared=True,
    )


def _counts(element: Any, *, b: Any) -> Any:
    return 1 if element == b else 0


def min_plus(n: int, floor: float | None = None) -> Kernel:
    """A product of matrices in the semiring of shortest paths."""
    return Kernel(
        name=f"min-plus-{n}x{n}x{n}",
        formula="out[i, k] = min over j of a[i, j] + b[j, k]",
        inputs=(TensorSpec.of((n, n)),) * 2,
        outputs=(TensorSpec.of((n, n)),),
        reduction=1,
        flops=2 * n**3,
        exact=lambda a, b: np.stack([np.min(row[:, None] + b, 0) for row in a]),
        says={
            "mdtensor": _min_plus_mdtensor,
            "numpy": _min_plus_numpy,
            "numba": _min_plus_numba,
            "torch": _min_plus_torch,
            "jax": _min_plus_jax,
        },
        fillers=("numba", "numpy", "scipy", "torch"),
        floor=floor,
    )


def _min_plus_mdtensor(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    import mdtensor as mdt

    einsum: Any = mdt.einsum
    (out,) = outs
    return {CALL: lambda: einsum("ij,jk->ik", *operands, semiring="min_plus", out=out)}


def _min_plus_numpy(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    (a, b), (out,) = operands, outs
    sums = np.empty_like(b)

    def rows() -> np.ndarray:
        for row, result in zip(a, out, strict=True):
            np.min(np.add(row[:, None], b, out=sums), axis=0, out=result)
        return out

    def columns() -> np.ndarray:
        np.add(a[:, :1], b[:1], out=out)
        for j in range(1, b.shape[0]):
            np.minimum(out, np.add(a[:, j : j + 1], b[j : j + 1], out=sums), out=out)
        return out

    return {"rows": rows, "columns": columns} if a.shape == b.shape else {"rows": rows}


def _min_plus_numba(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    from bench.kernels import loops

    return {"prange": lambda: loops.min_plus(*operands, *outs)}


def _min_plus_torch(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    torch: Any = importlib.import_module("torch")
    a, b = (torch.from_dlpack(operand) for operand in operands)
    out = torch.from_dlpack(outs[0])

    def blocks(size: int) -> Any:
        for start in range(0, a.shape[0], size):
            some = slice(start, start + size)
            torch.amin(a[some, :, None] + b, dim=1, out=out[some])
        return out

    return {
        "rows": lambda: blocks(1),
        "blocks of 16 rows": lambda: blocks(16),
        **compiled_by_torch(lambda a, b: (a[:, :, None] + b).amin(1), a, b),
    }


def _min_plus_jax(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    return {"broadcast": xla(lambda a, b: (a[:, :, None] + b[None]).min(1), operands)}


def log_sum_exp(n: int, floor: float | None = None) -> Kernel:
    """A product of matrices of logarithms, as in hidden Markov models.

    The elements lie so far apart that exponentials of sums have to be scaled one by one:
    exp(a - max) @ exp(b - max) would lose them.
    """

    def logarithms(generator: np.random.Generator, spec: TensorSpec) -> np.ndarray:
        return normal(generator, spec) * np.float32(LOG_SCALE)

    return Kernel(
        name=f"logsumexp-{n}x{n}x{n}",
        formula="out[i, k] = log Σ exp(a[i, j] + b[j, k])",
        inputs=(TensorSpec.of((n, n)),) * 2,
        outputs=(TensorSpec.of((n, n)),),
        reduction=n,
        flops=2 * n**3,
        exact=lambda a, b: np.stack([np.logaddexp.reduce(row[:, None] + b, 0) for row in a]),
        says={
            "mdtensor": _log_sum_exp_mdtensor,
            "numpy": _log_sum_exp_numpy,
            "scipy": _log_sum_exp_scipy,
            "numba": _log_sum_exp_numba,
            "torch": _log_sum_exp_torch,
            "jax": _log_sum_exp_jax,
        },
        draw=(logarithms, logarithms),
        fillers=("numba", "numpy", "scipy", "torch"),
        floor=floor,
    )


def _log_sum_exp_mdtensor(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    import mdtensor as mdt

    einsum: Any = mdt.einsum
    (out,) = outs
    return {CALL: lambda: einsum("ij,jk->ik", *operands, semiring="logsumexp", out=out)}


def _log_sum_exp_numpy(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    (a, b), (out,) = operands, outs
    sums = np.empty_like(b)

    def rows() -> np.ndarray:
        for row, result in zip(a, out, strict=True):
            np.add(row[:, None], b, out=sums)
            most = sums.max(axis=0)
            np.exp(np.subtract(sums, most, out=sums), out=sums)
            np.add(np.log(sums.sum(axis=0)), most, out=result)
        return out

    return {"rows": rows}


def _log_sum_exp_scipy(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    special: Any = importlib.import_module("scipy.special")
    (a, b), (out,) = operands, outs

    def rows() -> np.ndarray:
        for row, result in zip(a, out, strict=True):
            result[...] = special.logsumexp(row[:, None] + b, axis=0)
        return out

    return {"rows": rows}


def _log_sum_exp_numba(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    from bench.kernels import loops

    return {"prange": lambda: loops.log_sum_exp(*operands, *outs)}


def _log_sum_exp_torch(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    torch: Any = importlib.import_module("torch")
    a, b = (torch.from_dlpack(operand) for operand in operands)
    out = torch.from_dlpack(outs[0])

    def blocks(size: int) -> Any:
        for start in range(0, a.shape[0], size):
            some = slice(start, start + size)
            torch.logsumexp(a[some, :, None] + b, dim=1, out=out[some])
        return out

    return {
        "rows": lambda: blocks(1),
        "blocks of 16 rows": lambda: blocks(16),
        **compiled_by_torch(lambda a, b: torch.logsumexp(a[:, :, None] + b, dim=1), a, b),
    }


def _log_sum_exp_jax(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    def broadcast(a: Any, b: Any) -> Any:
        special: Any = importlib.import_module("jax.scipy.special")
        return special.logsumexp(a[:, :, None] + b[None], axis=1)

    return {"broadcast": xla(broadcast, operands)}


def argmax_rows(n: int, floor: float | None = None) -> Kernel:
    """Where the largest element of each row is."""
    return Kernel(
        name=f"argmax-rows-{n}x{n}",
        formula="out[i] = the least j with a[i, j] = max over j of a[i, j]",
        inputs=(TensorSpec.of((n, n)),),
        outputs=(TensorSpec.of((n,), "int64"),),
        reduction=n,
        flops=n * n,
        exact=lambda a: np.argmax(a, axis=1),
        says={
            "mdtensor": _argmax_mdtensor,
            "numpy": _argmax_numpy,
            "numba": _argmax_numba,
            "torch": _argmax_torch,
            "jax": _argmax_jax,
        },
        floor=floor,
        limit_floor=STREAMING,
        shared=True,
    )


def _argmax_mdtensor(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    import mdtensor as mdt

    reduce: Any = mdt.reduce
    (a,), (out,) = operands, outs
    return {CALL: lambda: reduce("ij->i", a, combine="argmax", out=out)}


def _argmax_numpy(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    (a,), (out,) = operands, outs
    return {"argmax": lambda: np.argmax(a, axis=1, out=out)}


def _argmax_numba(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    from bench.kernels import loops

    (a,), (out,) = operands, outs
    return {
        "prange": lambda: loops.argmax_rows(a, out),
        "prange, two passes": lambda: loops.argmax_rows_in_two_passes(a, out),
    }


def _argmax_torch(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    torch: Any = importlib.import_module("torch")
    a, out = torch.from_dlpack(operands[0]), tensor_of(outs[0])
    return {
        "argmax": lambda: torch.argmax(a, dim=1, out=out),
        "max": lambda: torch.max(a, dim=1).indices,
        **compiled_by_torch(lambda a: torch.argmax(a, dim=1), a),
    }


def _argmax_jax(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    return {"argmax": xla(lambda a: a.argmax(1), operands)}


def double_reduction(size: int, label: str, floor: float | None = None) -> Kernel:
    """The sum and the maximum of the same elements."""
    return Kernel(
        name=f"double-reduction-{label}",
        formula="(Σ x[i], max over i of x[i])",
        inputs=(TensorSpec.of((size,)),),
        outputs=(TensorSpec.of(()), TensorSpec.of(())),
        reduction=1,  # exact, since operands are whole numbers
        flops=2 * size,
        exact=lambda x: (np.asarray(x.sum()), np.asarray(x.max())),
        says={
            "mdtensor": _double_mdtensor,
            "numpy": _double_numpy,
            "numba": _double_numba,
            "torch": _double_torch,
            "jax": _double_jax,
        },
        draw=(whole,),
        floor=floor,
        limit_floor=STREAMING,
        shared=True,
    )


def _twice(x: Any) -> Any:
    return x, x


def _sum_and_max(lhs: Any, rhs: Any) -> Any:
    return lhs[0] + rhs[0], max(lhs[1], rhs[1])


def _double_mdtensor(operands: list[np.ndarray], outs: Outs) -> Mapping[str, Call]:
    import mdtensor as mdt

    reduce: Any = mdt.reduce
    (x,) = operands
    out = None if outs[0] is None else outs
    options = {"f": _twice, "combine": _sum_and_max, "identity": (0.0, -np.inf)}
    return {CALL: lambda: reduce("i->", x, **options, out=out)}


def _double_numpy(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    (x,) = operands
    return {"sum, max": lambda: (np.sum(x), np.max(x))}


def _double_numba(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    from bench.kernels import loops

    return {"prange": lambda: loops.sum_and_max(*operands)}


def _double_torch(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    torch: Any = importlib.import_module("torch")
    x = torch.from_dlpack(operands[0])
    calls: dict[str, Call] = {"sum, max": lambda: (torch.sum(x), torch.max(x))}
    return calls | compiled_by_torch(lambda x: (torch.sum(x), torch.max(x)), x)


def _double_jax(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    return {"sum, max": xla(lambda x: (x.sum(), x.max()), operands)}


REDUCTIONS = (
    histogram(2**24, 256, "int32", "2^24", floor=1.0),
    histogram(2**24, 256, "uint8", "2^24", floor=1.0),
    min_plus(1024, floor=1.6),
    log_sum_exp(512, floor=2.0),
    argmax_rows(4096, floor=2.0),
    double_reduction(2**24, "2^24"),
)
