"""Warp-specialised products: one warp issues TMA copies, the others multiply by wgmma.

One warp more than compute asks for the tiles: it waits until a stage of local memory is free, and
has the copy engine fill it. The others wait until it is full, begin its product, and free the stage
of the product before. Blocks follow each other without a pause: tiles of the next one are on their
way while results are written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.item_numbers import item_numbers
from mdtensor.lower.codegen.base.loop_structure import LoopStructure
from mdtensor.lower.codegen.base.partition import whole_parts
from mdtensor.lower.codegen.memory.tile_sequence import (
    TURN,
    advanced,
    starts_of,
    tiled_of,
    turns_of,
)
from mdtensor.lower.codegen.register_blocking.register_blocking import (
    beginning,
    blocks,
    resident_memory,
)
from mdtensor.lower.codegen.register_blocking.write_register_blocks import write_results
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import (
    accumulators_of,
    is_held,
    is_turned,
    matrices_of,
)
from mdtensor.lower.gpu.tma.tma_layout import (
    ROW_BYTES,
    ROWS,
    Box,
    box_of,
    own_dims,
    panel_of,
    steps_held,
)
from mdtensor.lower.gpu.tma.wgmma_store import (
    all_stored,
    bulk_results,
    map_of_results,
    panels_of_results,
)
from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.ir.register_types import F32
from mdtensor.lower.ir.statements import (
    Allocate,
    If,
    Increment,
    IndexCalc,
    LetIndex,
    Loop,
    Statement,
)
from mdtensor.lower.ir.tma_statements import (
    AwaitProducts,
    AwaitSignal,
    BulkCopy,
    PanelOperand,
    PanelProduct,
    SendSignal,
    Signals,
    TensorMap,
)
from mdtensor.lower.problem.problem import Axis
from mdtensor.lower.problem.zero_padding import begin_of
from mdtensor.lower.schedule.machine_model import WARP

# Columns of a block up to which products are awaited at once. Their few accumulators were wrong
# where the next product began before, and the compiler had unrolled the loop.
AWAITED = 32
_FULL, _EMPTY = "full", "empty"
_STAGE, _PHASE, _BEFORE, _FOUR_WARPS = "stage", "phase", "before", "four_warps"
_U64 = np.dtype(np.uint64)


def bulk_tiles(frame: Frame, destinations: Sequence[Destination]) -> list[Statement]:
    """The body of a warp-specialised group: its last warp copies, the others compute."""
    items, stages = frame.items, frame.schedule.stages
    statements = whole_parts(frame.tilings)
    computing = [
        LetIndex(_FOUR_WARPS, IndexCalc("/", name("warp"), as_index(4))),
        *_first_stage(0),
        *blocks(frame, _computed(frame, destinations)),
    ]
    if frame.schedule.results:
        computing.append(all_stored())
    copying = [*_first_stage(1), *blocks(frame, _filled(frame))]
    return [
        *statements,
        *(panels_of_results(frame) if frame.schedule.results else []),
        Allocate(_FULL, _U64, "local", stages),
        Allocate(_EMPTY, _U64, "local", stages),
        Signals(((_FULL, stages, 1), (_EMPTY, stages, items // WARP))),
        If(
            name("item"),
            "<",
            as_index(items),
            tuple(computing),
            (If(name("item"), "==", as_index(items), tuple(copying)),),
        ),
    ]


def maps_of(frame: Frame) -> tuple[TensorMap, ...]:
    """The tensor maps (TMA descriptors) of a kernel's arrays."""
    factors = tuple(_map(frame, number, box) for number, box in _boxes(frame).items())
    return (*factors, map_of_results(frame)) if frame.schedule.results else factors


def _boxes(frame: Frame) -> dict[int, Box]:
    """The TMA box of each factor, by stream."""
    found: dict[int, Box] = {}
    for number, own in own_dims(frame.problem, frame.schedule).items():
        blocks = {d: frame.tilings[d].block for d in own}
        panel = panel_of(matrices_of(frame.problem, frame.schedule.tensor))
        box = box_of(frame.problem, number, blocks, frame.schedule.tensor[2], panel)
        assert box is not None
        found[number] = box
    return found


def _map(frame: Frame, number: int, box: Box) -> TensorMap:
    problem = frame.problem
    stream = problem.streams[number]
    offset = next(read.offset for read in problem.reads if read.stream == number)
    return TensorMap(
        f"T{number}",
        f"I{stream.buffer}",
        problem.inputs[stream.buffer],
        begin_of(problem, number, box.axes, offset).constant or 0,
        tuple(axis.extent for axis in box.axes),
        tuple(axis.stride for axis in box.axes),
        box.lengths,
        tf32=problem.inputs[stream.buffer] == F32,
        steps=box.steps if max(box.steps) > 1 else (),
    )


def _first_stage(phase: int) -> list[Statement]:
    return [
        LetIndex(_STAGE, as_index(0), mutable=True),
        LetIndex(_PHASE, as_index(phase), mutable=True),
    ]


