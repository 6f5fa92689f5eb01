"""The register tile: its accumulators, and the unrolled computation inside of the loops."""

from __future__ import annotations

from collections.abc import Mapping

from mdtensor.lower.assignments import lets
from mdtensor.lower.nest.statements import Statement
from mdtensor.lower.passes.combining_loops import combining_loops
from mdtensor.lower.passes.frame import Frame, Tile, single_accumulators
from mdtensor.lower.passes.stream_pointers import bases
from mdtensor.lower.passes.tile_body import Body
from mdtensor.lower.value_from_expr import identity_of


def compute_tile(frame: Frame, tile: Tile) -> list[Statement]:
    """Declares and fills the accumulators of a tile."""
    statements = bases(frame)
    if not frame.problem.contracted:
        body = Body(frame, tile, {}, "b", lanes=None)
        return [*statements, *body.without_reduction()]
    operator = frame.operator
    accumulators = [refs for vectors in tile.accumulators for refs in vectors]
    if frame.lane_is_reduced:
        accumulators += single_accumulators(frame, tile)
    neutral = identity_of(operator)
    for refs in accumulators:
        statements += lets(refs, neutral, mutable=True)

    def combine(counts: Mapping[int, int], lanes: str | None) -> list[Statement]:
        return Body(frame, tile, counts, "p", lanes).with_reduction()

    return [*statements, *combining_loops(frame, combine)]
