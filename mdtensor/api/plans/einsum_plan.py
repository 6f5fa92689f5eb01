"""Plans of einsum's sums of products, which may go by a path of contraction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.operands import array_module
from mdtensor.api.engine import registry, tuning_mode
from mdtensor.api.engine.tuning_mode import Steps
from mdtensor.api.frontends.einsum.einsum import execute
from mdtensor.api.frontends.einsum.einsum_launches import launches_of
from mdtensor.api.frontends.einsum.einsum_planner import Prepared
from mdtensor.api.plans.plan import Plan
from mdtensor.specs import TensorSpec

Array = Any


class EinsumPlan(Plan):
    """A prepared call of `einsum`."""

    def __init__(
        self, label: str, call: str, specs: tuple[TensorSpec, ...], prepared: Prepared
    ) -> None:
        md_homs = tuple(step.md_hom for step in prepared.steps)
        super().__init__(label, call, specs, (prepared.result,), md_homs, prepared.dtype)
        self._prepared = prepared

    def calls(self) -> list[Steps]:
        """The steps of the path of contraction."""
        return [self._prepared.chain.steps]

    def _first(self, operands: Sequence[Array]) -> Array:
        xp = array_module(operands)
        if tuning_mode.is_watching() or not self.md_homs:
            return execute(self._prepared, operands, None, xp)
        generation = invalidation.generation()
        launch = launches_of(self._prepared, registry.kind_of(operands[0]), xp).new
        self._keep(generation, launch)
        return launch(*operands)

    def _first_into(self, operands: Sequence[Array], out: tuple[Array, ...]) -> None:
        xp = array_module(operands)
        self._takes.check_out(*operands, *out)
        if tuning_mode.is_watching() or not self._prepared.is_single:
            execute(self._prepared, operands, out[0], xp)
            return
        generation = invalidation.generation()
        arrays = registry.kind_of(operands[0])
        program = registry.choice_for(self.md_homs[0], arrays).program
        into = self._keep_program(generation, program, arrays)
        into(*operands, *out)
        self._tally.calls += 1