def _next_stage(stages: int) -> list[Statement]:
    turned = (Increment(_STAGE, -stages), Increment(_PHASE, 1 - 2 * name(_PHASE)))
    return [Increment(_STAGE, 1), If(as_index(stages), "<=", name(_STAGE), turned)]


def _filled(frame: Frame) -> list[Statement]:
    """The producer warp: for every tile, wait for a free stage and copy the tile there."""
    tiled = tiled_of(frame)
    turns, count = turns_of(frame, tiled)
    starts = starts_of(frame, tiled, "n")
    panel, copies = panel_of(matrices_of(frame.problem, frame.schedule.tensor)), list[Statement]()
    for number, box in _boxes(frame).items():
        layout, length = frame.layouts[number], math.prod(box.lengths)
        panels = frame.tilings[box.turned].block // panel if box.turned >= 0 else 1
        for n in range(panels):
            moved = {d: start + n * panel * (d == box.turned) for d, start in starts.items()}
            at = tuple(_place(axis, moved) for axis in box.axes)
            to = name(_STAGE) * layout.apart + n * length
            copies.append(BulkCopy(f"T{number}", at, layout.pointer, to, _FULL, name(_STAGE)))
    body = [
        AwaitSignal(_EMPTY, name(_STAGE), name(_PHASE)),
        SendSignal(_FULL, name(_STAGE), _tile_bytes(frame)),
        *copies,
        *advanced(frame, tiled, "n"),
        *_next_stage(frame.schedule.stages),
    ]
    cursors = [
        LetIndex(frame.tilings[d].var("n"), name(frame.tilings[d].var("lo")), mutable=True)
        for d in tiled
    ]
    return [*turns, *cursors, Loop(TURN, as_index(0), count, as_index(1), tuple(body))]


def _place(axis: Axis, at: Mapping[int, Index]) -> Index:
    """The index into an array axis, from the start indices of dims."""
    return total(c * at[d] for d, c in enumerate(axis.coefficients) if c) + axis.offset


def _tile_bytes(frame: Frame) -> int:
    """Bytes copied per stage."""
    return sum(
        ROW_BYTES * math.prod(frame.tilings[d].block for d in own)
        for own in own_dims(frame.problem, frame.schedule).values()
    )


def _computed(frame: Frame, destinations: Sequence[Destination]) -> list[Statement]:
    """One block: accumulators, the products of all tiles, the results."""
    tile, statements = beginning(frame)
    row, column, _ = frame.schedule.tensor
    factors = matrices_of(frame.problem, frame.schedule.tensor)
    accumulators = accumulators_of(frame, tile, factors)
    turns, count = turns_of(frame, tiled_of(frame))
    panel, held = panel_of(factors), is_held(frame.problem, factors, row)
    product = PanelProduct(
        _operand(frame, factors.rows, row, name(_FOUR_WARPS) * (ROWS * panel)),
        _operand(frame, factors.columns, column, as_index(0)),
        panel // factors.step,
        accumulators,
        held=steps_held(frame.tilings[column].block) if held else 0,
    )
    refs = tuple(ref for groups in accumulators for pair in groups for ref in pair)
    filled = AwaitSignal(_FULL, name(_STAGE), name(_PHASE))
    if frame.tilings[column].block <= AWAITED:
        freeing = [AwaitProducts(0, refs), _freed(_STAGE)]
        finishing = list[Statement]()
    else:
        freeing = [
            AwaitProducts(1),
            If(as_index(0), "<", name(TURN), (_freed(_BEFORE),)),
            Increment(_BEFORE, name(_STAGE) - name(_BEFORE)),
        ]
        finishing = [AwaitProducts(0, refs), _freed(_BEFORE)]
        turns = [*turns, LetIndex(_BEFORE, as_index(0), mutable=True)]
    body = [filled, product, *freeing, *_next_stage(frame.schedule.stages)]
    through = frame.schedule.results
    results = bulk_results(frame, tile) if through else write_results(frame, tile, destinations)
    return [
        *statements,
        *turns,
        Loop(TURN, as_index(0), count, as_index(1), tuple(body)),
        *finishing,
        *results,
    ]


def _freed(stage: str) -> Statement:
    """Signal that this warp no longer reads a stage."""
    return If(name("lane"), "==", as_index(0), (SendSignal(_EMPTY, name(stage)),))


def _operand(frame: Frame, number: int, own: int, first: Index) -> PanelOperand:
    layout, turned = frame.layouts[number], is_turned(frame.problem, number, own)
    start = name(_STAGE) * layout.apart + first
    factors = matrices_of(frame.problem, frame.schedule.tensor)
    panel, step = panel_of(factors), factors.step
    along = step * panel if turned else step
    return PanelOperand(layout.pointer, start, turned, panel * panel, along, layout.memory)


WGMMA = LoopStructure(item_numbers, bulk_tiles, resident_memory, maps_of, more_items=WARP)
