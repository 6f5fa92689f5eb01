"""Cooperative scatter: work-items update a copy in local memory by atomic operations.

A group has one copy of the partial results, in local memory, and its work-items combine into it by
atomic operations. Those give one result in any order where the operator is of integers.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.errors import LoweringError
from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import Frame, LaneVector, Steps, tile_of
from mdtensor.lower.codegen.base.partition import tile_loops, whole_part
from mdtensor.lower.codegen.base.tuple_variables import lets
from mdtensor.lower.codegen.base.value_from_expr import identity_of
from mdtensor.lower.codegen.body.tile_body import Body
from mdtensor.lower.codegen.memory.tile_accesses import room_in, tile_pointers, wide
from mdtensor.lower.ir.group_statements import Atomic, Barrier
from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.ir.register_types import I64, register_dtype
from mdtensor.lower.ir.statements import Allocate, If, Let, LetIndex, Loop, Statement, VectorStore
from mdtensor.lower.ir.values import Load, Ref
from mdtensor.translate.combine import Operator

_ONE = LaneVector(0, 1, 1)
_OPERATIONS = ("add", "min", "max")
_SIZES = (4, 8)  # bytes of integers that atomic operations combine
LOCAL_BYTES = 40 << 10


def atomic_operations(operator: Operator) -> tuple[str, ...]:
    """The atomic operation of each element of a tuple; () where one has none.

    >>> from mdtensor.translate.combine import named
    >>> atomic_operations(named("max", ["i4"])), atomic_operations(named("add", ["f4"]))
    (('max',), ())
    """
    found: list[str] = []
    width = len(operator.dtypes)
    for k, (result, dtype) in enumerate(zip(operator.results, operator.dtypes, strict=True)):
        places = [arg.value for arg in result.args if arg.op == "param"]
        plain = result.op in _OPERATIONS and sorted(map(str, places)) == sorted(
            (str(k), str(k + width))
        )
        if not plain or dtype.kind not in "iu" or dtype.itemsize not in _SIZES:
            return ()
        found.append(result.op)
    return tuple(found)


def scatter_blocks(frame: Frame, dim: int, destinations: Sequence[Destination]) -> list[Statement]:
    """Scatter a group's elements into its copy, and write the copy; `dim` is scattered.

    The scalar function of the frame's problem gives the values and the index.
    """
    problem, tilings = frame.problem, frame.tilings
    walked = [d for d in frame.schedule.group_order if problem.reduced[d] and tilings[d].tile]
    statements = [s for d in problem.dims if d not in walked for s in whole_part(tilings[d])]
    body = tile_loops(tilings, walked, _elements(frame, dim))
    cleared = [
        VectorStore(f"H{k}", value.dtype, name("p"), value)
        for k, value in enumerate(identity_of(frame.operator))
    ]
    others = total(
        destinations[0].strides[d] * name(tilings[d].var("t")) for d in problem.kept if d != dim
    )
    written: list[Statement] = []
    for k, destination in enumerate(destinations):
        place = destination.offset + others + destination.strides[dim] * name("p")
        value = Load(f"H{k}", destination.memory, name("p"))
        written.append(VectorStore(destination.pointer, destination.memory, place, value))
    return [
        *_through(frame, dim, cleared),
        Barrier(),
        *statements,
        *body,
        Barrier(),
        *_through(frame, dim, written),
    ]


def scatter_memory(frame: Frame, dim: int) -> list[Statement]:
    """A group's copy of the partial results."""
    extent = frame.problem.extents[dim].constant
    types = [register_dtype(dtype) for dtype in frame.operator.dtypes]
    if extent is None or extent * sum(t.itemsize for t in types) > LOCAL_BYTES:
        raise LoweringError(f"partial results of {extent} points are too many for local memory")
    return [Allocate(f"H{k}", dtype, "local", extent) for k, dtype in enumerate(types)]


def _through(frame: Frame, dim: int, body: Sequence[Statement]) -> list[Statement]:
    """The loop of all work-items over a group's copy."""
    items = frame.items
    first = name("item") if items > 1 else as_index(0)
    stop = frame.problem.extents[dim] + (items - 1)
    return [Loop("p", first, stop, as_index(items), tuple(body))]


def _elements(frame: Frame, dim: int) -> list[Statement]:
    """A block of elements: loads of all values and indices, then their combinations."""
    problem, tilings = frame.problem, frame.tilings
    reduced = [tilings[d] for d in problem.contracted]
    statements: list[Statement] = [LetIndex(t.var("r"), t.first) for t in tilings]
    pointers, _ = tile_pointers(frame, ())
    points: list[Steps] = [()]
    for d, tiling in zip(problem.contracted, reduced, strict=True):
        positions = tiling.positions(tiling.register)
        points = [(*steps, (d, position)) for steps in points for position in positions]
    tile = tile_of(frame, dict.fromkeys(problem.kept, 1))
    together = Body(frame, tile, {}, "b", None)
    loads: list[Statement] = []
    combined: list[Statement] = []
    single = list[Statement](pointers)
    for n, steps in enumerate(points):
        found, taken = _combined(frame, together, n, steps, dim)
        loads += found
        combined += taken
        alone = Body(frame, tile, {}, "b", None, prefix=f"{n}_")
        found, taken = _combined(frame, alone, n, steps, dim)
        inside: tuple[Statement, ...] = (*found, *taken)
        for d, position in steps:
            if tilings[d].is_ragged:
                index = name(tilings[d].var("r")) + position
                inside = (If(index, "<", name(tilings[d].var("e")), inside),)
        single += inside
    whole = [*pointers, *wide(frame, (), (), loads), *combined]
    checks, room = room_in(frame, problem.contracted)
    if room is None:
        return [*statements, *whole]
    chosen = If(as_index(0), "<=", room, tuple(whole), tuple(single))
    return [*statements, *checks, chosen]


def _combined(
    frame: Frame, body: Body, number: int, steps: Steps, dim: int
) -> tuple[list[Statement], list[Statement]]:
    """Declare the values and index of an element, and combine them if the index is in range."""
    problem = frame.problem
    (point,) = body.tile.points
    *values, index = body.values(problem.scalar, problem.reads, point, steps, _ONE)
    found = [*body.statements]
    body.statements.clear()
    held = [Ref(f"v{number}_{k}", value.dtype) for k, value in enumerate(values)]
    found += lets(held, values)
    at = Ref(f"at{number}", I64)
    found.append(Let(at, index))
    place: Index = name(at.name)
    operations = atomic_operations(frame.operator)
    atomics = tuple(
        Atomic(operation, f"H{k}", ref.dtype, place, ref)
        for k, (operation, ref) in enumerate(zip(operations, held, strict=True))
    )
    below = If(place, "<", problem.extents[dim], atomics)
    return found, [If(as_index(-1), "<", place, (below,))]
