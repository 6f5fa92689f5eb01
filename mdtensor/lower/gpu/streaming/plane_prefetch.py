"""2.5-D streaming with prefetch: planes are copied to local memory before a block reads them.

Of a stream, a *plane* is what a group's block reads of it at one index of the dim along which it
marches: a box along the other dims, with what lies around the block. Local memory holds the planes
that one block reads, and those of some blocks that follow, in turns: a plane takes the place of one
that no block reads any more. So every plane is copied once, and a block waits for none that was
asked for long enough before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.memory.tile_sequence import wrapped
from mdtensor.lower.gpu.streaming.planes import Planes
from mdtensor.lower.ir.group_statements import AwaitCopies, Barrier, CommitCopies, CopyAsync
from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.ir.statements import (
    Allocate,
    If,
    Increment,
    IndexCalc,
    Let,
    LetIndex,
    Pointer,
    Statement,
)
from mdtensor.lower.ir.values import Load
from mdtensor.lower.schedule.tiling import DimTiling


@dataclass(frozen=True, slots=True)
class PlanePrefetch:
    """The prefetching of planes by a group of `items` work-items that streams along `d`.

    They march `again` where they walk through blocks of other dims too.
    """

    planes: tuple[Planes, ...]
    tilings: tuple[DimTiling, ...]
    d: int
    items: int
    again: bool = False

    def lanes(self) -> dict[str, int]:
        """The most elements of an access to local memory, by the pointer to a stream."""
        return {f"b{planes.stream}": planes.lanes for planes in self.planes}

    def holds(self, pointer: Statement) -> bool:
        """Whether a statement points to a stream that is read from local memory instead."""
        names = {f"{prefix}{planes.stream}" for planes in self.planes for prefix in "bm"}
        return isinstance(pointer, Pointer) and pointer.name in names

    def declared(self) -> list[Statement]:
        """Declare the arrays in local memory."""
        return [Allocate(p.array, p.memory, "local", p.elements) for p in self.planes]

    def begun(self) -> list[Statement]:
        """Start the copies of the first blocks' planes."""
        if not self.planes:
            return []
        low = name(self.tilings[self.d].var("lo"))
        statements: list[Statement] = [Barrier()] if self.again else []
        for planes in self.planes:
            statements += self._places(planes)
        ahead = self.planes[0].ahead
        for turn in range(ahead):
            for planes in self.planes:
                span = planes.last - planes.first
                wanted = range(span + 1) if not turn else range(span + turn, span + turn + 1)
                for n in wanted:
                    statements += self._asked(planes, low + (planes.first + n), as_index(n))
            statements.append(CommitCopies())
        for planes in self.planes:
            filled = as_index(planes.last - planes.first + ahead)
            statements.append(LetIndex(planes.filled, filled, mutable=True))
            statements.append(LetIndex(planes.read, as_index(0), mutable=True))
        return [*statements, AwaitCopies(ahead - 1), Barrier()]

    def awaited(
        self, before: Sequence[Statement] = (), behind: Sequence[Statement] = ()
    ) -> list[Statement]:
        """Wait for the planes of a block, and start the copy of a later one.

        What else is done `before` the barrier in between, and `behind` it, is given.
        """
        if not self.planes:
            return []
        ahead, here = self.planes[0].ahead, name(self.tilings[self.d].var("t"))
        statements: list[Statement] = [AwaitCopies(ahead - 1), *before, Barrier(), *behind]
        for planes in self.planes:
            plane = here + (planes.last + ahead)
            statements += self._asked(planes, plane, name(planes.filled))
        return [*statements, CommitCopies()]

    def passed(self) -> list[Statement]:
        """Advance the places in local memory to the next block."""
        statements: list[Statement] = []
        for planes in self.planes:
            for place in (planes.filled, planes.read):
                statements += [Increment(place, 1), wrapped(place, planes.count)]
        return statements

    def read_from(
        self, statements: Sequence[Statement], *, first: bool = False
    ) -> tuple[list[Statement], list[Statement]]:
        """Redirect loads to planes in local memory; returns pointers and statements.

        Those of the `first` block find its planes in the first places.
        """
        by_pointer = {f"b{planes.stream}": planes for planes in self.planes}
        pointers: dict[str, list[Statement]] = {}
        result: list[Statement] = []
        for statement in statements:
            load = statement.value if isinstance(statement, Let) else None
            if not isinstance(load, Load) or load.buffer not in by_pointer:
                result.append(statement)
                continue
            assert isinstance(statement, Let)
            planes = by_pointer[load.buffer]
            plane, steps = planes.steps(load.index.constant or 0)
            pointer = f"{'m' if first else 'p'}{planes.stream}_{plane - planes.first}"
            if pointer not in pointers:
                place = as_index(plane - planes.first)
                pointers[pointer] = self._pointed(planes, pointer, place, first)
            along = zip(planes.sides, steps, planes.strides(), strict=True)
            index = total((step - side.low) * stride for side, step, stride in along)
            result.append(replace(statement, value=replace(load, buffer=pointer, index=index)))
        return [s for declared in pointers.values() for s in declared], result

    def _pointed(self, planes: Planes, pointer: str, place: Index, first: bool) -> list[Statement]:
        """Declare a pointer to a work-item's first point in a plane that a block reads."""
        statements: list[Statement] = []
        if not first and place.terms:
            number = f"at{pointer[1:]}"
            statements.append(LetIndex(number, name(planes.read) + place, mutable=True))
            statements.append(wrapped(number, planes.count))
            place = name(number)
        elif not first:
            place = name(planes.read)
        inside = total(
            (name(self.tilings[side.dim].var("r")) - name(self.tilings[side.dim].var("t"))) * stride
            for side, stride in zip(planes.sides, planes.strides(), strict=True)
        )
        offset = place * planes.apart + inside
        return [*statements, Pointer(pointer, planes.array, planes.memory, "local", offset)]

    def _places(self, planes: Planes) -> list[Statement]:
        """Declare the stream offsets of the pieces that a work-item copies."""
        start = total(
            (name(self.tilings[side.dim].var("t")) + side.low) * side.stride
            for side in planes.sides
        )
        runs: list[list[int]] = [[planes.lanes, planes.sides[-1].length // planes.lanes]]
        for side in reversed(planes.sides[:-1]):
            if side.stride == runs[-1][0] * runs[-1][1]:
                runs[-1][1] *= side.length
            else:
                runs.append([side.stride, side.length])
        statements: list[Statement] = []
        for n in range(self._pieces(planes)):
            held = f"from{planes.stream}_{n}"
            rest, offset = self._number(n), start
            for level, (stride, length) in enumerate(runs[:-1]):
                along, left = f"{held}_{level}", f"{held}_{level}_rest"
                statements.append(LetIndex(along, IndexCalc("%", rest, as_index(length))))
                statements.append(LetIndex(left, IndexCalc("/", rest, as_index(length))))
                offset, rest = offset + name(along) * stride, name(left)
            statements.append(LetIndex(held, offset + rest * runs[-1][0]))
        return statements

    def _number(self, n: int) -> Index:
        """The number of a work-item's n-th piece among all pieces of a plane."""
        return name("item") + n * self.items if self.items > 1 else as_index(n)

    def _asked(self, planes: Planes, plane: Index, place: Index) -> list[Statement]:
        """Start the copy of a plane to a place, if the group reads it."""
        statements: list[Statement] = []
        source, lanes = f"I{planes.buffer}", planes.lanes
        last, clamped = planes.reach[1] + 1 - lanes, self._most(planes) > planes.reach[1]
        for n in range(self._pieces(planes)):
            at = plane * planes.stride + name(f"from{planes.stream}_{n}")
            copied: list[Statement] = []
            if clamped:
                held = f"within{planes.stream}_{n}"
                copied.append(LetIndex(held, IndexCalc("min", at, as_index(last))))
                at = name(held)
            to = place * planes.apart + self._number(n) * lanes
            copied.append(CopyAsync(planes.array, to, source, at, planes.memory, lanes))
            count = planes.size // lanes
            if (n + 1) * self.items > count:
                statements.append(If(self._number(n), "<", as_index(count), tuple(copied)))
            else:
                statements += copied
        within = name(self.tilings[self.d].var("hi")) + planes.last
        return [If(plane, "<", within, tuple(statements))]

    def _most(self, planes: Planes) -> int:
        """The largest stream offset that is copied."""
        extent = self.tilings[self.d].extent.constant or 1
        most = (extent - 1 + planes.last) * planes.stride
        for side in planes.sides:
            tiling = self.tilings[side.dim]
            extent = tiling.extent.constant or 1
            start = extent - tiling.block if tiling.overlap else (extent - 1) // tiling.block
            start = start if tiling.overlap else start * tiling.block
            most += (start + side.low + side.length - 1) * side.stride
        return most

    def _pieces(self, planes: Planes) -> int:
        return -(-planes.size // (planes.lanes * self.items))
