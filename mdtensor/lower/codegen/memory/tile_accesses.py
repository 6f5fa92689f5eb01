"""Pointers to a register tile in memory, and its vectorised accesses.

For tiles that are computed where they lie: without a reduction, or along a scanned dim.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from mdtensor.lower.codegen.base.destinations import Destination, Destinations, at_first_point
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.staged_layouts import INNER
from mdtensor.lower.codegen.base.stream_pointers import stream_pointer
from mdtensor.lower.codegen.base.wide_accesses import lanes_of, wide_loads, wide_stores
from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.ir.statements import IndexCalc, LetIndex, Statement
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.tiling import DimTiling


def room_in(
    frame: Frame, dims: Collection[int] | None = None, prefix: str = "room"
) -> tuple[list[Statement], Index | None]:
    """Declare the distance to the ends of some dims; negative if a point lies outside.

    None where points never do; all dims by default.
    """
    among = frame.problem.dims if dims is None else dims
    ragged = [frame.tilings[d] for d in among if frame.tilings[d].is_ragged]
    left = [left for tiling in ragged for left in _room(tiling)]
    return room_of(left, prefix) if left else ([], None)


def room_of(left: Sequence[Index], prefix: str) -> tuple[list[Statement], Index]:
    """Declare the bitwise or of distances, which is negative where any of them is.

    Their minimum would say the same, but of the minimum of three numbers NVIDIA's assembler loses
    the sign of one that is negated (docs/adr/0004).
    """
    statements: list[Statement] = []
    room = left[0]
    for n, each in enumerate(left):
        held = f"{prefix}{n}"
        statements.append(LetIndex(held, IndexCalc("|", each, room) if n else each))
        room = name(held)
    return statements, room


def _room(tiling: DimTiling) -> list[Index]:
    """Distances to the ends of a dim, negative where a work-item's points overrun it."""
    first, span = name(tiling.var("r")), tiling.positions(tiling.register)[-1] + 1
    after = name(tiling.var("e")) - first - span
    return [after, first] if tiling.lead else [after]


def loose_dims(frame: Frame) -> tuple[int, ...]:
    """Dims whose points beyond the end still read inside the array, so need no guard."""
    problem = frame.problem
    ranges = [(0, (tiling.extent.constant or 1) - 1) for tiling in frame.tilings]
    plain = problem.reaches and not any(read.computed for read in problem.all_reads)
    found: list[int] = []
    for d, tiling in enumerate(frame.tilings):
        parts, part = tiling.parts.constant, tiling.part.constant
        if not plain or not tiling.is_ragged or parts is None or part is None:
            continue
        tried = [*ranges]
        tried[d] = (-tiling.lead, parts * part - tiling.lead - 1)
        if _within_reach(problem, tried):
            ranges = tried
            found.append(d)
    return tuple(found)


def _within_reach(problem: Problem, ranges: Sequence[tuple[int, int]]) -> bool:
    """Whether every access within ranges of indices stays inside its array."""
    for read in problem.all_reads:
        stream = problem.streams[read.stream]
        low = high = as_index(read.offset).constant or 0
        for stride, (first, last) in zip(stream.strides, ranges, strict=True):
            ends = sorted((stride.constant or 0) * index for index in (first, last))
            low, high = low + ends[0], high + ends[1]
        least, most = problem.reaches[stream.buffer]
        if low < least or high > most:
            return False
    return True


def tile_pointers(
    frame: Frame, destinations: Sequence[Destination]
) -> tuple[list[Statement], Destinations]:
    """Pointers to a tile's first point in streams and results, and destinations from there."""
    tilings = frame.tilings
    pointers: list[Statement] = []
    for number, stream in enumerate(frame.problem.streams):
        layout = frame.layouts.get(number)
        if layout is None:
            offset = total(
                s * name(t.var("r")) for s, t in zip(stream.strides, tilings, strict=True)
            )
        else:
            offset = total(
                layout.stride(d, INNER) * (name(t.var("r")) - name(t.var("t")))
                for d, t in enumerate(tilings)
            )
        pointers.append(stream_pointer(frame, number, f"b{number}", offset))
    results, placed = at_first_point(frame, destinations, "o", frame.problem.dims)
    return [*pointers, *results], placed


