"""Pointers to a tile's inputs: at its first point, and at the current point of reduced dims."""

from __future__ import annotations

import numpy as np

from mdtensor.lower.codegen.base.early_tiles import FIRST_COPIED
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.staged_layouts import FULL, INNER, OUTER, TileLayout
from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.ir.statements import IndexCalc, LetIndex, Pointer, Statement

READ_STAGE = "read_stage"  # the number of the staged tile that is computed with


def bases(frame: Frame) -> list[Statement]:
    """Declare a pointer per stream to the tile's first point, with reduced indices at zero."""
    statements: list[Statement] = []
    needed = {
        d for layout in frame.layouts.values() for d in frame.problem.kept if layout.has(d, OUTER)
    }
    for d in sorted(needed):
        tiling = frame.tilings[d]
        inside = name(tiling.var("r")) - name(tiling.var("t"))
        block = as_index(tiling.block)
        statements.append(LetIndex(tiling.var("k"), IndexCalc("/", inside, block)))
        if tiling.block > 1:
            statements.append(LetIndex(tiling.var("m"), IndexCalc("%", inside, block)))
    for number, stream in enumerate(frame.problem.streams):
        kept = [d for d in frame.problem.kept if stream.uses(d)]
        layout = frame.layouts.get(number)
        if layout is None:
            offset = total(stream.strides[d] * name(frame.tilings[d].var("r")) for d in kept)
        else:
            offset = total(
                layout.stride(d, part) * name(frame.tilings[d].var(prefix))
                for d in kept
                for part, prefix in ((OUTER, "k"), (INNER, "m"))
            )
        statements.append(stream_pointer(frame, number, f"b{number}", offset))
    return statements


def stream_pointer(frame: Frame, number: int, target: str, offset: Index) -> Pointer:
    """Declares a pointer to a stream's buffer or staged tile; `p0` counts from `b0`."""
    layout = frame.layouts.get(number)
    memory = memory_of(frame, number)
    if target.startswith("p"):
        source = f"b{number}"
    else:
        source = layout.pointer if layout else f"I{frame.problem.streams[number].buffer}"
    region = "global" if layout is None or layout.region == "scratch" else layout.region
    return Pointer(target, source, memory, region, offset)


def memory_of(frame: Frame, number: int) -> np.dtype:
    """The type of a stream's elements in memory, or in its staged tile."""
    layout = frame.layouts.get(number)
    return layout.memory if layout else frame.problem.inputs[frame.problem.streams[number].buffer]


def stream_pointers(frame: Frame) -> list[Statement]:
    """Declare a pointer per stream to the current point of the reduced dims."""
    statements: list[Statement] = []
    for number, stream in enumerate(frame.problem.streams):
        reduced = [d for d in frame.schedule.reduce_order if stream.uses(d)]
        layout = frame.layouts.get(number)
        offset = as_index(0)
        if layout is not None and layout.stages > 1:
            offset = name(READ_STAGE) * layout.apart
        for d in reduced:
            var = name(frame.tilings[d].var("r"))
            if layout is None:
                offset = offset + stream.strides[d] * var
            else:
                start = FIRST_COPIED if d in layout.early else "t"
                inside = var - name(frame.tilings[d].var(start))
                offset = offset + _staged_offset(layout, frame, d, inside, statements)
        statements.append(stream_pointer(frame, number, f"p{number}", offset))
    return statements


def _staged_offset(
    layout: TileLayout, frame: Frame, d: int, inside: Index, statements: list[Statement]
) -> Index:
    if layout.has(d, FULL):
        return layout.stride(d, FULL) * inside
    block = frame.tilings[d].block
    outer, inner = layout.stride(d, OUTER), layout.stride(d, INNER)
    if inner * block == outer:
        return inner * inside
    number, rest = frame.tilings[d].var("k"), frame.tilings[d].var("m")
    declared = {s.name for s in statements if isinstance(s, LetIndex)}
    if number not in declared:
        statements.append(LetIndex(number, IndexCalc("/", inside, as_index(block))))
        statements.append(LetIndex(rest, IndexCalc("%", inside, as_index(block))))
    return outer * name(number) + inner * name(rest)
