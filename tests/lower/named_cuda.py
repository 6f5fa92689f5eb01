"""The named cases of resident schedules, of points and of matrices, as CUDA, against the oracle.

`python -m tests.lower.named_cuda`, with CuPy and a GPU. What work-items copy without waiting is
there when they read it only if they wait: a CPU, which copies at once, cannot tell.
"""

from __future__ import annotations

import sys

from mdtensor.kernels.cuda import CUDA
from tests.lower import fuzz
from tests.lower.codegen.base.test_early_tiles import CASES as EARLY
from tests.lower.codegen.groups.test_cluster_reduction import CASES as CLUSTERS
from tests.lower.codegen.register_blocking.test_register_blocking import CASES as RESIDENT
from tests.lower.codegen.register_blocking.test_tensor_core_tile import CASES as MATRICES
from tests.lower.codegen.register_blocking.test_tensor_core_tile import TF32
from tests.lower.codegen.streaming.test_pointwise import CASES as POINTS
from tests.lower.codegen.test_matrices_of_doubles import CASES as DOUBLES
from tests.lower.fuzz_cuda import gpu
from tests.lower.running import MismatchError

RUNS = 3


def main() -> int:
    """Runs the cases; 1 where one is wrong."""
    wrong = 0
    cases = [*RESIDENT.items()]
    kinds = {"points": POINTS, "matrices": MATRICES, "tf32": TF32, "clusters": CLUSTERS}
    kinds |= {"float64": DOUBLES, "early tiles": EARLY}
    for kind, named in kinds.items():
        cases += [(f"{kind}: {name}", case) for name, case in named.items()]
    for name, case in cases:
        try:
            done = [fuzz.check(case, gpu, CUDA) for _ in range(RUNS)]
            print(f"{name}: {'right' if all(done) else 'refused'}", flush=True)
        except MismatchError as error:
            wrong += 1
            print(f"{name}: {error}", flush=True)
    print(f"{len(cases)} cases, {wrong} wrong", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
