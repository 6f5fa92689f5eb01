"""Digests of kernels, rankings and spaces: what a change of structure must not change.

`python -m tests.lower.program_digests > before.txt`, and again after the change: the same lines.
Each says what it is of: candidates with their estimates on a GPU, a schedule as a configuration of
the search space, or the text of a program in a language. No device is needed.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator

from bench.families import EINSUM, FAMILIES
from bench.workloads import Contraction
from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.languages import Language
from mdtensor.kernels.llvm.language import LLVM_IR
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import broken_rule, estimated, ranked
from mdtensor.lower.search.schedule_space import configuration_from
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from tests.lower.checker.pairs import FAMILIES as PAIRS
from tests.lower.checker.pairs import pair_of, subject_of, without_schedule
from tests.lower.fuzz_cuda import drawn
from tests.lower.gpu.space.test_gpu_space import OF_KINDS, WITH_MATRICES
from tests.targets import CPU

FIRST, SPACED, DRAWN = 2, 6, 2  # of the ranked candidates, and from the space
OF_A_FAMILY = 16  # random pairs of a problem and a schedule


def digest(value: object) -> str:
    """Sixteen digits that tell values with different texts apart."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def program(problem: Problem, schedule: Schedule, language: Language) -> str:
    """The digest of a program, or why there is none."""
    try:
        return digest(program_of(problem, schedule, language, "of a digest"))
    except LoweringError as error:
        return f"refused {digest(str(error))}"


def of_kinds() -> Iterator[str]:
    """Lines for problems of every kind: the ranking, and some schedules as programs."""
    problems = dict(OF_KINDS)
    for case in FAMILIES[EINSUM]:
        if isinstance(case, Contraction):
            specs = [TensorSpec.of(shape, case.dtype) for shape in case.shapes]
            problems[case.name] = problem_from_md_hom(md_hom_from_einsum(case.subscripts, specs))
    for name, problem in problems.items():
        few = ranked(problem, WITH_MATRICES, most=FIRST)
        yield f"{name}: first on a GPU {digest(few)}"
        if name not in OF_KINDS:
            yield f"{name}: first on a CPU {digest(ranked(problem, CPU, most=FIRST))}"
            continue
        pairs = ranked(problem, WITH_MATRICES)
        yield f"{name}: all {len(pairs)} on a GPU {digest(pairs)}"
        found = [schedule for _, schedule in pairs]
        chosen = [*found[:FIRST], *found[:: -(-len(found) // SPACED)]]
        rng = random.Random(name)
        chosen += [drawn(problem, WITH_MATRICES, rng) for _ in range(DRAWN)]
        for number, schedule in enumerate(chosen):
            place = configuration_from(problem, schedule)
            seconds = estimated(problem, schedule, WITH_MATRICES)
            yield f"{name}: configuration {number} {digest(place)} {seconds.hex()}"
            yield f"{name}: CUDA {number} {program(problem, schedule, CUDA)}"


def of_pairs() -> Iterator[str]:
    """Lines for random problems with random schedules, in all languages."""
    for family in PAIRS:
        for number in range(OF_A_FAMILY):
            recipe = pair_of(f"digest/{family}/{number}")
            problem = subject_of(without_schedule(recipe)).problem
            on_gpu = family.startswith("gpu")
            target = WITH_MATRICES if on_gpu else CPU
            languages = {"CUDA": CUDA} if on_gpu else {"OpenCL": OPENCL, "LLVM": LLVM_IR}
            name = f"{family}/{number}"
            if not problem.is_general:
                yield f"{name}: rule {digest(broken_rule(problem, recipe.schedule, target))}"
            for language, of in languages.items():
                yield f"{name}: {language} {program(problem, recipe.schedule, of)}"


if __name__ == "__main__":
    for line in itertools.chain(of_kinds(), of_pairs()):
        print(line, flush=True)
