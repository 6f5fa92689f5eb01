"""The loops of schedules without register blocking: cache tiles around register tiles.

Staged inputs are copied after the innermost tile loop that they depend on. A register tile is
computed, or scanned, and written before the next one begins; what is no whole tile follows in
smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.destinations import Destination, at_first_point
from mdtensor.lower.codegen.base.frame import Frame, tile_of
from mdtensor.lower.codegen.base.loop_structure import LoopStructure
from mdtensor.lower.codegen.base.partition import cache_tiles, tiles_before
from mdtensor.lower.codegen.body.micro_kernel import compute_tile
from mdtensor.lower.codegen.body.write_outputs import item_turns, shared_memory, write_tile
from mdtensor.lower.codegen.cpu.peel_rows import peeled_loops
from mdtensor.lower.codegen.memory import stage_inputs
from mdtensor.lower.codegen.scan.scan_tile import scan_tile
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.statements import If, IndexCalc, LetIndex, Loop, Statement
from mdtensor.lower.schedule.tiling import DimTiling


def tiled_loops(
    frame: Frame, destinations: Sequence[Destination], carries: Sequence[Destination] = ()
) -> list[Statement]:
    """The loops over a group's part; for a scan, `carries` are the prefixes before the part."""
    order = frame.schedule.group_order
    tiled = [d for d in order if frame.tilings[d].tile]
    register_tiles = _RegisterTiles(frame, destinations, carries)

    def inside(level: int) -> list[Statement]:
        statements: list[Statement] = []
        for number, layout in frame.layouts.items():
            if _depth(frame, number, tiled) == level:
                statements += stage_inputs.copy(
                    layout, frame.problem, frame.schedule, frame.tilings
                )
        if level == len(tiled):
            statements += register_tiles.loops({})
        return statements

    return cache_tiles(frame.tilings, order, inside)


def row_by_row(frame: Frame) -> list[Statement]:
    """Declare `x_d`, the work-item's coordinate along each dim, the last dim fastest."""
    if frame.items == 1:
        return []
    statements: list[Statement] = []
    rest = name("item")
    for d in reversed(frame.schedule.group_order):
        tiling = frame.tilings[d]
        if tiling.threads == 1:
            continue
        threads = as_index(tiling.threads)
        statements.append(LetIndex(tiling.var("x"), IndexCalc("%", rest, threads)))
        quotient = tiling.var("y")
        statements.append(LetIndex(quotient, IndexCalc("/", rest, threads)))
        rest = name(quotient)
    return statements


def _tree_memory(frame: Frame) -> list[Statement]:
    return [*shared_memory(frame), *item_turns(frame)]


TILED = LoopStructure(row_by_row, tiled_loops, _tree_memory)


def _depth(frame: Frame, number: int, tiled: Sequence[int]) -> int:
    """The loop depth at which a stream's tile is copied: after the last tile loop that it uses."""
    stream = frame.problem.streams[number]
    return max((n + 1 for n, d in enumerate(tiled) if stream.uses(d)), default=0)


@dataclass(frozen=True, slots=True)
class _RegisterTiles:
    """Emitter of a cache tile's register tiles, given destinations and a scan's carries."""

    frame: Frame
    destinations: Sequence[Destination]
    carries: Sequence[Destination]

    def loops(self, counts: Mapping[int, int]) -> list[Statement]:
        """The loops over the kept dims without an entry in `counts`."""
        schedule = self.frame.schedule
        if len(counts) == len(schedule.loop_order):
            return self._tile(counts)
        d = schedule.loop_order[len(counts)]

        def inner(count: int) -> tuple[Statement, ...]:
            return tuple(self.loops({**counts, d: count}))

        if schedule.peel and d == schedule.lane:
            return peeled_loops(self.frame, self.destinations[0], inner)
        return _tile_loops(self.frame, d, inner)

    def _tile(self, counts: Mapping[int, int]) -> list[Statement]:
        """A register tile with `counts[d]` points along every kept dim."""
        frame, tile = self.frame, tile_of(self.frame, counts)
        kept = frame.problem.kept
        pointers, destinations = at_first_point(frame, self.destinations, "o", kept)
        if frame.problem.scanned >= 0:
            before, carries = at_first_point(frame, self.carries, "carry", kept)
            return [*pointers, *before, *scan_tile(frame, tile, destinations, carries)]
        earlier = tiles_before(frame.tilings, frame.problem.contracted)
        statements = compute_tile(frame, tile)
        return [*pointers, *statements, *write_tile(frame, tile, destinations, earlier)]


def _tile_loops(
    frame: Frame, d: int, inner: Callable[[int], tuple[Statement, ...]]
) -> list[Statement]:
    """The loop over whole register tiles along a dim, and smaller ones for the remainder."""
    tiling = frame.tilings[d]
    var, end = tiling.var("r"), name(tiling.var("e"))
    start = name(tiling.var("t"))
    if tiling.threads > 1:
        start = start + name(tiling.var("x")) * tiling.register
    extent, register = tiling.extent.constant, tiling.register
    if extent is not None and (extent < register or extent == 1):
        return [LetIndex(var, start), *_guarded(tiling, var, end, inner(extent))]
    statements: list[Statement] = [LetIndex(var, start, mutable=True)]
    stop = end + (tiling.block - register)
    statements.append(Loop(var, None, stop, as_index(tiling.block), inner(register)))
    if tiling.remainder is not None:
        if tiling.remainder:
            # "var < end" says the same, but Intel's compiler was seen to store in wrong places
            # then, where the loop before ran once or not at all.
            rest = name(var) + tiling.remainder
            statements.append(If(rest, "<=", end, inner(tiling.remainder)))
        return statements
    if register == 1:
        return statements
    # Few bodies, each in a loop, since a first call waits for the compiler.
    width = frame.schedule.width if d == frame.schedule.lane else 1
    length = width if width < register else max(1, register // 4)
    while length < register:
        statements.append(Loop(var, None, end, as_index(length), inner(length)))
        register, length = length, max(1, length // 4)
    return statements


def _guarded(
    tiling: DimTiling, var: str, end: Index, body: tuple[Statement, ...]
) -> list[Statement]:
    return list(body) if tiling.threads == 1 else [If(name(var), "<", end, body)]
