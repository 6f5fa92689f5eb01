"""Random md_homs with a random schedule for each of their stages: kernels against the oracle."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.kernels.dialect import Dialect
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.narrow_tuples import with_narrow_places
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.combine import Combine, Concat
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.md_hom_program import Step
from mdtensor.translate.reference import compute, run
from mdtensor.translate.rewrites.stages import stages
from mdtensor.translate.scalar import Expr
from mdtensor.translate.scalar_function import ScalarFunction
from tests.lower.random_md_homs import Drawn, UnsuitableError, drawn, random_elements, random_md_hom
from tests.lower.random_problems import Operand, Placed
from tests.lower.random_scalars import magnitude
from tests.lower.random_schedules import random_schedule
from tests.lower.running import MismatchError, compare, device, launch_sizes, run_on_guarded_memory

UNROLLED = 12  # computations in one register tile: scalar functions are longer than products


@dataclass(frozen=True)
class MDHomCase:
    """An md_hom, and a schedule for every stage of it; general ones have run-time sizes.

    Those for vectors hold places that are as `narrow` as they can be.
    """

    drawn: Drawn
    schedules: tuple[Schedule, ...]
    general: bool = False
    seed: int = 0
    narrow: bool = False

    def md_hom(self) -> MDHom:
        return self.drawn.md_hom

    @property
    def schedule(self) -> Schedule:
        """The schedule of the only stage."""
        (schedule,) = self.schedules
        return schedule

    def problem(self) -> Problem:
        """The problem of the only stage."""
        (problem,) = self.problems()
        return problem

    @property
    def stages(self) -> tuple[Step, ...]:
        return stages(self.drawn.md_hom).steps

    def problems(self) -> list[Problem]:
        fixed = map(self.fixed, self.stages)
        return [generalised(problem)[0] if self.general else problem for problem in fixed]

    def fixed(self, stage: Step) -> Problem:
        """The problem of a stage with numbers for extents."""
        problem = problem_from_md_hom(stage.md_hom)
        return with_narrow_places(problem) if self.narrow else problem


def single_case(
    md_hom: MDHom, schedule: Schedule, ranges: Sequence[tuple[int, int]], *, general: bool = False
) -> MDHomCase:
    """A case of one stage on C-ordered arrays of whole numbers between the given ones."""
    inputs, outputs = tuple(map(_layout, md_hom.inputs)), tuple(map(_layout, md_hom.outputs))
    whole = Drawn(None, md_hom, inputs, outputs, tuple(ranges), exact=True)
    return MDHomCase(whole, (schedule,), general)


def random_md_hom_case(name: str) -> MDHomCase:
    """The case of a name such as "0/cpu/17/md_hom": seed, family, number."""
    rng = random.Random(name)
    family = name.split("/")[1]
    narrow = family == "cpu"
    case = MDHomCase(random_md_hom(rng), (), rng.random() < 0.25, rng.getrandbits(32), narrow)
    schedules = [random_schedule(rng, p, family, UNROLLED) for p in case.problems()]
    return replace(case, schedules=tuple(schedules))


def check_md_hom(case: MDHomCase, on=device, dialect: Dialect = OPENCL) -> bool:
    """Runs all stages of a case; False where a schedule does not fit. Raises MismatchError.

    `on()` is the device, which speaks `dialect`; its programs take NumPy arrays.
    """
    others = list(other_shapes(case)) if case.general else []
    runs = [StagedRun(one.drawn, one.stages, case.seed) for one in (case, *others)]
    accepted = True
    for number, schedule in enumerate(case.schedules):
        problems = [case.fixed(each.stages[number]) for each in runs]
        problem = generalised(problems[0])[0] if case.general else problems[0]
        try:
            source = program_of(problem, schedule, dialect)
        except LoweringError:
            accepted = False
            continue
        sizes = [
            launch_sizes(fixed, schedule, case.seed) if case.general else () for fixed in problems
        ]
        program = on().compile(source, sizes[0])
        runs[0].check(number, program)
        for each, given in zip(runs[1:], sizes[1:], strict=True):
            each.check(number, program.bound(given))
    for each in runs:
        each.check_chain()
    return accepted


def other_shapes(case: MDHomCase) -> Iterator[MDHomCase]:
    """The case with other extents, where they have the same structure."""
    if case.drawn.seed is None:
        return
    rng = random.Random(case.seed)
    extents = {dim.name: rng.choice((2, 3, 5, 6, 11)) for dim in case.drawn.md_hom.dims}
    try:
        other = replace(case, drawn=drawn(case.drawn.seed, extents))
    except UnsuitableError:
        return
    if other.problems() == case.problems():
        yield other


class StagedRun:
    """Arrays for all stages of an md_hom: those given, and what the oracle puts between."""

    def __init__(self, given: Drawn, chain: Sequence[Step], seed: int) -> None:
        self.drawn, self.stages = given, chain
        rng = np.random.default_rng(seed)
        self.given = [
            Placed(operand, random_elements(operand, limits, rng))
            for operand, limits in zip(given.inputs, given.ranges, strict=True)
        ]
        self.inputs: list[list[Placed]] = []
        slots = dict(enumerate(self.given))
        for stage in chain:
            inputs = [slots[n] for n in stage.operands]
            self.inputs.append(inputs)
            if stage is not chain[-1]:
                results = run(stage.md_hom, [placed.array for placed in inputs], cast=True)
                placed = [Placed(_plain(result), result) for result in results]
                slots |= zip(stage.results, placed, strict=True)

    def check(self, number: int, program) -> None:
        """Runs the program of a stage twice, and compares all bytes that it may touch."""
        outputs, expected, tolerances = self.expectation(number)
        for _ in range(2):
            run_on_guarded_memory(program, self.inputs[number], outputs)
            for n, (output, right) in enumerate(zip(outputs, expected, strict=True)):
                try:
                    compare(output.array, right, tolerances[n])
                except MismatchError as error:
                    where = f"stage {number}, output {n}"
                    raise MismatchError(f"{where}: {error}") from None

    def expectation(
        self, number: int
    ) -> tuple[list[Placed], list[np.ndarray], Sequence[np.ndarray | None]]:
        """Outputs of a stage, what is right for each, and how far from it a result may be."""
        stage = self.stages[number]
        arrays = [placed.array for placed in self.inputs[number]]
        last = stage is self.stages[-1]
        layouts = self.drawn.outputs if last else map(_layout, stage.md_hom.outputs)
        outputs = [Placed(layout, None) for layout in layouts]
        expected = [self._blank(placed.array) for placed in outputs]
        compute(stage.md_hom, arrays, expected)
        return outputs, expected, self._tolerances(stage.md_hom, arrays, expected)

    def _blank(self, array: np.ndarray) -> np.ndarray:
        """What an output holds before, as wide as the comparison is."""
        if self.drawn.exact or array.dtype.kind not in "fc":
            return array.copy()
        return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)

    def _tolerances(
        self, md_hom: MDHom, arrays: Sequence[np.ndarray], expected: Sequence[np.ndarray]
    ) -> Sequence[np.ndarray | None]:
        if self.drawn.exact:
            return [None] * len(expected)
        bounds = [np.zeros(right.shape, np.float64) for right in expected]
        compute(magnitudes(md_hom), arrays, bounds)
        held = np.finfo(narrowest(md_hom))
        unit, underflow = float(held.eps), float(held.tiny)
        count = _roundings(md_hom)
        tolerances: list[np.ndarray | None] = []
        for buffer, right, bound in zip(md_hom.outputs, expected, bounds, strict=True):
            if buffer.spec.dtype.kind not in "fc":
                tolerances.append(None)
                continue
            stored = np.finfo(buffer.spec.dtype)
            last = float(stored.eps) * np.abs(right) + float(stored.tiny)
            found = np.abs(count * (unit * bound + underflow) + last)
            tolerances.append(np.where(np.abs(bound) > float(held.max), np.inf, found))
        return tolerances

    def check_chain(self) -> None:
        """The oracle's own stages, one after the other, give what the whole gives."""
        halves = any(t == np.float16 for t in self.drawn.md_hom.scalar.result_dtypes)
        if len(self.stages) == 1 or halves or not self.drawn.exact:
            return
        whole = run(self.drawn.md_hom, [placed.array for placed in self.given], cast=True)
        last = [placed.array for placed in self.inputs[-1]]
        for one, other in zip(whole, run(self.stages[-1].md_hom, last, cast=True), strict=True):
            compare(one, other, None)


