"""The micro-kernel: accumulators of a register tile, and the unrolled loop body."""

from __future__ import annotations

from collections.abc import Mapping

from mdtensor.lower.codegen.base.frame import Frame, Tile, single_accumulators
from mdtensor.lower.codegen.base.stream_pointers import bases
from mdtensor.lower.codegen.base.tuple_variables import lets
from mdtensor.lower.codegen.base.value_from_expr import identity_of
from mdtensor.lower.codegen.body.blocked_sums import blocked_sums
from mdtensor.lower.codegen.body.reduction_loops import combining_loops
from mdtensor.lower.codegen.body.tile_body import Body
from mdtensor.lower.ir.statements import Statement


def compute_tile(frame: Frame, tile: Tile) -> list[Statement]:
    """Declare the accumulators of a tile, and compute them."""
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

    sums = blocked_sums(frame, tile)

    def combine(counts: Mapping[int, int], lanes: str | None) -> list[Statement]:
        return Body(frame, tile, counts, "p", lanes).with_reduction()

    if sums is None:
        return [*statements, *combining_loops(frame, tile, combine)]
    loops = combining_loops(frame, tile, combine, sums)
    return [*statements, *sums.declarations(), *loops, *sums.finished()]
