"""Random (einsum, dtype, layout, schedule) quadruples: kernels against the oracle.

`python -m tests.lower.fuzz --count 5000` runs them in worker processes, so that a kernel that
crashes or hangs is a failing case like any other. A case is its seed and number: `--case 0/cpu/17`
runs one in this process, and with `--shrink` makes a smaller one that fails as it does, a line for
`--replay`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.kernels.dialect import Dialect
from mdtensor.kernels.languages import Language
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.pair_products import with_pairs
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.rules.row_stores import rows_across
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import kind_of
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program, Step
from mdtensor.translate.reference import run
from tests.lower.md_hom_cases import MDHomCase, check_md_hom, random_md_hom_case
from tests.lower.random_problems import (
    Einsum,
    Operand,
    Placed,
    element_values,
    of_bfloats,
    random_einsum,
)
from tests.lower.random_schedules import broken, random_schedule
from tests.lower.running import (
    MismatchError,
    compare,
    device,
    launch_sizes,
    run_on_guarded_memory,
)
from tests.workers import REFUSED, RIGHT, Workers, parsed

FAMILIES = ("cpu", "gpu")
# What names of such cases end with: of random md_homs, of einsums whose results lie far apart along
# the lanes, in tiles that are transposed where they have rows that are neighbours, and of einsums
# of bfloat16: some of whose operands or results are float32 or float64, or which are added up by
# pairs, as LLVM does on some processors.
MD_HOM, TRANSPOSED, BFLOATS, PAIRS = "/md_hom", "/transposed", "/bfloats", "/pairs"


@dataclass(frozen=True)
class Case:
    """A quadruple; in a `general` one, extents and strides are run-time sizes.

    `pairs` says that products are added up by twos (see `lower.problem.pair_products`).
    """

    einsum: Einsum
    schedule: Schedule
    general: bool = False
    seed: int = 0
    pairs: bool = False

    def md_hom(self) -> MDHom:
        return self.einsum.md_hom()

    @property
    def stages(self) -> tuple[Step, ...]:
        return Program.of(self.md_hom()).steps

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return (self.schedule,)

    def problems(self) -> list[Problem]:
        return [self.problem()]

    def problem(self) -> Problem:
        return generalised(self.fixed())[0] if self.general else self.fixed()

    def fixed(self) -> Problem:
        """The problem with extents and strides as numbers."""
        problem = problem_from_md_hom(self.einsum.md_hom())
        return with_pairs(problem) if self.pairs else problem

    @property
    def has_pairs(self) -> bool:
        return self.fixed() != replace(self, pairs=False).fixed()


def random_case(name: str) -> Case | MDHomCase:
    """The case of a name: seed, family, number, and a kind, as "md_hom" where it is no einsum."""
    return random_md_hom_case(name) if name.endswith(MD_HOM) else random_einsum_case(name)


def random_einsum_case(name: str) -> Case:
    """The case of a name such as "0/cpu/17": seed, family, number."""
    rng = random.Random(name)
    family = name.split("/")[1]
    case, far = _einsum_case(rng, family, is_short=name.endswith(BFLOATS)), list[int]()
    while name.endswith(PAIRS) and not case.has_pairs:
        case = replace(_einsum_case(rng, family, is_short=True), pairs=True)
    while name.endswith(TRANSPOSED) and not far:
        case = _einsum_case(rng, family)
        far = [d for d in case.problem().kept if rows_across(case.problem(), d)]
    schedule = random_schedule(rng, case.problem(), family, lanes=far)
    if rng.random() < 0.05:
        schedule = broken(rng, schedule)
    return replace(case, schedule=schedule)


def _einsum_case(rng: random.Random, family: str, *, is_short: bool = False) -> Case:
    einsum, general = random_einsum(rng), rng.random() < 0.25
    if is_short:
        einsum = of_bfloats(rng, einsum)
    return Case(einsum, Schedule(family, *[()] * 4, -1, 1, *[()] * 4), general, rng.getrandbits(32))


def check(case: Case | MDHomCase, on=device, dialect: Language = OPENCL) -> bool:
    """Runs a case; False where the schedule does not fit the problem. Raises MismatchError.

    `on()` is the device, which speaks `dialect`; its programs take NumPy arrays.
    """
    if isinstance(case, MDHomCase):
        return check_md_hom(case, on, dialect)
    problem = case.problem()
    schedule = case.schedule
    try:
        source = program_of(problem, schedule, dialect)
    except LoweringError:
        return False
    program = on().compile(source, run_time_sizes(case))
    tf32 = isinstance(dialect, Dialect) and dialect.matrix_functions != ""
    check_program(program, case.einsum, case.seed, tf32=tf32)
    for other in other_shapes(case) if case.general else ():
        bound = program.bound(run_time_sizes(other))
        check_program(bound, other.einsum, case.seed)
    return True


def run_time_sizes(case: Case) -> tuple[int, ...]:
    """The sizes of a general program, in the order of their names; none for other programs."""
    if not case.general:
        return ()
    return launch_sizes(case.fixed(), case.schedule, case.seed)


def other_shapes(case: Case) -> Iterator[Case]:
    """The case with other extents, where they have the same structure."""
    rng = random.Random(case.seed)
    einsum = case.einsum
    letters = dict.fromkeys(c for c in einsum.text if c.isalpha())
    extents = {letter: rng.choice((2, 3, 5, 6, 11, 19)) for letter in letters}
    if np.prod([1, *extents.values()]) > 40000:
        return
    inputs, output = einsum.text.split("->")
    terms = [*inputs.split(","), output]
    arrays = [
        replace(
            operand,
            shape=tuple(
                extents[letter] if extent != 1 else 1
                for letter, extent in zip(term, operand.shape, strict=True)
            ),
        )
        for term, operand in zip(terms, (*einsum.operands, einsum.out), strict=True)
    ]
    other = replace(case, einsum=replace(einsum, operands=tuple(arrays[:-1]), out=arrays[-1]))
    if other.problem() == case.problem():
        yield other


def check_program(program, einsum: Einsum, seed: int, *, tf32: bool = False) -> None:
    """Runs a program on arrays of an einsum, twice, and compares all bytes that it may touch.

    `tf32` says that its device rounds factors where the einsum allows that.
    """
    rng = np.random.default_rng(seed)
    arrays = (*einsum.operands, einsum.out)
    small = any(kind_of(np.dtype(a.dtype)) in "fc" for a in arrays) or einsum.dtype is not None
    inputs = [Placed(o, element_values(o, rng, small=small)) for o in einsum.operands]
    output = Placed(einsum.out, None)
    rounded = 2.0**-10 if tf32 and einsum.precision == "tf32" else 0.0
    expected, tolerance = expectation(einsum, [placed.array for placed in inputs], rounded)
    for _ in range(2):
        run_on_guarded_memory(program, inputs, [output])
        compare(output.array, expected, tolerance)


def expectation(
    einsum: Einsum, arrays: Sequence[np.ndarray], rounded: float = 0.0
) -> tuple[np.ndarray, np.ndarray | None]:
    """What the oracle computes, and how far from it a kernel may be: None for exact types.

    A sum of n products of m factors differs from the exact one by at most (n + m) roundings of
    the sum of the products' magnitudes; the output adds one rounding of its own. `rounded` is what
    each product may lose before it is added. Where a sum may become too large for the type that
    it is held in, the tolerance has no end.
    """
    md_hom = einsum.md_hom()
    (expected,) = run(md_hom, arrays, cast=True)
    stored, held = np.dtype(einsum.out.dtype), md_hom.scalar.result_dtypes[0]
    if held.kind not in "fc":
        return expected, None
    (expected,) = run(md_hom, arrays)
    magnitude = _magnitude(md_hom, arrays)
    length = md_hom.points // max(1, expected.size)
    roundings = 2 * length + 4 * len(arrays) + 4
    bound = (roundings * float(np.finfo(held).eps) + rounded) * magnitude
    bound = np.where(magnitude + bound > float(np.finfo(held).max), np.inf, bound)
    if kind_of(stored) in "fc":
        facts = ml_dtypes.finfo(stored)
        bound = bound + float(facts.eps) * np.abs(expected) + float(facts.tiny)
    return expected, bound


def _magnitude(md_hom: MDHom, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The same sum on absolute values, twice as large for complex products."""
    parts: list[np.ndarray] = []
    for array in arrays:
        absolute = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
        parts.append(absolute.astype(array.dtype))
    (result,) = run(md_hom, parts)
    return 2 * np.abs(result)


