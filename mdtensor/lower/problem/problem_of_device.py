"""(MDHom, Target) -> Problem: the problem of an MDHom, rewritten for one kind of device."""

from __future__ import annotations

from dataclasses import replace

from mdtensor.lower.pass_runner import Pass
from mdtensor.lower.problem.data_bounds import with_bounds
from mdtensor.lower.problem.pair_products import with_pairs
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.problem.widen_comparisons import with_compared_words
from mdtensor.specs import Target
from mdtensor.translate.md_hom import MDHom


def problem_of_device(md_hom: MDHom, target: Target) -> Problem:
    """The problem of an `md_hom` for a device; without tf32 rounding if it has no tensor cores.

    CPUs loop over data-dependent ranges. Tuples are narrowed; GPUs compare small integers as 32-bit
    words. Raises LoweringError where one kernel cannot compute it (see `problem_from_md_hom`).
    """
    problem = problem_from_md_hom(md_hom, units=target.kind == "cpu")
    if not target.matrices:
        problem = EXACT(problem)
    if target.kind == "cpu":
        problem = BOUND(problem)
    if target.pairs:
        problem = PAIR(problem)
    problem = NARROW(problem)
    return WIDEN(problem) if target.kind == "gpu" else problem


def _with_exact_factors(problem: Problem) -> Problem:
    scalar = problem.scalar.exact()
    return problem if scalar is problem.scalar else replace(problem, scalar=scalar)


def _with_narrow_places(problem: Problem) -> Problem:
    if problem.operator is None:
        return problem
    from mdtensor.lower.problem.narrow_tuples import with_narrow_places  # and exact fractions

    return with_narrow_places(problem)


EXACT = Pass("keep factors exact", _with_exact_factors)
BOUND = Pass("bound loops by data", with_bounds)
PAIR = Pass("multiply pairs", with_pairs)
NARROW = Pass("narrow tuples", _with_narrow_places)
WIDEN = Pass("widen comparisons", with_compared_words)
DEVICE_PASSES = (EXACT, BOUND, PAIR, NARROW, WIDEN)
