"""Register blocking: accumulators stay in registers over all tiles of the reduced dims.

A group computes one block of the kept dims after the other, a work-item one register tile of it.
No work-item leaves the others before they have read what all copied: points beyond the end of a
dim are computed as if they were the last one, and not written.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import Frame, Tile, tile_of
from mdtensor.lower.codegen.base.item_numbers import item_numbers
from mdtensor.lower.codegen.base.loop_structure import LoopStructure
from mdtensor.lower.codegen.base.partition import tile_loops, whole_parts
from mdtensor.lower.codegen.base.staged_layouts import INNER
from mdtensor.lower.codegen.base.stream_pointers import stream_pointer
from mdtensor.lower.codegen.base.tuple_variables import lets
from mdtensor.lower.codegen.base.value_from_expr import identity_of
from mdtensor.lower.codegen.memory.cooperative_copy import CooperativeCopy, copy_of
from mdtensor.lower.codegen.register_blocking.combine_tile import CombineTile, Product
from mdtensor.lower.codegen.register_blocking.reduced_tiles import reduced_tiles
from mdtensor.lower.codegen.register_blocking.software_pipeline import pipelined_tiles
from mdtensor.lower.codegen.register_blocking.write_register_blocks import sharing_of, write_results
from mdtensor.lower.ir.index import as_index, name
from mdtensor.lower.ir.statements import IndexCalc, LetIndex, Statement


def resident_tiles(
    frame: Frame, destinations: Sequence[Destination], product: Product | None = None
) -> list[Statement]:
    """The loops over blocks of the kept dims, and the code of a block.

    `product` combines a step of all reduced dims where work-items do so together.
    """
    statements = whole_parts(frame.tilings)
    copies = [copy_of(frame, n, frame.items) for n in frame.layouts]
    for copy in copies:
        statements += copy.declared()
    return [*statements, *blocks(frame, _block(frame, copies, destinations, product))]


def resident_memory(frame: Frame) -> list[Statement]:
    """Local memory in which work-items that share a reduction combine their results."""
    counts = {d: frame.tilings[d].register for d in frame.problem.kept}
    return sharing_of(frame, tile_of(frame, counts)).memory()


REGISTER_BLOCKS = LoopStructure(item_numbers, resident_tiles, resident_memory)


def blocks(frame: Frame, block: Sequence[Statement]) -> list[Statement]:
    """The loops over a group's blocks of the kept dims, around the code of a block."""
    kept = [d for d in frame.schedule.group_order if d in frame.problem.kept]
    return tile_loops(frame.tilings, kept, block)


def _block(
    frame: Frame,
    copies: Sequence[CooperativeCopy],
    destinations: Sequence[Destination],
    product: Product | None,
) -> list[Statement]:
    """The code of a block: accumulators, the tiles of the reduced dims, the results."""
    tile, statements = beginning(frame)
    tiles = pipelined_tiles if frame.schedule.stages > 1 else reduced_tiles
    statements += tiles(frame, copies, CombineTile(frame, tile, product))
    return [*statements, *write_results(frame, tile, destinations)]


def beginning(frame: Frame) -> tuple[Tile, list[Statement]]:
    """The register tile of a block, and declarations of its indices and accumulators."""
    problem, tilings = frame.problem, frame.tilings
    operator = frame.operator
    tile = tile_of(frame, {d: tilings[d].register for d in problem.kept})
    kept = (tilings[d] for d in problem.kept)
    statements: list[Statement] = [LetIndex(t.var("r"), t.first) for t in kept]
    statements += _clamped_indices(frame)
    statements += _bases(frame)
    for (refs,) in tile.accumulators:
        neutral = identity_of(operator)
        statements += lets(refs, neutral, mutable=True)
    return tile, statements


def _clamped_indices(frame: Frame) -> list[Statement]:
    """Declare the indices of points along ragged dims, clamped to the last one."""
    statements: list[Statement] = []
    for d in frame.problem.kept:
        if not frame.is_clamped(d):
            continue
        tiling, together = frame.tilings[d], frame.clamped_together(d)
        for position in tiling.positions(tiling.register):
            if position % together == 0:
                index = name(tiling.var("r")) + position
                inside = IndexCalc("min", index, tiling.extent - together)
                held = f"{tiling.var('q')}_{position}"
                statements.append(LetIndex(held, inside))
    return statements


def _bases(frame: Frame) -> list[Statement]:
    """Declare a pointer per stream to the work-item's first point, with reduced indices at zero."""
    statements: list[Statement] = []
    for number, stream in enumerate(frame.problem.streams):
        layout = frame.layouts.get(number)
        offset = as_index(0)
        for d in frame.problem.kept:
            tiling = frame.tilings[d]
            if layout is None and stream.uses(d) and not frame.is_clamped(d):
                offset = offset + stream.strides[d] * name(tiling.var("r"))
            elif layout is not None and layout.has(d, INNER) and tiling.threads > 1:
                offset = offset + layout.stride(d, INNER) * name(tiling.var("x")) * tiling.near
        statements.append(stream_pointer(frame, number, f"b{number}", offset))
    return statements
