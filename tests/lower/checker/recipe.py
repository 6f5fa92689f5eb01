"""Recipe: a random computation and a schedule as one line of JSON, and smaller ones like it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from mdtensor.lower.problem.narrow_tuples import with_narrow_places
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.rewrites.stages import stages
from tests.lower.random_md_homs import Drawn, drawn
from tests.lower.random_problems import Einsum, Operand

Extents = dict[str, int]
MOST_TRIES = 400  # of smaller recipes, each of which is run


@dataclass(frozen=True)
class Recipe:
    """A stage of a computation: an einsum, or the md_hom `drawn` from a seed; and its schedule.

    `seed` is that of the elements, `launch` that of what differs from launch to launch: run-time
    sizes, addresses and the order of groups. Dims of drawn md_homs have `extents`, or their own.
    """

    schedule: Schedule
    seed: int
    launch: int
    einsum: Einsum | None = None
    drawn: int = 0
    extents: tuple[tuple[str, int], ...] = ()
    stage: int = 0
    general: bool = False
    narrow: bool = False

    def to_json(self) -> str:
        """One line, which `from_json` reads."""
        values: dict[str, Any] = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if getattr(self, each.name) != each.default
        }
        values["schedule"] = json.loads(self.schedule.to_json())
        if self.einsum is not None:
            values["einsum"] = asdict(self.einsum)
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """The recipe of a line."""
        values = json.loads(text)
        values["schedule"] = Schedule.from_json(json.dumps(values["schedule"]))
        values["extents"] = tuple((name, n) for name, n in values.get("extents", ()))
        if given := values.get("einsum"):
            operands = tuple(map(_operand, given["operands"]))
            values["einsum"] = Einsum(
                **{**given, "operands": operands, "out": _operand(given["out"])}
            )
        return cls(**values)

    def drawn_md_hom(self) -> Drawn:
        """The md_hom, with the recipe's extents."""
        return drawn(self.drawn, dict(self.extents) or None)

    def fixed(self) -> Problem:
        """The stage's problem with numbers for extents."""
        if self.einsum is not None:
            return problem_from_md_hom(self.einsum.md_hom())
        problem = problem_from_md_hom(stages(self.drawn_md_hom().md_hom).steps[self.stage].md_hom)
        return with_narrow_places(problem) if self.narrow else problem

    def known_extents(self) -> Extents:
        """The extents of all dims by their names."""
        if self.einsum is None:
            return {dim.name: dim.extent for dim in self.drawn_md_hom().md_hom.dims}
        known: Extents = {}
        for term, operand in _terms(self.einsum):
            for letter, extent in zip(term, operand.shape, strict=True):
                known[letter] = max(extent, known.get(letter, 1))
        return known

    def with_extents(self, extents: Extents) -> Recipe:
        """The recipe for arrays of other extents."""
        if self.einsum is None:
            return replace(self, extents=tuple(extents.items()))
        arrays = [
            replace(
                operand,
                shape=tuple(
                    min(extents[letter], extent) if extent == 1 else extents[letter]
                    for letter, extent in zip(term, operand.shape, strict=True)
                ),
            )
            for term, operand in _terms(self.einsum)
        ]
        einsum = replace(self.einsum, operands=tuple(arrays[:-1]), out=arrays[-1])
        return replace(self, einsum=einsum)


def _operand(given: dict[str, Any]) -> Operand:
    return Operand(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})


def _terms(einsum: Einsum) -> list[tuple[str, Operand]]:
    inputs, output = einsum.text.split("->")
    return list(zip([*inputs.split(","), output], (*einsum.operands, einsum.out), strict=True))


def shrunk(recipe: Recipe, fails: Callable[[Recipe], bool]) -> Recipe:
    """The smallest recipe that is found by steps, each of which `fails` as the one before."""
    tries = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(recipe):
            tries += 1
            if tries > MOST_TRIES:
                return recipe
            if _still(candidate, fails):
                recipe, smaller = candidate, True
                break
    return recipe


def _still(recipe: Recipe, fails: Callable[[Recipe], bool]) -> bool:
    """Whether a recipe fails; one that is none of a computation, or of another rank, does not."""
    try:
        return fails(recipe)
    except Exception:  # whatever else goes wrong is not what is looked for
        return False


def _smaller(recipe: Recipe) -> Iterator[Recipe]:
    """Recipes with smaller extents, then with a field of the schedule as the plain one has it."""
    known = recipe.known_extents()
    for name, extent in known.items():
        for less in dict.fromkeys((1, extent // 2, extent - 1)):
            if 1 <= less < extent:
                yield recipe.with_extents({**known, name: less})
    simplest = plain(recipe.fixed(), recipe.schedule.asm)
    for each in fields(Schedule):
        old, new = getattr(recipe.schedule, each.name), getattr(simplest, each.name)
        if old == new:
            continue
        yield replace(recipe, schedule=replace(recipe.schedule, **{each.name: new}))
        if isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
            for n in np.flatnonzero([a != b for a, b in zip(old, new, strict=True)]).tolist():
                one = (*old[:n], new[n], *old[n + 1 :])
                yield replace(recipe, schedule=replace(recipe.schedule, **{each.name: one}))
