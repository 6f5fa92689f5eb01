"""A failing case as one line, made smaller by steps, and run again from it."""

from __future__ import annotations

from mdtensor.errors import LoweringError
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.translate.rewrites.stages import stages
from tests.lower.checker.pairs import outcome, subject_of, without_schedule
from tests.lower.checker.recipe import Recipe, shrunk
from tests.lower.fuzz import Case, check_program
from tests.lower.md_hom_cases import MDHomCase, StagedRun
from tests.lower.running import device, launch_sizes
from tests.workers import REFUSED, RIGHT, Workers


def recipes_of(case: Case | MDHomCase) -> list[Recipe]:
    """A recipe for each stage of a case."""
    # Not the other way round: where `fuzz` is what Python runs, its Case is another class.
    if not isinstance(case, MDHomCase):
        return [Recipe(case.schedule, case.seed, case.seed, case.einsum, general=case.general)]
    if case.drawn.seed is None:
        raise ValueError("the case's md_hom was not drawn")
    drawn, general, narrow = case.drawn.seed, case.general, case.narrow
    return [
        Recipe(s, case.seed, case.seed, None, drawn, stage=n, general=general, narrow=narrow)
        for n, s in enumerate(case.schedules)
    ]


def compiled(recipe: Recipe, on=device) -> str:
    """Compiles and runs a recipe: right or refused. Raises MismatchError."""
    subject = subject_of(without_schedule(recipe))
    try:
        source = program_of(subject.problem, recipe.schedule, OPENCL)
    except LoweringError:
        return REFUSED
    fixed, schedule = subject.fixed, recipe.schedule
    sizes = launch_sizes(fixed, schedule, recipe.launch) if recipe.general else ()
    program = on().compile(source, sizes)
    if recipe.einsum is not None:
        check_program(program, recipe.einsum, recipe.seed)
    else:
        given = recipe.drawn_md_hom()
        StagedRun(given, stages(given.md_hom).steps, recipe.seed).check(recipe.stage, program)
    return RIGHT


def replayed(line: str) -> str:
    """What the interpreter, and then the compiled program, make of a line's recipe."""
    recipe = Recipe.from_json(line)
    lines = [f"interpreted: {outcome(recipe)}"]
    try:
        lines.append(f"compiled: {compiled(recipe)}")
    except Exception as error:  # whatever goes wrong is the outcome
        lines.append(f"compiled: {type(error).__name__}: {error}")
    return "\n".join(lines)


def smallest_failure(case: Case | MDHomCase, workers: Workers) -> Recipe | None:
    """The smallest recipe that fails as a case does; None where it does not fail.

    Each runs in a process of its own, which may crash or hang.
    """

    def failure(recipe: Recipe) -> str:
        failures = workers.run([recipe.to_json()]).failures
        return "".join(failures.values()).partition(":")[0]

    for recipe in recipes_of(case):
        if kind := failure(recipe):
            return shrunk(recipe, lambda smaller, kind=kind: failure(smaller) == kind)
    return None
