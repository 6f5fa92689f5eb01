"""The named cases of bulk copies on a GPU of capability 9.0, against results in float64.

`python -m tests.lower.bulk_cuda`, with CuPy. Every case runs in a process of its own, which is
ended if it hangs: warps that wait for a signal that nobody sends wait for ever.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests import children

RUNS = 3
SECONDS = 60
_TOGETHER = 8
_EDGE = 4096  # bytes before and behind the result, which stay as they were
_LEFT = 0x5A


def cases() -> dict[str, Any]:
    """All named cases."""
    from tests.lower.codegen.tma import test_wgmma_loop, tma_convolutions

    products = {name: _Product(case) for name, case in test_wgmma_loop.CASES.items()}
    return products | tma_convolutions.CASES


class _Product:
    """An einsum, with what a convolution has too."""

    def __init__(self, case: Any) -> None:
        self.problem, self.schedule, self._einsum = case.problem, case.schedule, case.einsum
        self.inputs = [operand.spec for operand in case.einsum.operands]
        self.result = case.einsum.out.spec.dtype
        self.precision = case.einsum.precision

    def exact(self, xp: Any, arrays: Sequence[Any]) -> Any:
        return xp.einsum(self._einsum.text, *(array.astype("f8") for array in arrays))


def check(name: str) -> float:
    """The largest difference of a case, relative to what its type and length allow."""
    import cupy
    import ml_dtypes  # noqa: F401  # gives NumPy the name bfloat16
    import numpy as np

    from mdtensor.backends.cuda.cupy_device import open_device
    from mdtensor.kernels.cuda import CUDA
    from mdtensor.kernels.program import program_of

    case = cases()[name]
    problem = case.problem()
    source = program_of(problem, case.schedule, CUDA)
    program = open_device(0).compile(source)
    generator = cupy.random.default_rng(len(name))
    worst = 0.0
    for _ in range(RUNS):
        arrays = [
            (generator.random(spec.shape, np.float32) * 2 - 1).astype(spec.dtype)
            for spec in case.inputs
        ]
        exact = case.exact(cupy, arrays)
        nbytes = exact.size * case.result.itemsize
        memory = cupy.full(nbytes + 2 * _EDGE, _LEFT, "u1")
        out = memory[_EDGE : _EDGE + nbytes].view(case.result).reshape(exact.shape)
        out.fill(np.nan)
        program(*arrays, out)
        cupy.cuda.get_current_stream().synchronize()
        length = math.prod(problem.extent(d) for d in problem.contracted)
        eps = {"float16": 2.0**-11, "float32": 1e-6}.get(case.result.name, 2.0**-8)
        # Both factors are rounded by at most 2^-11; what is left grows as a random walk does.
        factors = 2.0**-10 if case.precision else 1e-6
        allowed = eps * cupy.abs(exact) + factors * max(1.0, length) ** 0.5 + 1e-3 * (eps > 1e-4)
        difference = cupy.abs(out.astype("f8") - exact) / allowed
        worst = max(worst, float(cupy.where(cupy.isnan(difference), np.inf, difference).max()))
        edges = cupy.concatenate((memory[:_EDGE], memory[-_EDGE:]))
        if not bool((edges == _LEFT).all()):
            return float("inf")
    return worst


def outcome(name: str) -> tuple[str, bool, str]:
    """The name of a case, whether it is right, and what its process said."""
    try:
        end = children.run("-m", "tests.lower.bulk_cuda", name, limit_s=SECONDS, code=None)
    except children.ChildError:
        return name, False, "hangs"
    lines = (end.out + end.err).strip().splitlines() or [""]
    return name, end.code == 0, lines[-1]


def main() -> int:
    """Runs the cases; 1 where one is wrong."""
    if len(sys.argv) > 1:
        worst = check(sys.argv[1])
        print(f"{worst:.3f} of what is allowed")
        return int(not worst <= 1)
    with ThreadPoolExecutor(_TOGETHER) as pool:
        found = list(pool.map(outcome, cases()))
    for name, right, said in found:
        print(f"{'right' if right else 'WRONG'}: {name}: {said}", flush=True)
    wrong = sum(not right for _, right, _ in found)
    print(f"{len(found)} cases, {wrong} wrong", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
