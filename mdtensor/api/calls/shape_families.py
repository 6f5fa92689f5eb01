"""Shape families: programs that differ only in extents and strides are translated once.

A computation that was built for some layouts is built once more on numbers that are watched (see
`traced_ints`): extents and strides of its operands. This gives a program from these numbers to the
sizes that the kernels of its steps take, and to the layouts of its results. A first call on other
layouts runs the program, and needs no translation, where every comparison ends as it did.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mdtensor.api.calls.traced_ints import IntTrace, Numbers, filled, filler
from mdtensor.api.engine import tuning_mode
from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom_program import Program, Step

if TYPE_CHECKING:
    from mdtensor.api.engine.engine import Engine
    from mdtensor.api.engine.generic_kernels import Reference
    from mdtensor.api.engine.kernel_choice import DeferredChoice, Kernels
    from mdtensor.lower.problem.problem import Problem

_MOST_KINDS = 4096  # that are remembered,
_MOST_FAMILIES = 8  # with so many families each,
_MOST_ATTEMPTS = 16  # for which computations built on watched numbers had none so often
_MOST_BEFORE = 4  # computations that a family is compared with: those of two may take turns
_WORTH = 1e-3  # seconds that a family saves each call on a new shape, at least


# Makes a computation of the specs of its operands, and of the other numbers that it depends on.
Build = Callable[..., Program]
Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A program abstracted from its numbers; `key` is equal for a whole family.

    `build` makes it of the operands' specs and of `numbers`, which are those of one call.
    """

    key: Hashable
    build: Build
    numbers: Ints = ()


@dataclass(frozen=True, slots=True)
class Member:
    """A family's program for some layouts, with its steps' chosen kernels.

    The `md_hom`s of its steps are its own where there are several, which may overlap.
    """

    program: Program
    chosen: tuple[DeferredChoice, ...]

    @property
    def results(self) -> tuple[TensorSpec, ...]:
        """The specs of the results."""
        return self.program.results


@dataclass(frozen=True, slots=True)
class Family:
    """Programs that differ only in extents and strides.

    `numbers` gives the sizes of each step's kernel, then shapes and strides of results and
    temporaries, and by `by_name` all variables; `program` and `problems` have watched numbers.
    `fill` makes the steps, where there are several, with the numbers of that name.
    """

    engine: Engine
    program: Program
    problems: tuple[Problem, ...]
    structures: tuple[Reference[Kernels], ...]
    numbers: Numbers
    fill: Callable[[Mapping[str, int]], tuple[Step, ...]] | None

    def gives(self, numbers: Sequence[int], program: Program) -> bool:
        """Whether a computation is the family's for operands of these extents and strides."""
        generals, sizes = _generalised(program, self.engine)
        is_same = [structure.general for structure in self.structures] == [*generals]
        return is_same and self.numbers(*numbers) == (sizes, _layouts(program))

    def member(self, numbers: Sequence[int]) -> Member | None:
        """The computation for operands of these extents and strides.

        None where it differs in more than numbers, or where the engine must look at a problem.
        """
        found = self.numbers(*numbers)
        if found is None:
            return None
        sizes, layouts = found
        at_once, use_store = self.engine.policy.at_once, tuning_mode.uses_store()
        chosen: list[DeferredChoice] = []
        for n, structure in enumerate([refer() for refer in self.structures]):
            found_for = at_once(structure, sizes[n], Later(self, n, numbers), use_store=use_store)
            if found_for is None:
                return None
            chosen.append(found_for)
        program = self.program
        steps = program.steps
        if self.fill is not None:
            steps = self.fill(self.numbers(*numbers, by_name=True))
        pairs = zip(program.specs, layouts, strict=True)
        specs = tuple([TensorSpec(spec.dtype, *layout) for spec, layout in pairs])
        count = len(program.results)
        changed = replace(program, steps=steps, results=specs[:count], temporaries=specs[count:])
        return Member(changed, tuple(chosen))


def family_of(
    program: Program,
    specs: Sequence[TensorSpec],
    build: Build,
    engine: Engine,
    others: Ints = (),
) -> Family | None:
    """The family of a built program; None where its translation cannot be generalised."""
    from mdtensor.api.engine.generic_kernels import Reference
    from mdtensor.lower.problem.generic_problem import GENERALISE
    from mdtensor.lower.problem.problem_of_device import problem_of_device

    watch = IntTrace()
    generals, _ = _generalised(program, engine)
    try:
        watched = tuple([_watched(spec, watch) for spec in specs])
        again = build(watched, *map(watch.number, others))
        if not again.steps or any(0 in step.md_hom.extents.values() for step in again.steps):
            return None
        problems = tuple([problem_of_device(s.md_hom, engine.target) for s in again.steps])
        named = tuple(map(GENERALISE, problems))
        is_same = tuple([general for general, _ in named]) == generals
        results = tuple([of_step for _, of_step in named]), _layouts(again)
        numbers = watch.program(results)
    except Exception:  # watched numbers are numbers to most code, not to all
        return None
    if not is_same:
        return None
    structures = tuple([Reference(engine.structure(each), engine.structure) for each in generals])
    fill = filler(again.steps) if len(again.steps) > 1 else None
    family = Family(engine, again, problems, structures, numbers, fill)
    return family if family.gives(numbers_of(specs, others), program) else None