def _plain(array: np.ndarray) -> Operand:
    rank = array.ndim
    name = "?" if array.dtype.kind == "b" else array.dtype.str[1:]
    return Operand(name, array.shape, tuple(range(rank)), (1,) * rank, (0,) * rank, at_end=True)


def _layout(buffer) -> Operand:
    return _plain(np.empty(buffer.spec.shape, buffer.spec.dtype))


def magnitudes(md_hom: MDHom) -> MDHom:
    """The md_hom of bounds for rounding errors; see `random_scalars.magnitude`."""
    epilogue = md_hom.epilogue
    if epilogue is not None:
        epilogue = Epilogue(_bounding(epilogue.function), epilogue.view)
    return replace(
        md_hom,
        dims=tuple(Dim(d.name, d.extent, _bounding_combine(d.combine)) for d in md_hom.dims),
        scalar=_bounding(md_hom.scalar),
        epilogue=epilogue,
    )


def _bounding(function: ScalarFunction) -> ScalarFunction:
    return replace(function, results=tuple(map(magnitude, function.results)))


def _bounding_combine(combine: Combine) -> Combine:
    if isinstance(combine, Concat):
        return combine
    results = tuple(map(magnitude, combine.op.results))
    return replace(combine, op=replace(combine.op, results=results, identity=None))


def narrowest(md_hom: MDHom) -> type[np.floating]:
    """The narrowest floats that are computed with: float16 is held in float32."""
    exprs = _expressions(md_hom)
    types = {expr.dtype for root in exprs for expr in _nodes(root)}
    real = {np.empty(0, dtype).real.dtype for dtype in types if dtype.kind in "fc"}
    return np.float64 if real == {np.dtype(np.float64)} else np.float32


def _roundings(md_hom: MDHom) -> int:
    """At most so many roundings follow each other: of all functions, and of all combinations.

    Functions such as `exp` have up to 16 (OpenCL C, section 7.4), in both halves of the bound.
    """
    own = sum(expr.size for expr in _expressions(md_hom))
    combined = sum(result.size for op in md_hom.operators for result in op.results)
    return 2 * (16 * own + md_hom.points * combined)


def _expressions(md_hom: MDHom) -> tuple[Expr, ...]:
    last = () if md_hom.epilogue is None else md_hom.epilogue.function.results
    return (*md_hom.scalar.results, *last)


def _nodes(expr: Expr) -> Iterator[Expr]:
    yield expr
    for arg in expr.args:
        yield from _nodes(arg)
