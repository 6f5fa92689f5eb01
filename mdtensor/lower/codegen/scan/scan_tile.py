"""Prefix sums: the register tile walks along the scanned dim and writes at every step.

The accumulators carry what came before. Where the scanned dim runs over SIMD lanes, a vector is
scanned in itself, in as many steps as its length has binary digits, and then combined with the
carry, so that only one combination a vector waits for the one before.

Groups that share the scanned dim reduce their parts first; the totals are scanned by one of them
(`scan_of_partials`) and become the carries of the groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import Frame, LaneVector, Steps, Tile
from mdtensor.lower.codegen.base.stream_pointers import bases
from mdtensor.lower.codegen.base.tuple_variables import lets, sets, sets_at_once
from mdtensor.lower.codegen.base.value_from_expr import combined, identity_of
from mdtensor.lower.codegen.body.reduction_loops import combining_loops
from mdtensor.lower.codegen.body.tile_body import Body
from mdtensor.lower.codegen.body.write_outputs import finish_values, load_at, stores
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.ir.statements import Let, Loop, Pointer, Statement, VectorStore
from mdtensor.lower.ir.values import Literal, Load, Ref, Shift, Slice, Value
from mdtensor.translate.combine import Operator
from mdtensor.translate.scalar import param

_ONE = LaneVector(0, 1, 1)


def scan_tile(
    frame: Frame, tile: Tile, destinations: Sequence[Destination], carries: Sequence[Destination]
) -> list[Statement]:
    """Scan a tile of the kept dims; `carries` is empty for the first part."""
    operator = frame.operator
    statements = bases(frame)
    for u, point in enumerate(tile.points):
        for piece, refs in _carried(frame, tile, u):
            steps = tuple(zip(frame.unrolled_kept, point, strict=True))
            first: Sequence[Value] = identity_of(operator)
            if carries:
                first = [
                    load_at(frame, carry, steps, piece, ref)
                    for carry, ref in zip(carries, refs, strict=True)
                ]
            statements += lets(refs, first, mutable=True)

    def at_point(counts: Mapping[int, int], lanes: str | None) -> list[Statement]:
        return _Scan(frame, tile, destinations, counts, lanes).statements()

    return [*statements, *combining_loops(frame, tile, at_point)]


def _carried(frame: Frame, tile: Tile, u: int) -> list[tuple[LaneVector, tuple[Ref, ...]]]:
    """The running prefixes of a point: one per piece, or one scalar where lanes are scanned."""
    if frame.lane_is_reduced:
        return [(_ONE, tuple(Ref(ref.name, ref.dtype) for ref in tile.accumulators[u][0]))]
    return list(zip(tile.pieces, tile.accumulators[u], strict=True))


@dataclass(frozen=True, slots=True)
class _Scan:
    """The unrolled steps along the scanned dim, at one point of its loop."""

    frame: Frame
    tile: Tile
    destinations: Sequence[Destination]
    counts: Mapping[int, int]
    lanes: str | None

    def statements(self) -> list[Statement]:
        scanned = self.frame.problem.scanned
        here = name(self.frame.tilings[scanned].var("r"))
        placed: list[Destination] = []
        found: list[Statement] = []
        for k, destination in enumerate(self.destinations):
            offset = destination.strides[scanned] * here
            found.append(
                Pointer(f"q{k}", destination.pointer, destination.memory, "global", offset, False)
            )
            placed.append(replace(destination, pointer=f"q{k}"))
        body = Body(self.frame, self.tile, self.counts, "p", self.lanes)
        finish = Body(self.frame, self.tile, self.counts, "p", self.lanes, prefix="e")
        for number, (steps, vector) in enumerate(self._steps(scanned)):
            for u, point in enumerate(self.tile.points):
                for p, (piece, refs) in enumerate(_carried(self.frame, self.tile, u)):
                    at = vector or piece
                    suffix = f"{number}_{u}_{p}"
                    values = self._combined(body, point, steps, at, refs, suffix, found)
                    done = finish_values(finish, point, steps, at, values, suffix, found)
                    kept = zip(self.frame.unrolled_kept, point, strict=True)
                    found += stores(self.frame, (*kept, *steps), at, done, placed)
        return [*body.asked_ahead(), *found]

    def _steps(self, scanned: int) -> list[tuple[Steps, LaneVector | None]]:
        """Steps along the scanned dim: one by one, or vector by vector."""
        if self.lanes == "single":
            return [((), _ONE)]
        if self.lanes is None:
            return [(((scanned, n),), None) for n in range(self.counts[scanned])]
        pieces = self.tile.pieces[:1] if self.lanes == "vector" else self.tile.pieces
        return [((), piece) for piece in pieces]

    def _combined(
        self,
        body: Body,
        point: tuple[int, ...],
        steps: Steps,
        piece: LaneVector,
        carry: tuple[Ref, ...],
        suffix: str,
        statements: list[Statement],
    ) -> tuple[Ref, ...]:
        """Combine the next elements with the carry, which is set to the last result."""
        problem = self.frame.problem
        operator = self.frame.operator
        given = body.values(problem.scalar, problem.reads, point, steps, piece)
        statements += body.statements
        body.statements.clear()
        values = self._held(f"v{suffix}", given, piece.lanes, statements)
        across = piece.lanes > 1 and self.frame.lane_is_reduced
        if across:
            values = _scanned_vector(operator, values, suffix, statements)
        results = combined(operator, carry, values)
        done = self._held(f"w{suffix}", results, piece.lanes, statements)
        last: Sequence[Value] = done
        if across:
            # The last of the results once more, as a scalar: the next vector waits for one
            # operation, and not for what moves a value out of a vector and into all lanes.
            ends = [Slice(ref, piece.lanes - 1) for ref in values]
            last = self._held(f"l{suffix}", combined(operator, carry, ends), 1, statements)
        statements += sets(carry, last)
        return done

    @staticmethod
    def _held(
        prefix: str, values: Sequence[Value], lanes: int, statements: list[Statement]
    ) -> tuple[Ref, ...]:
        refs = tuple(Ref(f"{prefix}_{k}", v.dtype, lanes) for k, v in enumerate(values))
        statements += lets(refs, values)
        return refs


def _scanned_vector(
    operator: Operator, values: tuple[Ref, ...], suffix: str, statements: list[Statement]
) -> tuple[Ref, ...]:
    """The prefix sums within a vector."""
    by, neutral = 1, _moved_in(operator)
    while by < values[0].lanes:
        before = [Shift(ref, by, fill) for ref, fill in zip(values, neutral, strict=True)]
        results = combined(operator, before, values)
        fresh = tuple(
            Ref(f"u{suffix}_{by}_{k}", ref.dtype, ref.lanes) for k, ref in enumerate(values)
        )
        statements += lets(fresh, results)
        values, by = fresh, 2 * by
    return values


def _moved_in(operator: Operator) -> list[Literal]:
    """The identity that fills vectors when they are shifted; -0.0 for float sums.

    The negative zero is neutral in sums of floats as well. Compilers shift it in by one operation
    that joins two vectors; for a plain zero, LLVM expands a masked vector, which is two.
    """
    neutral = list(identity_of(operator))
    for n, (result, dtype) in enumerate(zip(operator.results, operator.dtypes, strict=True)):
        pair = param(n, dtype), param(n + len(neutral), dtype)
        if dtype.kind == "f" and result.op == "add" and result.args == pair:
            neutral[n] = replace(neutral[n], value=-0.0)
    return neutral


def scan_of_partials(frame: Frame, count: Index, size: Index) -> list[Statement]:
    """Replace the groups' totals R0, R1, … by their exclusive prefix sums."""
    operator = frame.operator
    types = [register_dtype(dtype) for dtype in frame.problem.scalar.result_dtypes]
    carry = [Ref(f"a{k}", dtype) for k, dtype in enumerate(types)]
    held = [Ref(f"t{k}", dtype) for k, dtype in enumerate(types)]
    place = size * name("n") + name("m")
    following = combined(operator, carry, held)
    after = [Ref(f"n{k}", dtype) for k, dtype in enumerate(types)]
    step: list[Statement] = [
        Let(ref, Load(f"R{k}", ref.dtype, place)) for k, ref in enumerate(held)
    ]
    step += [VectorStore(f"R{k}", ref.dtype, place, ref) for k, ref in enumerate(carry)]
    step += sets_at_once(carry, following, after)
    zero, one = as_index(0), as_index(1)
    start: list[Statement] = lets(carry, identity_of(operator), mutable=True)
    inner = Loop("n", zero, count, one, tuple(step))
    return [Loop("m", zero, size, one, (*start, inner))]
