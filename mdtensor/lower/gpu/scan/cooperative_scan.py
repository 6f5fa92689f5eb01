"""Cooperative scan: each work-item scans its own points, then work-items exchange totals.

A work-item's points along the scanned dim are chunks of neighbours; a row of chunks is a warp's.
Totals of chunks are scanned within the warp, totals of warps go through local memory. What comes
before a block is what the blocks before it in the group gave, or what groups before it tell.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import field

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import Frame, LaneVector, Steps, tile_of
from mdtensor.lower.codegen.base.item_numbers import item_numbers
from mdtensor.lower.codegen.base.loop_structure import LoopStructure
from mdtensor.lower.codegen.base.partition import tile_loop, tile_loops, whole_parts
from mdtensor.lower.codegen.base.tuple_variables import lets, sets, sets_at_once
from mdtensor.lower.codegen.base.value_from_expr import combined, identity_of
from mdtensor.lower.codegen.body.tile_body import Body
from mdtensor.lower.codegen.body.write_outputs import finish_values, stores
from mdtensor.lower.codegen.memory.tile_accesses import room_in, tile_pointers, wide
from mdtensor.lower.codegen.scan.look_back import look_back, window
from mdtensor.lower.ir.group_statements import Barrier, WarpShuffle
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.ir.statements import (
    EXCHANGE,
    Allocate,
    Declare,
    If,
    IndexCalc,
    Let,
    LetIndex,
    Loop,
    Statement,
    VectorStore,
)
from mdtensor.lower.ir.values import Load, Ref, Value
from mdtensor.lower.schedule.tiling import DimTiling
from mdtensor.translate.combine import Operator

_ONE = LaneVector(0, 1, 1)
Tuples = tuple[Ref, ...]


def scan_blocks(frame: Frame, destinations: Sequence[Destination]) -> list[Statement]:
    """The loops over blocks, and the scan of a block by all work-items."""
    block = _Block(frame, tuple(destinations))
    scanned, tilings = frame.problem.scanned, frame.tilings
    body = block.scanned()
    if tilings[scanned].tile:
        body = [*block.without_carries(), tile_loop(tilings[scanned], body)]
    others = [d for d in frame.schedule.group_order if d != scanned]
    return [*whole_parts(tilings), *tile_loops(tilings, others, body)]


def scan_memory(frame: Frame) -> list[Statement]:
    """Local memory in which work-items and warps exchange totals."""
    block = _Block(frame, ())
    points, tiling, found = len(block.points), block.tiling, list[Statement]()
    for k, ref in enumerate(block.tuple_of("")):
        if block.warps > 1:
            found.append(Allocate(f"W{k}", ref.dtype, "local", points * block.items // tiling.row))
        if tiling.row > 1:
            size = points * block.chunks * block.items
            found.append(Allocate(f"X{k}", ref.dtype, EXCHANGE, size))
    return [*found, *window(block.tuple_of(""), block.items)] if tiling.is_split else found


SCAN = LoopStructure(item_numbers, scan_blocks, scan_memory)


@dataclass(slots=True)
class _Block:
    """Emitter of the scan of one block; `statements` grow as it runs."""

    frame: Frame
    destinations: tuple[Destination, ...]
    statements: list[Statement] = field(default_factory=list[Statement])

    @property
    def tiling(self) -> DimTiling:
        """The scanned dim."""
        return self.frame.tilings[self.frame.problem.scanned]

    @property
    def operator(self) -> Operator:
        """The operator of the scan."""
        return self.frame.operator

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return math.prod(self.frame.schedule.threads)

    @property
    def points(self) -> list[tuple[int, ...]]:
        """Points of a work-item along the kept dims."""
        counts = {d: self.frame.tilings[d].register for d in self.frame.problem.kept}
        return list(tile_of(self.frame, counts).points)

    @property
    def chunks(self) -> int:
        """Chunks of a work-item along the scanned dim."""
        return self.tiling.register // self.tiling.near

    @property
    def warps(self) -> int:
        """Rows of work-items along the scanned dim."""
        return self.tiling.threads // self.tiling.row

    def tuple_of(self, prefix: str) -> Tuples:
        """Variables for a tuple."""
        types = self.frame.problem.scalar.result_dtypes
        return tuple(Ref(f"{prefix}_{k}", register_dtype(t)) for k, t in enumerate(types))

    def without_carries(self) -> list[Statement]:
        """Declare an identity carry into the first block of a part."""
        neutral = identity_of(self.operator)
        return [
            Let(ref, value, mutable=True)
            for u in range(len(self.points))
            for ref, value in zip(self.tuple_of(f"c{u}"), neutral, strict=True)
        ]

    def scanned(self) -> list[Statement]:
        """Emit the scan: loads, sums in chunks, warps and the group, carries, results."""
        tilings = self.frame.tilings
        if self.tiling.threads > 1:
            across, row = name(self.tiling.var("x")), as_index(self.tiling.row)
            self._add(LetIndex(self.tiling.var("w"), IndexCalc("/", across, row)))
            self._add(LetIndex(self.tiling.var("l"), IndexCalc("%", across, row)))
        self._add(*(LetIndex(tiling.var("r"), tiling.first) for tiling in tilings))
        checks, room = room_in(self.frame)
        self._add(*checks)
        self._load(room)
        sums = [self._sums_in_chunks(u) for u in range(len(self.points))]
        before, totals = self._in_warps([[row[-1] for row in rows] for rows in sums])
        earlier, totals = self._among_warps(totals)
        if self.tiling.is_split:
            carries = [look_back(self.frame, totals[0], self.statements)]
        else:
            carries = [self.tuple_of(f"c{u}") for u in range(len(totals))]
        carried = self.tiling.is_split or self.tiling.tile > 0
        if carried:
            earlier = [
                self._combined(f"g{u}", carry, before_warp)
                for u, (carry, before_warp) in enumerate(zip(carries, earlier, strict=True))
            ]
        self._write(
            room,
            sums,
            [
                [self._combined(f"q{u}_{c}", earlier[u], chunk) for c, chunk in enumerate(row)]
                for u, row in enumerate(before)
            ],
        )
        if carried and not self.tiling.is_split:
            self._carry_on(carries, totals)
        return self.statements

    def _add(self, *statements: Statement) -> None:
        self.statements += statements

    def _combined(self, prefix: str, lhs: Tuples | None, rhs: Tuples | None) -> Tuples | None:
        """Combine two tuples in new variables; None stands for an empty prefix."""
        if lhs is None or rhs is None:
            return lhs or rhs
        return self._held(prefix, combined(self.operator, lhs, rhs))

    def _held(self, prefix: str, values: Sequence[Value]) -> Tuples:
        refs = self.tuple_of(prefix)
        self._add(*lets(refs, values))
        return refs

    def _carry_on(self, carries: Sequence[Tuples], totals: Sequence[Tuples]) -> None:
        for u, (carry, total) in enumerate(zip(carries, totals, strict=True)):
            following = self._combined(f"d{u}", carry, total)
            assert following is not None
            self._add(*sets(carry, following))

    # ---- elements

    def _steps(self) -> Iterator[tuple[int, int, tuple[int, ...], Steps]]:
        """The numbers and positions of a work-item's points, along the kept dims and the scan."""
        positions = self.tiling.positions(self.tiling.register)
        for (u, point), (n, position) in itertools.product(
            enumerate(self.points), enumerate(positions)
        ):
            yield u, n, point, ((self.frame.problem.scanned, position),)

    def _load(self, room: Index | None) -> None:
        """Declare the elements `v`; beyond the end of a dim they are the identity."""
        problem, frame = self.frame.problem, self.frame
        pointers, placed = tile_pointers(frame, self.destinations)
        tile, neutral = tile_of(frame, dict.fromkeys(problem.kept, 1)), identity_of(self.operator)
        whole, single = list[Statement](), list[Statement](pointers)
        together = Body(frame, tile, {}, "b", None)
        for u, n, point, step in self._steps():
            refs = self.tuple_of(f"v{u}_{n}")
            alone = Body(frame, tile, {}, "b", None, prefix=f"{u}_{n}_")
            single += sets(refs, neutral)
            elements: list[list[Statement]] = []
            for body in (together, alone):
                values = body.values(problem.scalar, problem.reads, point, step, _ONE)
                taken = sets(refs, values)
                elements.append([*body.statements, *taken])
                body.statements.clear()
            whole += elements[0]
            single += self._where_inside(point, step, elements[1])
            self._add(*(Declare(ref) for ref in refs))
        whole = [*pointers, *wide(frame, self.destinations, placed, whole)]
        self._where_whole(room, whole, single)

    def _where_whole(
        self, room: Index | None, whole: Sequence[Statement], single: Sequence[Statement]
    ) -> None:
        """Emit `whole` where the tile lies inside its dims, `single` where it is partial."""
        if room is None:
            room = as_index(0)
            single = ()
        self._add(If(as_index(0), "<=", room, tuple(whole), tuple(single)))

    def _where_inside(
        self, point: tuple[int, ...], step: Steps, statements: Sequence[Statement]
    ) -> list[Statement]:
        found: tuple[Statement, ...] = tuple(statements)
        for d, position in (*zip(self.frame.unrolled_kept, point, strict=True), *step):
            tiling = self.frame.tilings[d]
            if tiling.is_ragged:
                index = name(tiling.var("r")) + position
                found = (If(index, "<", name(tiling.var("e")), found),)
        return [*found]

    # ---- sums

    def _sums_in_chunks(self, u: int) -> list[list[Tuples]]:
        """The prefix sums within every chunk."""
        found: list[list[Tuples]] = []
        for c in range(self.chunks):
            first = c * self.tiling.near
            sums = [self.tuple_of(f"v{u}_{first}")]
            for n in range(first + 1, first + self.tiling.near):
                results = combined(self.operator, sums[-1], self.tuple_of(f"v{u}_{n}"))
                sums.append(self._held(f"s{u}_{n}", results))
            found.append(sums)
        return found

    def _in_warps(
        self, chunks: Sequence[Sequence[Tuples]]
    ) -> tuple[list[list[Tuples | None]], list[Tuples]]:
        """The prefix before every chunk in its warp, and the warp's totals, by kept point."""
        row = self.tiling.row
        if row == 1:
            rows, inside = chunks, [[None] * self.chunks for _ in chunks]
        else:
            rows, inside = self._scanned_rows(chunks)
        before: list[list[Tuples | None]] = []
        totals: list[Tuples] = []
        for u, along in enumerate(rows):
            run: Tuples | None = None
            before.append([])
            for c, total in enumerate(along):
                before[u].append(self._after(f"p{u}_{c}", run, inside[u][c]))
                run = self._combined(f"z{u}_{c}", run, total)
            assert run is not None
            totals.append(run)
        return before, totals

    def _after(self, prefix: str, run: Tuples | None, inside: Tuples | None) -> Tuples | None:
        """The prefix of earlier rows combined with that of earlier lanes in this row."""
        if inside is None:
            return run
        first = identity_of(self.operator) if run is None else run
        refs = self.tuple_of(prefix)
        self._add(*lets(refs, first, mutable=True))
        results = inside if run is None else combined(self.operator, run, inside)
        held = self.tuple_of(f"{prefix}h")
        body: list[Statement] = sets_at_once(refs, results, held)
        self._add(If(as_index(0), "<", name(self.tiling.var("l")), tuple(body)))
        return refs

    def _scanned_rows(
        self, chunks: Sequence[Sequence[Tuples]]
    ) -> tuple[list[list[Tuples]], list[list[Tuples | None]]]:
        """Totals of all rows of chunks, and the prefix before a work-item's chunk in each."""
        lane = name(self.tiling.var("l"))
        held: list[Tuples] = []
        for n, total in enumerate(itertools.chain(*chunks)):
            refs = self.tuple_of(f"t{n}")
            self._add(*lets(refs, total, mutable=True))
            held.append(refs)
        distance = 1
        while distance < self.tiling.row:
            others = self._exchanged("up", distance, held, f"o{distance}_")
            body: list[Statement] = []
            for n, (other, refs) in enumerate(zip(others, held, strict=True)):
                fresh = self.tuple_of(f"n{distance}_{n}")
                results = combined(self.operator, other, refs)
                body += sets_at_once(refs, results, fresh)
            self._add(If(as_index(distance - 1), "<", lane, tuple(body)))
            distance *= 2
        before = self._exchanged("up", 1, held, "b")
        totals = self._exchanged("from", self.tiling.row - 1, held, "e")
        count = self.chunks

        def by_points(tuples: Sequence[Tuples]) -> list[list[Tuples]]:
            return [list(tuples[n : n + count]) for n in range(0, len(tuples), count)]

        return by_points(totals), [[*row] for row in by_points(before)]

    def _exchanged(self, kind: str, lane: int, held: Sequence[Tuples], prefix: str) -> list[Tuples]:
        others = [self.tuple_of(f"{prefix}{n}") for n in range(len(held))]
        width = len(others[0])
        places = [(f"X{k}", n * self.items) for n in range(len(held)) for k in range(width)]
        self._add(
            WarpShuffle(
                kind,
                lane,
                tuple(itertools.chain(*others)),
                tuple(itertools.chain(*held)),
                self.items,
                tuple(buffer for buffer, _ in places),
                tuple(offset for _, offset in places),
                self.tiling.row,
            )
        )
        return others

    def _among_warps(self, totals: Sequence[Tuples]) -> tuple[list[Tuples | None], list[Tuples]]:
        """The prefix before a warp in its block, and the block's totals, by kept point."""
        if self.warps == 1:
            return [None] * len(totals), list(totals)
        tiling = self.tiling
        kept = self.items // tiling.threads
        number = name("kept")
        if self.frame.problem.reduced[self.frame.schedule.group_order[-1]]:
            value = IndexCalc("/", name("item"), as_index(tiling.threads))
        else:
            value = IndexCalc("%", name("item"), as_index(kept))
        self._add(LetIndex("kept", value), Barrier())
        stored: list[Statement] = []
        for u, total in enumerate(totals):
            place = (name(tiling.var("w")) + u * self.warps) * kept + number
            stored += [VectorStore(f"W{k}", ref.dtype, place, ref) for k, ref in enumerate(total)]
        self._add(If(name(tiling.var("l")), "<", as_index(1), tuple(stored)), Barrier())
        neutral = identity_of(self.operator)
        before = [self.tuple_of(f"k{u}") for u in range(len(totals))]
        whole = [self.tuple_of(f"y{u}") for u in range(len(totals))]
        for refs in (*before, *whole):
            self._add(*lets(refs, neutral, mutable=True))
        body: list[Statement] = []
        for u in range(len(totals)):
            place = (name("n") + u * self.warps) * kept + number
            one = self.tuple_of(f"h{u}")
            body += [Let(ref, Load(f"W{k}", ref.dtype, place)) for k, ref in enumerate(one)]
            earlier = self._accumulated(f"m{u}", before[u], one)
            body.append(If(name("n"), "<", name(tiling.var("w")), tuple(earlier)))
            body += self._accumulated(f"j{u}", whole[u], one)
        self._add(Loop("n", as_index(0), as_index(self.warps), as_index(1), tuple(body)))
        return [*before], whole

    def _accumulated(self, prefix: str, refs: Tuples, one: Tuples) -> list[Statement]:
        held = self.tuple_of(prefix)
        results = combined(self.operator, refs, one)
        return [
            *sets_at_once(refs, results, held),
        ]

    # ---- results

    def _write(
        self,
        room: Index | None,
        sums: Sequence[Sequence[Sequence[Tuples]]],
        before: Sequence[Sequence[Tuples | None]],
    ) -> None:
        frame = self.frame
        pointers, placed = tile_pointers(frame, self.destinations)
        tile = tile_of(frame, dict.fromkeys(frame.problem.kept, 1))
        whole, single = list[Statement](), list[Statement](pointers)
        together = Body(frame, tile, {}, "b", None, prefix="e")
        for u, n, point, step in self._steps():
            c, inside = divmod(n, self.tiling.near)
            result = self._combined(f"r{u}_{n}", before[u][c], sums[u][c][inside])
            assert result is not None
            kept = tuple(zip(frame.unrolled_kept, point, strict=True))
            alone = Body(frame, tile, {}, "b", None, prefix=f"e{u}_{n}_")
            written: list[list[Statement]] = []
            for body in (together, alone):
                found: list[Statement] = []
                done = finish_values(body, point, step, _ONE, result, f"{u}_{n}", found)
                written.append([*found, *stores(frame, (*kept, *step), _ONE, done, placed)])
            whole += written[0]
            single += self._where_inside(point, step, written[1])
        whole = [*pointers, *wide(frame, self.destinations, placed, whole)]
        self._where_whole(room, whole, single)
