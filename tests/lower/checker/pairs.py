"""Random problems of few points by random schedules, and what the interpreter finds in them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.lower.gpu.tma.unaligned import for_any_alignment
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.lowering import lowered
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scatter_pattern import selection_of
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.combine import PrefixSum
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.rewrites.stages import stages
from tests.lower.checker.gpu_schedules import random_product, random_schedule_of_gpu
from tests.lower.checker.machine import Program
from tests.lower.checker.memory import POISON, FaultError, Input, Memory, Output
from tests.lower.checker.recipe import Recipe, shrunk
from tests.lower.checker.value_text import NotInterpretedError
from tests.lower.fuzz import expectation
from tests.lower.md_hom_cases import UNROLLED, StagedRun
from tests.lower.random_md_homs import UnsuitableError
from tests.lower.random_problems import Placed, element_values, random_einsum
from tests.lower.random_schedules import random_schedule
from tests.lower.running import compare, launch_sizes
from tests.workers import REFUSED, RIGHT

EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 13)
POINTS = 96
OF_A_PROBLEM = 16  # pairs one after the other that have the same problem
KINDS = ("einsum", "complex", "stencil", "reduction", "scan", "records", "selection")
DEVICES = ("cpu", "gpu")
FAMILIES = (*(f"{device}/{kind}" for device in DEVICES for kind in KINDS), "gpu/matrices")
NO_SCHEDULE = Schedule("cpu", *[()] * 4, -1, 1, *[()] * 4)  # of a recipe that has none yet
NOT_INTERPRETED = "not interpreted"


@dataclass(frozen=True)
class Subject:
    """A problem, its inputs, what is right for its outputs, and how far from it they may be.

    A `general` problem has run-time sizes, those of the `fixed` one.
    """

    problem: Problem
    fixed: Problem
    inputs: Sequence[Placed]
    outputs: Sequence[Placed]
    expected: Sequence[np.ndarray]
    tolerances: Sequence[np.ndarray | None]
    elements: dict[int, list[tuple[int, object]]] = field(
        default_factory=dict[int, list[tuple[int, object]]]
    )

    def check(self, schedule: Schedule, seed: int) -> None:
        """Interprets the kernels of a schedule; an error where they are wrong.

        LoweringError where the schedule does not fit the problem.
        """
        rng = random.Random(seed)
        aligned = schedule.resident and rng.random() < 0.7
        if not aligned and schedule.bulk:
            schedule = for_any_alignment(self.problem, schedule)
        nests = lowered(self.problem, schedule, aligned=aligned)
        sizes = launch_sizes(self.fixed, schedule, seed) if self.problem.is_general else ()
        self.check_nests(nests, sizes, seed, aligned=aligned)

    def check_nests(
        self, nests: Sequence[LoopNest], sizes: Sequence[int], seed: int, *, aligned: bool = False
    ) -> None:
        """Interprets kernels on arrays that begin anywhere, or at multiples of 16 bytes."""
        rng = random.Random(seed)
        program = Program(nests, wide_are_aligned=aligned)
        inputs: list[Memory] = []
        outputs: list[Memory] = []
        for n, placed in enumerate(self.inputs):
            if n not in self.elements:
                self.elements[n] = elements_of(placed.array)
            base = _base(placed.array, rng, aligned=aligned)
            inputs.append(Input(f"I{n}", self.elements[n], base))
        for n, placed in enumerate(self.outputs):
            array = placed.array
            base = _base(array, rng, aligned=aligned)
            outputs.append(Output(f"O{n}", places_of(array), base))
        program.run([*inputs, *outputs], sizes, rng)
        for n, placed in enumerate(self.outputs):
            result = result_in(outputs[n], placed.array)
            compare(result, self.expected[n], self.tolerances[n])


def _base(array: np.ndarray, rng: random.Random, *, aligned: bool) -> int:
    return 16 * rng.randrange(4) if aligned else real(array).itemsize * rng.randrange(64) % 64


def real(array: np.ndarray) -> np.ndarray:
    """The array, with both parts of complex numbers as elements along one more axis."""
    if array.dtype.kind != "c":
        return array
    part = np.dtype(f"f{array.itemsize // 2}")
    both = (*array.shape, 2), (*array.strides, part.itemsize)
    return np.lib.stride_tricks.as_strided(np.real(array), *both).view(part)


def places_of(array: np.ndarray) -> list[int]:
    """How many elements behind its first one each element of an array lies."""
    parts = real(array)
    places = [0]
    for extent, stride in zip(parts.shape, parts.strides, strict=True):
        steps = [n * (stride // parts.itemsize) for n in range(extent)]
        places = [place + step for place in places for step in steps]
    return places


def elements_of(array: np.ndarray) -> list[tuple[int, object]]:
    """All elements between the ends of an array by their places, undefined where it has none."""
    places = places_of(array)
    parts = real(array)
    if parts.dtype.kind == "b":
        values = parts.astype(np.uint8)
    else:
        values = parts if parts.dtype.kind in "iu" else parts.astype(np.float64)
    found: dict[int, object] = dict.fromkeys(range(min(places), max(places) + 1), POISON)
    found.update(zip(places, values.ravel().tolist(), strict=True))
    return list(found.items())


def result_in(output: Mapping[int, Any], array: np.ndarray) -> np.ndarray:
    """What an output holds; what was not written is what the array held before."""
    before = real(array)
    flat = before.ravel().copy()
    for n, place in enumerate(places_of(array)):
        value = output[place]
        if value is not POISON:
            flat[n] = value
    result = flat.reshape(before.shape)
    return result.view(array.dtype)[..., 0] if array.dtype.kind == "c" else result


# ---- subjects of a family ---------------------------------------------------------------------


@lru_cache(4)
def recipe_of(name: str) -> Recipe:
    """The recipe of a name such as "0/cpu/scan/17": seed, device, kind, number."""
    rng = random.Random(name)
    _, device, kind, _ = name.split("/")
    general = rng.random() < 0.2
    while True:
        if kind == "matrices":
            found = Recipe(NO_SCHEDULE, 0, 0, random_product(rng))
        elif kind in ("einsum", "complex"):
            found = Recipe(NO_SCHEDULE, 0, 0, random_einsum(rng, EXTENTS, POINTS))
        else:
            extents = tuple((name, rng.choice(EXTENTS)) for name in "ijkl")
            found = Recipe(NO_SCHEDULE, 0, 0, drawn=rng.getrandbits(32), extents=extents)
        stage = _stage(rng, found, kind)
        if stage >= 0:
            break
    narrow = found.einsum is None and device == "cpu"
    seed = rng.getrandbits(32)
    return replace(found, seed=seed, stage=stage, general=general, narrow=narrow)


def _stage(rng: random.Random, recipe: Recipe, kind: str) -> int:
    """The number of a stage that is of a kind; -1 where there is none such."""
    if recipe.einsum is not None:
        complexes = any(operand.dtype.startswith("c") for operand in recipe.einsum.operands)
        return 0 if complexes == (kind == "complex") else -1
    try:
        md_hom = recipe.drawn_md_hom().md_hom
    except UnsuitableError:
        return -1
    if md_hom.points > POINTS or not _is_of(md_hom, kind):
        return -1
    stage = rng.randrange(len(stages(md_hom).steps))
    selects = kind != "selection" or selection_of(replace(recipe, stage=stage).fixed()) is not None
    return stage if selects else -1


def _is_of(md_hom: MDHom, kind: str) -> bool:
    scans = any(isinstance(dim.combine, PrefixSum) for dim in md_hom.dims)
    reduces = bool(md_hom.operators) and not scans
    return {
        "stencil": not md_hom.operators,
        "reduction": reduces,
        "scan": scans,
        "records": len(md_hom.scalar.results) > 1,
        "selection": reduces,
    }[kind]


@lru_cache(4)
def subject_of(recipe: Recipe) -> Subject:
    """What a recipe computes, whatever its schedule: give one without."""
    fixed = recipe.fixed()
    problem = generalised(fixed)[0] if recipe.general else fixed
    if recipe.einsum is None:
        given = recipe.drawn_md_hom()
        run = StagedRun(given, stages(given.md_hom).steps, recipe.seed)
        number = recipe.stage
        return Subject(problem, fixed, run.inputs[number], *run.expectation(number))
    einsum, rng = recipe.einsum, np.random.default_rng(recipe.seed)
    arrays = (*einsum.operands, einsum.out)
    small = any(np.dtype(a.dtype).kind in "fc" for a in arrays) or einsum.dtype is not None
    inputs = [Placed(o, element_values(o, rng, small=small)) for o in einsum.operands]
    expected, tolerance = expectation(einsum, [placed.array for placed in inputs])
    return Subject(problem, fixed, inputs, [Placed(einsum.out, None)], [expected], [tolerance])


# ---- pairs ------------------------------------------------------------------------------------


def pair_of(name: str) -> Recipe:
    """The recipe of a pair's name: seed, device, kind, number."""
    seed, device, kind, number = name.split("/")
    recipe = recipe_of(f"{seed}/{device}/{kind}/{int(number) // OF_A_PROBLEM}")
    rng = random.Random(f"schedule {name}")
    problem = subject_of(recipe).problem
    if device == "cpu":
        schedule = random_schedule(rng, problem, device, UNROLLED)
    else:
        schedule = random_schedule_of_gpu(rng, problem)
    return replace(recipe, schedule=schedule, launch=rng.getrandbits(32))


def without_schedule(recipe: Recipe) -> Recipe:
    """The recipe of the same computation, whatever its schedule."""
    return replace(recipe, schedule=NO_SCHEDULE, launch=0)


def interpreted(recipe: Recipe) -> None:
    """Interprets the kernels of a recipe; an error where they are wrong.

    LoweringError where its schedule does not fit.
    """
    subject_of(without_schedule(recipe)).check(recipe.schedule, recipe.launch)


def outcome(recipe: Recipe) -> str:
    """What comes of a recipe: right, refused, not interpreted, or what is wrong."""
    try:
        interpreted(recipe)
    except LoweringError:
        return REFUSED
    except NotInterpretedError as error:
        return f"{NOT_INTERPRETED}: {error}"
    except FaultError as error:
        return f"FAULT {error}"
    except Exception as error:  # whatever goes wrong is the pair's outcome
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return RIGHT


def smallest(recipe: Recipe) -> Recipe:
    """A smaller recipe with which the interpreter finds the same kind of fault."""
    kind = outcome(recipe).split()[0]
    return shrunk(recipe, lambda smaller: outcome(smaller).split()[0] == kind)
