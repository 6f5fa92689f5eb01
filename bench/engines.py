"""mdtensor and its peers: the ways in which each of them can say a case.

Every way is a call without arguments on arrays that stay the same, and writes into a result that
was allocated before where its library allows that; without one, it makes its own. Libraries are
imported when an engine is made.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.kernels.kernel import Kernel, tensor_of, xla
from bench.workload import PLAN, Call, Outs, Workload
from bench.workloads import Contraction

# With more operations, NumPy's einsum without a path takes too long to be waited for.
PLAIN_EINSUM = 100_000_000


class Library:
    """A library that can compute cases.

    `word` is what cases call it by, `packages` are the distributions whose versions belong into a
    result.
    """

    word: str
    packages: tuple[str, ...]

    def calls(
        self, workload: Workload, operands: list[np.ndarray], outs: Outs
    ) -> Mapping[str, Call]:
        """The ways to compute a case, by name; each returns its results."""
        if isinstance(workload, Contraction):
            return self.contraction(workload, operands, outs[0])
        assert isinstance(workload, Kernel)
        return workload.calls(self.word, operands, outs)

    def contraction(
        self, workload: Contraction, operands: list[np.ndarray], out: np.ndarray | None
    ) -> Mapping[str, Call]:
        """The ways to compute a contraction."""
        raise NotImplementedError(f"{self.word} computes no contractions")


class NumPy(Library):
    """The best of dot, matmul, tensordot and einsum; plain einsum too where that is feasible."""

    word = "numpy"
    packages = ("numpy",)

    def contraction(
        self, workload: Contraction, operands: list[np.ndarray], out: np.ndarray | None
    ) -> Mapping[str, Call]:
        text, (a, b) = workload.subscripts, operands
        calls: dict[str, Call] = {
            "einsum optimize": lambda: np.einsum(text, a, b, out=out, optimize=True)
        }
        if workload.flops <= PLAIN_EINSUM:
            calls["einsum"] = lambda: np.einsum(text, a, b, out=out)
        if factors := matrix_factors(workload, operands):
            left, right = factors
            calls["matmul"] = lambda: np.matmul(left, right, out=out)
            if left.ndim <= 2:
                calls["dot"] = lambda: np.dot(left, right, out=out)
        else:
            sums = [i for i in workload.terms[0] if i not in workload.output]
            first, second = ([term.index(i) for i in sums] for term in workload.terms)
            axes = (first, second)
            left_over = [i for term in workload.terms for i in term if i in workload.output]
            order = [left_over.index(i) for i in workload.output]

            def tensordot() -> np.ndarray:
                product: np.ndarray = np.tensordot(a, b, axes).transpose(order)
                if out is None:
                    return product
                np.copyto(out, product)
                return out

            calls["tensordot"] = tensordot
        return calls


class OptEinsum(Library):
    """opt_einsum on NumPy: a call, and an expression that was made before."""

    word = "opt_einsum"
    packages = ("opt_einsum", "numpy")

    def contraction(
        self, workload: Contraction, operands: list[np.ndarray], out: np.ndarray | None
    ) -> Mapping[str, Call]:
        import opt_einsum

        text, (a, b) = workload.subscripts, operands
        expression: Any = opt_einsum.contract_expression(text, a.shape, b.shape)
        # It cannot write into an array without dims.
        into: dict[str, Any] = {"out": out} if out is not None and out.ndim else {}
        return {
            "contract": lambda: opt_einsum.contract(text, a, b, **into),
            "expression": lambda: expression(a, b, **into),
        }


class Torch(Library):
    """torch on the CPU, without gradients: einsum, and the product that fits, into `out`."""

    word = "torch"
    packages = ("torch",)

    def __init__(self) -> None:
        self.torch: Any = importlib.import_module("torch")
        # As a context around each call it would cost small shapes a microsecond.
        self.torch.inference_mode().__enter__()

    def contraction(
        self, workload: Contraction, operands: list[np.ndarray], out: np.ndarray | None
    ) -> Mapping[str, Call]:
        torch = self.torch
        text = workload.subscripts
        a, b = (torch.from_dlpack(operand) for operand in operands)
        calls: dict[str, Call] = {"einsum": lambda: torch.einsum(text, a, b)}
        if factors := matrix_factors(workload, [a, b]):
            left, right = factors
            result = tensor_of(out)
            calls["matmul"] = lambda: torch.matmul(left, right, out=result)
            special = {(1, 1): torch.dot, (2, 1): torch.mv, (2, 2): torch.mm, (3, 3): torch.bmm}
            if function := special.get((left.ndim, right.ndim)):
                calls[function.__name__] = lambda: function(left, right, out=result)
        return calls


class TorchOneThread(Torch):
    """torch with one thread, which is faster where waking others takes longer than the work."""

    def __init__(self) -> None:
        super().__init__()
        self.torch.set_num_threads(1)


class SciPy(Library):
    """scipy.ndimage and scipy.signal."""

    word = "scipy"
    packages = ("scipy",)


class Numba(Library):
    """Loops compiled by numba, parallel and with fast mathematics."""

    word = "numba"
    packages = ("numba", "llvmlite")

    def __init__(self) -> None:
        importlib.import_module("numba")


class Jax(Library):
    """Functions compiled by XLA for the CPU."""

    word = "jax"
    packages = ("jax", "jaxlib")

    def __init__(self) -> None:
        importlib.import_module("jax")

    def contraction(
        self, workload: Contraction, operands: list[np.ndarray], out: np.ndarray | None
    ) -> Mapping[str, Call]:
        einsum: Any = importlib.import_module("jax.numpy").einsum
        return {"einsum": xla(functools.partial(einsum, workload.subscripts), operands)}


class Tuned(Library):
    """mdtensor: a plan with `out`, and the calls of a user who keeps no plan."""

    word = "mdtensor"
    packages = ("mdtensor", "llvmlite", "pyopencl", "intel-opencl-rt", "numpy")

    def contraction(
        self, workload: Contraction, operands: list[np.ndarray], out: np.ndarray | None
    ) -> Mapping[str, Call]:
        return _plan_and_calls(workload, operands, out)


class Untuned(Library):
    """mdtensor as it is on shapes that nobody tuned; the whole process ignores the store."""

    word = "mdtensor"
    packages = ("mdtensor",)

    def __init__(self) -> None:
        import mdtensor

        self._off: Any = mdtensor.tuning("off")
        self._off.__enter__()

    def contraction(
        self, workload: Contraction, operands: list[np.ndarray], out: np.ndarray | None
    ) -> Mapping[str, Call]:
        return _plan_and_calls(workload, operands, out)


def _plan_and_calls(
    workload: Contraction, operands: list[np.ndarray], out: np.ndarray | None
) -> Mapping[str, Call]:
    import mdtensor

    text, (a, b) = workload.subscripts, operands
    plan: Any = mdtensor.compile(text, a, b)
    einsum: Any = mdtensor.einsum
    return {
        PLAN: lambda: plan(a, b, out=out),
        "einsum": lambda: einsum(text, a, b),
        "einsum out": lambda: einsum(text, a, b, out=out),
    }


OURS = "mdtensor"
UNTUNED = "mdtensor untuned"
ONE_THREAD = "torch 1 thread"
ENGINES: Mapping[str, type[Library]] = {
    OURS: Tuned,
    UNTUNED: Untuned,
    "numpy": NumPy,
    "scipy": SciPy,
    "opt_einsum": OptEinsum,
    "numba": Numba,
    "torch": Torch,
    ONE_THREAD: TorchOneThread,
    "jax": Jax,
}
# These set what holds for a whole process, so they can share theirs with nobody.
SOLITARY = (UNTUNED, ONE_THREAD)


def engines_for(*workloads: Workload) -> tuple[str, ...]:
    """The engines that can say one of these cases."""
    words = {word for workload in workloads for word in workload.words}
    return tuple(name for name, engine in ENGINES.items() if engine.word in words)


def matrix_factors(workload: Contraction, operands: list[Any]) -> tuple[Any, Any] | None:
    """Two arrays whose `matmul` is the case, or None where it is no product of matrices.

    `operands` are arrays of NumPy or torch; transposed ones are views.
    """
    a, b = operands
    (left, right), out = workload.terms, workload.output
    for first, second, x, y in ((left, right, a, b), (right, left, b, a)):
        batch = out[:-2]
        rows = [i for i in first if i in out and i not in second]
        columns = [i for i in second if i in out and i not in first]
        sums = [i for i in first if i not in out]
        if len(rows) > 1 or len(columns) > 1 or len(sums) != 1 or len(first) - len(batch) > 2:
            continue
        if out != batch + "".join([*rows, *columns]):
            continue
        wanted = batch + "".join([*rows, *sums]), batch + "".join([*sums, *columns])
        if sorted(wanted[0]) == sorted(first) and sorted(wanted[1]) == sorted(second):
            return _arranged(x, first, wanted[0]), _arranged(y, second, wanted[1])
    return None


def _arranged(array: Any, term: str, wanted: str) -> Any:
    if term == wanted:
        return array
    axes = [term.index(i) for i in wanted]
    permuted: Any = array.permute if hasattr(array, "permute") else array.transpose
    return permuted(axes)


def versions(engine: Library) -> dict[str, str]:
    """The versions of an engine's packages, as far as they are installed."""
    found: dict[str, str] = {}
    for package in engine.packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            if package == "mdtensor":
                import mdtensor

                found[package] = mdtensor.__version__
    return found