def wide(
    frame: Frame,
    destinations: Sequence[Destination],
    placed: Sequence[Destination],
    statements: Sequence[Statement],
) -> list[Statement]:
    """A whole tile's statements with loads and stores vectorised."""
    return wide_writes(frame, destinations, placed, wide_reads(frame, destinations, statements))


def wide_reads(
    frame: Frame,
    destinations: Sequence[Destination],
    statements: Sequence[Statement],
    most: Mapping[str, int] = MappingProxyType({}),
) -> list[Statement]:
    """A whole tile's statements with loads vectorised, up to `most` lanes of some streams."""
    read = {f"b{n}": _lanes_of_stream(frame, n) for n in range(len(frame.problem.streams))}
    read |= {pointer: math.gcd(read[pointer], lanes) for pointer, lanes in most.items()}
    return wide_loads(statements, read, _phases(frame, destinations))


def wide_writes(
    frame: Frame,
    destinations: Sequence[Destination],
    placed: Sequence[Destination],
    statements: Sequence[Statement],
) -> list[Statement]:
    """A whole tile's statements with stores vectorised."""
    written = {
        after.pointer: math.gcd(
            lanes_along(frame, before.memory, before.strides), _multiple_of_names(before.offset)
        )
        for after, before in zip(placed, destinations, strict=True)
    }
    phases = _phases(frame, destinations)
    return wide_stores(statements, written, phases, streaming=frame.schedule.streaming)


def _phases(frame: Frame, destinations: Sequence[Destination]) -> dict[str, int]:
    """The misalignment of a tile's first point in elements, by pointer."""

    def lead(strides: Sequence[Index]) -> int:
        nearest = nearest_dim(strides)
        return 0 if nearest < 0 else frame.tilings[nearest].lead * (strides[nearest].constant or 0)

    phases = {f"b{n}": -lead(stream.strides) for n, stream in enumerate(frame.problem.streams)}
    for k, given in enumerate(destinations):
        phases[f"o{k}"] = given.offset.split()[1] - lead(given.strides)
    return phases


def _lanes_of_stream(frame: Frame, number: int) -> int:
    """Elements of a stream that one access can read."""
    if number in frame.layouts:
        return frame.lanes_in_tile(number)
    problem = frame.problem
    stream = problem.streams[number]
    reads = [read for read in problem.all_reads if read.stream == number]
    if any(read.computed for read in reads):
        return 1
    lanes = lanes_along(frame, problem.inputs[stream.buffer], stream.strides)
    return math.gcd(lanes, *(_multiple_of_names(as_index(read.offset)) for read in reads))


def _multiple_of_names(offset: Index) -> int:
    """The largest known divisor of an offset's symbolic part; 0 without such a part."""
    names, _ = offset.split()
    return math.gcd(*(coefficient for _, coefficient in names.terms))


def lanes_along(frame: Frame, memory: np.dtype, strides: Sequence[Index]) -> int:
    """Elements of a buffer that one access can take along its contiguous dim."""
    nearest = nearest_dim(strides)
    if nearest < 0 or not frame.aligned:
        return 1
    steps = [stride.constant or 0 for d, stride in enumerate(strides) if d != nearest]
    if any(stride.constant is None for stride in strides):
        return 1
    return math.gcd(lanes_of(memory), frame.tilings[nearest].near, *steps)


def nearest_dim(strides: Sequence[Index]) -> int:
    """The only dim of stride 1 or -1; -1 where there is none, or several."""
    near = [d for d, stride in enumerate(strides) if stride.constant in (1, -1)]
    return near[0] if len(near) == 1 else -1
