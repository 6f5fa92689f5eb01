"""Random cases of `tests.lower.fuzz` as LLVM IR, compiled and run against the oracle.

`python -m tests.lower.fuzz_llvm --count 500` runs random einsums in worker processes, with
`--md-homs` random md_homs: reductions by operators, stencils, scans, records. `--case 0/cpu/17`
runs one in this process. Each is compiled twice, optimised and in haste.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from mdtensor.backends.llvm.llvm_program import LLVMProgram
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.languages import Language
from mdtensor.kernels.llvm.language import LLVM_IR_FMA
from tests.lower.fuzz import check, describe, kind_said, names_of, random_case
from tests.lower.running import guarded_scratch
from tests.workers import REFUSED, RIGHT, Workers, parsed


@cache
def device(*, hasty: bool = False):
    from mdtensor.backends.llvm.llvm_device import LLVMDevice

    class Device(LLVMDevice):
        def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> LLVMProgram:
            return super().compile(replace(source, hasty=hasty), sizes)

    found = Device()
    found.scratch = partial(guarded_scratch, found)
    return found


def outcome(name: str, language: Language = LLVM_IR_FMA) -> str:
    """What comes of the case of a name; raises what its kernel raises."""
    case = random_case(name)
    devices = [partial(device, hasty=hasty) for hasty in (False, True)]
    return RIGHT if all(check(case, opened, language) for opened in devices) else REFUSED


WORKERS = Workers("tests.lower.fuzz_llvm", describe)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--md-homs", action="store_true", help="random md_homs, not einsums")
    kinds.add_argument("--transposed", action="store_true", help="results far apart along lanes")
    kinds.add_argument("--bfloats", action="store_true", help="einsums of bfloat16")
    kinds.add_argument("--pairs", action="store_true", help="products by AVX512-BF16")
    options = parsed(parser, outcome, describe)
    if options.case:
        print(describe(options.case))
        print(outcome(options.case))
        return 0
    names = names_of(options.seed, ("cpu",), options.count, options.first, kind_said(options))
    report = WORKERS.run(names, verbose=True)
    print(report)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
