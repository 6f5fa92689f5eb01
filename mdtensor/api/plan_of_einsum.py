"""Plans of einsum's sums of products, which may go by a path of contraction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.api import dispatch, modes, pipeline
from mdtensor.api.einsum import execute
from mdtensor.api.einsum_launches import launches_of
from mdtensor.api.modes import Steps
from mdtensor.api.operands import array_module
from mdtensor.api.plan import Plan
from mdtensor.api.prepare import Prepared
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
        if modes.is_watching() or not self.md_homs:
            return execute(self._prepared, operands, None, xp)
        generation = dispatch.generation()
        launch = launches_of(self._prepared, pipeline.kind_of(operands[0]), xp).new
        self._keep(generation, launch)
        return launch(*operands)

    def _first_into(self, operands: Sequence[Array], out: tuple[Array, ...]) -> None:
        xp = array_module(operands)
        self._takes.check_out(*operands, *out)
        if modes.is_watching() or not self._prepared.is_single:
            execute(self._prepared, operands, out[0], xp)
            return
        generation = dispatch.generation()
        arrays = pipeline.kind_of(operands[0])
        program = pipeline.choice_for(self.md_homs[0], arrays).program
        into = self._keep_program(generation, program, arrays)
        into(*operands, *out)
        self._tally.calls += 1