@dataclass(frozen=True, slots=True)
class Later:
    """The problem of a step, built on demand."""

    family: Family
    step: int
    numbers: Sequence[int]

    def __call__(self) -> Problem:
        """Builds the problem."""
        return filled(
            self.family.problems[self.step], self.family.numbers(*self.numbers, by_name=True)
        )


def _generalised(
    program: Program, engine: Engine
) -> tuple[tuple[Problem, ...], tuple[tuple[int, ...], ...]]:
    """The structures of all steps, and their sizes."""
    from mdtensor.lower.problem.generic_problem import GENERALISE

    found = [GENERALISE(engine.problem_of(step.md_hom)) for step in program.steps]
    return tuple([general for general, _ in found]), tuple([sizes for _, sizes in found])


def numbers_of(specs: Sequence[TensorSpec], others: Ints = ()) -> Ints:
    """The extents and strides of all operands, then other numbers."""
    return *[number for spec in specs for number in (*spec.shape, *spec.strides)], *others


def _watched(spec: TensorSpec, watch: IntTrace) -> TensorSpec:
    shape, strides = (tuple(map(watch.number, each)) for each in (spec.shape, spec.strides))
    return TensorSpec(spec.dtype, shape, strides)


def _layouts(program: Program) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Shapes and strides of results and temporaries."""
    return tuple([(spec.shape, spec.strides) for spec in program.specs])


@dataclass(slots=True)
class _Kind:
    """The computations of one key for operand types and arrangements.

    `before` are those that were built last, the latest first, for these extents and strides.
    """

    before: tuple[tuple[Ints, Program], ...]
    attempts: int = 0
    families: tuple[Family, ...] = ()


class Families:
    """A front end's shape families, by the parts that their computations share."""

    def __init__(self, engine: Callable[[], Engine | None]) -> None:
        self._engine = engine
        self._kinds = Bounded[Hashable, _Kind](_MOST_KINDS)

    def __len__(self) -> int:
        return len(self._kinds)

    def member(
        self, key: Hashable, specs: Sequence[TensorSpec], others: Ints = ()
    ) -> Member | None:
        """A computation for NumPy arrays from a known family; None where there is none."""
        known = self._kinds.get(_kind(key, specs, others))
        if known is None or not known.families:
            return None
        engine, numbers = self._engine(), numbers_of(specs, others)
        for family in known.families:
            if family.engine is engine and (found := family.member(numbers)) is not None:
                return found
        return None

    def learn(
        self,
        key: Hashable,
        program: Program,
        specs: Sequence[TensorSpec],
        build: Build,
        others: Ints = (),
    ) -> None:
        """Registers a shape family, so that later calls on other shapes skip translation.

        It takes two that agree, so the first one of its kind teaches nothing. The background traces
        them.
        """
        kind, numbers = _kind(key, specs, others), numbers_of(specs, others)
        known = self._kinds.get(kind)
        if known is None:
            self._kinds.keep(kind, _Kind(((numbers, program),)))
            return
        before = known.before
        if any(numbers == others for others, _ in before):
            return
        known.before = ((numbers, program), *before[: _MOST_BEFORE - 1])
        engine = self._engine()
        if engine is None:  # so there are no kernels that a family could have
            return
        is_known = any(f.engine is engine and f.numbers(*numbers) for f in known.families)
        if is_known or known.attempts >= _MOST_ATTEMPTS:
            return

        def work() -> None:
            known.attempts += 1
            family = family_of(program, specs, build, engine, others)
            if family is not None and any(family.gives(*each) for each in before):
                known.attempts -= 1
                known.families = (family, *known.families[: _MOST_FAMILIES - 1])

        engine.tiers.background.ask((self, kind), work, worth=_WORTH)


def _kind(key: Hashable, specs: Sequence[TensorSpec], others: Ints) -> Hashable:
    return key, len(others), *[(spec.dtype, _arrangement(spec)) for spec in specs]


def _arrangement(spec: TensorSpec) -> Hashable:
    """The facts about an operand's extents and strides that translations branch on most.

    Calls on operands of many arrangements would else find no two of them that agree.
    """
    shape, strides = spec.shape, spec.strides
    order = sorted(range(len(shape)), key=lambda n: abs(strides[n]))
    return (
        tuple([min(extent, 2) for extent in shape]),
        tuple([(stride > 0) - (stride < 0) for stride in strides]),
        tuple(order),
        tuple([strides[b] == strides[a] * shape[a] for a, b in itertools.pairwise(order)]),
    )
