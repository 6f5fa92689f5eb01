"""The order of a register tile's unrolled points and reduction steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.staged_layouts import FULL
from mdtensor.lower.codegen.base.wide_accesses import lanes_of

Steps = tuple[int, ...]
Point = tuple[int, tuple[int, ...]]

_ROWS = 2  # that take steps together


def traversed(
    frame: Frame,
    points: Sequence[tuple[int, ...]],
    counts: Mapping[int, int],
    steps: Sequence[Steps],
) -> Iterator[tuple[Steps, Point]]:
    """Pairs of a step and a numbered point; each point takes its steps in order.

    Resident points are taken there and back, row by row, so that an operand is used again at every
    turn, which keeps it in the register file's cache. Where one access to a staged tile reads a
    row's elements of several steps, two rows take all of these before the next two do: a row needs
    few registers then, and its products find other banks of them free.
    """
    numbered = list(enumerate(points))
    dims = frame.unrolled_kept
    if not frame.schedule.resident or not dims:
        yield from itertools.product(steps, numbered)
        return
    together, stream = _steps_at_once(frame, counts, len(points))
    if together == 1:
        length = _length_of_row(frame, len(points))
        rows = [numbered[n : n + length] for n in range(0, len(numbered), length)]
        yield from itertools.product(steps, itertools.chain(*_there_and_back(rows)))
        return
    uses = frame.problem.streams[stream].uses
    by_place: dict[tuple[int, ...], list[Point]] = {}
    for number, point in numbered:
        place = tuple(at for d, at in zip(dims, point, strict=True) if uses(d))
        by_place.setdefault(place, []).append((number, point))
    rows = _there_and_back(list(by_place.values()))
    for first in range(0, len(steps), together):
        some = steps[first : first + together]
        for n in range(0, len(rows), _ROWS):
            yield from itertools.product(some, itertools.chain(*rows[n : n + _ROWS]))


def _length_of_row(frame: Frame, points: int) -> int:
    """The number of consecutive points that share an element of some stream, but not all points."""
    problem, registers = frame.problem, frame.schedule.registers
    lengths = {registers[frame.unrolled_kept[-1]]}
    for stream in problem.streams[: problem.finish_streams]:
        shared = itertools.takewhile(
            lambda d, stream=stream: not stream.uses(d), reversed(frame.unrolled_kept)
        )
        lengths.add(math.prod(registers[d] for d in shared))
    return max((n for n in lengths if n < points), default=points)


def _there_and_back(rows: Sequence[list[Point]]) -> list[list[Point]]:
    return [row[::-1] if n % 2 else row for n, row in enumerate(rows)]


def _steps_at_once(frame: Frame, counts: Mapping[int, int], points: int) -> tuple[int, int]:
    """Steps that one access to a staged tile covers, and that tile's stream; 1 and -1 if none."""
    schedule, streams = frame.schedule, frame.problem.streams
    innermost = schedule.reduce_order[-1]
    found: dict[int, int] = {}
    for number, layout in frame.layouts.items():
        lanes = lanes_of(layout.memory)
        own = (schedule.registers[d] for d in frame.unrolled_kept if streams[number].uses(d))
        rows = math.prod(own)
        beside = layout.stride(innermost, FULL).constant == 1
        if lanes > 1 and beside and counts[innermost] % lanes == 0 and 1 < rows < points:
            found[number] = rows
    if not found:
        return 1, -1
    most = max(found, key=lambda number: found[number])
    return lanes_of(frame.layouts[most].memory), most
