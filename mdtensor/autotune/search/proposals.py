"""The stream of proposals: seeds, then a technique's, without known configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import TypeAlias

from mdtensor.autotune.search.named_techniques import TECHNIQUES
from mdtensor.autotune.search.techniques import MakeTechnique, Technique
from mdtensor.autotune.space.space import Expected, Space
from mdtensor.dataclass import dataclass
from mdtensor.errors import TuningError

# Who proposes, and the index of the configuration.
Proposal: TypeAlias = tuple[str, int]
# What configurations cost, by index; None for those that are still to be measured.
Costs: TypeAlias = dict[int, float | None]

# A technique that proposes this many known configurations in a row is helped out.
MAX_REPEATS = 50


def technique_named(technique: str | MakeTechnique) -> MakeTechnique:
    """The factory of a technique by name; for an unknown one, `TuningError` lists the names."""
    if not isinstance(technique, str):
        return technique
    if technique not in TECHNIQUES:
        raise TuningError(
            f"unknown search technique {technique!r}", hint=f"one of {', '.join(TECHNIQUES)}"
        )
    return TECHNIQUES[technique]


@dataclass(frozen=True, slots=True)
class Screen:
    """Draws several proposals of a technique and passes on the one of least predicted cost."""

    space: Space
    technique: Technique
    costs: Costs
    expected: Expected | None = None
    draws: int = 1

    def ask(self) -> tuple[list[Proposal], bool]:
        """The best new proposal, if any, and whether the technique proposed anything at all.

        A proposal with a known cost is answered with that cost.
        """
        drawn: list[tuple[float, str, int]] = []
        asked = False
        for _ in range(self.draws):
            index = self.technique.ask()
            if index is None:
                break
            asked = True
            if index not in self.costs:
                drawn.append((self._expected(index), self.technique.name, index))
            elif (cost := self.costs[index]) is not None:
                self.technique.tell(index, cost)
        return [min(drawn)[1:]] if drawn else [], asked

    def _expected(self, index: int) -> float:
        if self.expected is None or self.draws == 1:
            return 0.0
        return self.expected(self.space.configuration(index))


def proposals_of(
    space: Space,
    seeds: Iterable[Mapping[str, object]],
    screen: Screen,
    costs: Costs,
    rng: Random,
) -> Iterator[Proposal]:
    """Proposers and indices: seeds, then the technique's proposals, none already known."""
    if not space:
        return
    for seed in seeds:
        nearest = seed if seed in space else space.nearest(seed, rng)
        assert nearest is not None  # Only pinned values can make it so.
        index = space.index(nearest)
        if index not in costs:
            yield "seed", index
    repeats = 0
    while len(costs) < space.size:
        found, more = screen.ask()
        if not more:
            return
        repeats = 0 if found else repeats + 1
        if repeats == MAX_REPEATS:
            found = [("random", _unmeasured(space.sample_index(rng), space.size, costs))]
            repeats = 0
        yield from found


def _unmeasured(start: int, size: int, costs: Costs) -> int:
    """The first unmeasured index from `start` on, cyclically."""
    return next(at % size for at in range(start, start + size) if at % size not in costs)