def outcome(name: str) -> str:
    """What comes of the case of a name, or of a recipe's line; raises what its kernel raises."""
    if name.startswith("{"):
        return _replay().compiled(_replay().Recipe.from_json(name))
    return RIGHT if check(random_case(name)) else REFUSED


def describe(name: str) -> str:
    """The case of a name, or why there is none."""
    if name.startswith("{"):
        return name
    try:
        return repr(random_case(name))
    except Exception as error:
        return f"no case can be made: {error}"


WORKERS = Workers("tests.lower.fuzz", describe)


def _replay():
    """The module that runs recipes, which imports this one."""
    from tests.lower import replay

    return replay


def names_of(
    seed: int, families: Sequence[str], count: int, first: int = 0, kind: str = ""
) -> list[str]:
    """Names of `count` cases, the families in turn; `kind` is MD_HOM, TRANSPOSED or nothing."""
    return [
        f"{seed}/{families[number % len(families)]}/{number}{kind}"
        for number in range(first, first + count)
    ]


def kind_said(options: argparse.Namespace) -> str:
    """What names of the cases end with that options ask for."""
    asked = {MD_HOM: options.md_homs, TRANSPOSED: options.transposed, BFLOATS: options.bfloats}
    asked[PAIRS] = getattr(options, "pairs", False)
    return next((kind for kind, is_asked in asked.items() if is_asked), "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--dialect-family", choices=FAMILIES, help="default: both in turn")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--md-homs", action="store_true", help="random md_homs, not einsums")
    kinds.add_argument("--transposed", action="store_true", help="results far apart along lanes")
    kinds.add_argument("--bfloats", action="store_true", help="einsums of bfloat16")
    parser.add_argument("--shrink", action="store_true", help="the case as a small line")
    parser.add_argument("--replay", help="such a line, which runs in this process")
    options = parsed(parser, outcome, describe)
    if options.replay:
        print(_replay().replayed(options.replay))
        return 0
    if options.case and options.shrink:
        found = _replay().smallest_failure(random_case(options.case), WORKERS)
        print(f"python -m tests.lower.fuzz --replay '{found.to_json()}'" if found else RIGHT)
        return 0
    if options.case:
        return _show(options.case)
    families = [options.dialect_family] if options.dialect_family else FAMILIES
    kind = kind_said(options)
    names = names_of(options.seed, families, options.count, options.first, kind)
    report = WORKERS.run(names, verbose=True)
    print(report)
    return 1 if report.failures else 0


def _show(name: str) -> int:
    case = random_case(name)
    print(case)
    if isinstance(case, Case):
        print("sizes", run_time_sizes(case))
    md_homs = [stage.md_hom for stage in case.stages]
    pairs = zip(case.problems(), case.schedules, strict=True)
    for md_hom, (problem, schedule) in zip(md_homs, pairs, strict=True):
        print(md_hom.describe(), md_hom.scalar.results, md_hom.epilogue, sep="\n")
        print([(op.dtypes, op.results, op.identity) for op in md_hom.operators])
        print(problem, schedule, sep="\n")
        try:
            print(program_of(problem, schedule, OPENCL).text, flush=True)
        except LoweringError as error:
            print("refused:", error)
    print("right" if check(case) else "refused")
    return 0


__all__ = ["Case", "MismatchError", "Operand", "check", "device"]

if __name__ == "__main__":
    sys.exit(main())
