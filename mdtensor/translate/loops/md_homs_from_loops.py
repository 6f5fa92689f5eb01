"""From a Python function of loop nests without named operators to steps, an `md_hom` each.

The dependences say which loops concatenate and which reduce (002, section 7.2).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from mdtensor.dataclass import dataclass
from mdtensor.errors import ProgramError
from mdtensor.specs import TensorSpec
from mdtensor.translate.graphs import count_of_nodes
from mdtensor.translate.loop_nests.carried import CarriedError, LengthyError, retyped
from mdtensor.translate.loop_nests.loop_arguments import bind
from mdtensor.translate.loop_nests.loop_nest_from_source import UNROLLED, Tracer
from mdtensor.translate.loop_nests.loop_pieces import fixed_indices
from mdtensor.translate.loop_nests.source_loop_nest import Nest, Reduced, SourceLoop
from mdtensor.translate.loop_nests.symbolic_buffers import SymbolicBuffer
from mdtensor.translate.loops.assignments import Assignment, assignments
from mdtensor.translate.loops.fusion import fused
from mdtensor.translate.loops.loop_program import LoopProgram
from mdtensor.translate.loops.loop_steps import Apart, Planner, without_dead
from mdtensor.translate.loops.md_hom_from_assignment import check_ends, check_inner_ranges
from mdtensor.translate.loops.range_begins import range_begins
from mdtensor.translate.loops.step_windows import windowed
from mdtensor.translate.loops.written_out import OPERATIONS, joined
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.python.local_functions import LocalFunction
from mdtensor.translate.python.tuples import as_tuple
from mdtensor.translate.rewrites.parts import Box
from mdtensor.translate.scalar import const
from mdtensor.translate.views import AffineIndex

WRITTEN_OUT = 64
"""A loop of at most so many iterations that no operator describes is written out."""

STORES = 512
"""What loops that are written out as few kernels store, at most."""

IN_ORDER = 4096
"""What loops store whose iterations run one after the other, at most."""

FEW_STEPS = 32
"""More steps than these run in order, on windows."""


def md_homs_from_loops(
    program: LocalFunction,
    arguments: Mapping[str, Any],
    *,
    blank: Collection[str] = (),
    in_place: Collection[str] = (),
) -> LoopProgram:
    """The steps of a function of loop nests without named operators.

    `arguments` are specs of arrays and the values of all other parameters. Arrays named in `blank`
    hold zeros at the beginning. Those named in `in_place` may be written in part, since what else
    is in them stays.

    Loops whose order matters become few kernels where they are short, else a step or two for each
    of their iterations.

    Raises ProgramError where a statement is not understood, and where a loop carries a dependence
    that is no reduction.
    """

    def made(way: Way) -> LoopProgram:
        return _program(program, arguments, way, blank, in_place)

    way, first = Way(), None
    while True:
        try:
            return made(way)
        except LengthyError as error:
            if way.in_order:
                raise retyped(ProgramError, first or error) from None
            way = Way(in_order=True)
        except CarriedError as error:
            first = first or error
            after = way.after(error, program.source)
            if after is None and way.in_order:
                raise retyped(ProgramError, first) from None
            way = after or Way(in_order=True)


@dataclass(frozen=True, slots=True)
class Way:
    """A translation strategy: lines of loops to unroll, and of loops to split into pieces.

    Where the steps run `in_order`, there may be many of them.
    """

    unrolled: frozenset[int] = frozenset()
    cut: frozenset[int] = frozenset()
    in_order: bool = False

    def after(self, error: CarriedError, source: FunctionSource) -> Way | None:
        """The strategy to try after a loop-carried dependence in this one; None if there is none.

        What a variable carries becomes one expression, which compilers take long for.
        """
        loop = error.loop
        most = IN_ORDER if self.in_order and not error.is_by_variable else WRITTEN_OUT
        if loop.line in self.unrolled:
            return None
        if self.in_order and loop.line not in self.cut and _has_fixed_indices(source, loop):
            return replace(self, cut=self.cut | {loop.line})
        if loop.tests or loop.extent > most:
            return None
        return replace(self, unrolled=self.unrolled | {loop.line})


def _has_fixed_indices(source: FunctionSource, loop: SourceLoop) -> bool:
    return any(
        isinstance(node, ast.For) and node.lineno == loop.line and fixed_indices(node)
        for node in ast.walk(source.node)
    )


def _program(
    program: LocalFunction,
    arguments: Mapping[str, Any],
    way: Way,
    blank: Collection[str],
    in_place: Collection[str],
) -> LoopProgram:
    source = program.source
    most = UNROLLED if not way.unrolled else IN_ORDER if way.in_order else STORES
    tracer = Tracer(source, program.namespace, unrolled=way.unrolled, cut=way.cut, stores=most)
    bound = bind(tracer, arguments)
    nest = tracer.run()
    if way.unrolled and len(nest.stores) > most:
        raise LengthyError(f"loops that are written out store more than {most} times")
    returned = _returned(tracer.returned, source)
    local = {name: buffer for name, (buffer, _) in tracer.locals.items()}
    buffers = {b.name: b for top in bound.values() for b in top.parts} | local
    specs = {name: buffer.spec for name, buffer in buffers.items()}
    fills = {name: fill for name, (_, fill) in tracer.locals.items() if fill is not None}
    fills |= {name: 0 for name in buffers if name.split(".")[0] in blank}
    filled = [_filled(source, specs[name], name, fill) for name, fill in fills.items()]
    stored = assignments(nest, source, specs)
    used = {loop.name: loop for each in stored for loop in _loops_of(nest, each)}
    for assignment in stored:
        check_ends(source, _loops_of(nest, assignment), assignment.node)
        check_inner_ranges(nest, source, assignment)
    given = specs.keys() - {*local, *fills, *(store.buffer for store in nest.stores)}
    begins = range_begins(nest, source, tracer.accesses.ranges, specs, used, given)
    inner = {*local, *fills}
    hidden = local.keys() - set(returned)
    if way.in_order:
        listed = [*filled, *stored]
        if any(count_of_nodes(assignment.values) > OPERATIONS for assignment in stored):
            raise LengthyError(f"an element takes more than {OPERATIONS} operations")
    else:
        joint = [*filled, *joined(nest, source, stored, way.unrolled)]
        listed = without_dead(nest, fused(nest, joint), specs, hidden)
    in_order = way.in_order or (bool(way.unrolled) and len(listed) > FEW_STEPS)
    listed = Apart(nest, source, specs).split(listed)
    planner = Planner(
        nest,
        source,
        specs,
        inner | (specs.keys() - buffers.keys()),
        () if in_order else in_place,
        by_parts=in_order,
    )
    steps = planner.steps(listed)
    written = dict.fromkeys(a.buffer for a in listed if a.buffer in buffers.keys() - hidden)
    counts = Counter(a.buffer for a in listed)
    results = {name: planner.place(name, counts[name]) for name in written}
    read = dict.fromkeys(name for step in steps for name in step.inputs if name in buffers)
    operands = tuple(n for n in read if n not in local and n not in results.values())
    windows: tuple[tuple[Box, ...], ...] = ()
    if in_order:  # on windows, md_homs are few, where those of whole arrays are all different
        steps, windows = windowed(steps)
    return LoopProgram.of(
        steps,
        operands,
        results,
        planner.specs,
        returned=returned,
        windows=windows,
        begins=begins,
    )


def _loops_of(nest: Nest, assignment: Assignment) -> list[SourceLoop]:
    """The loops that an assignment and its reductions have."""
    entries = [nest.entries[n] for n in nest.entries_of(*assignment.values)]
    inside = [loop for each in entries if isinstance(each, Reduced) for loop in each.loops]
    return [*assignment.kept, *inside]


def _returned(value: Any, source: FunctionSource) -> tuple[str, ...]:
    if value is None:
        return ()
    values = as_tuple(value)
    if not all(isinstance(v, SymbolicBuffer) for v in values):
        raise source.error(
            source.statements[-1],
            "something else than arrays is returned",
            "write results into elements of arrays, and return those",
        )
    return tuple(v.name for v in values)


def _filled(source: FunctionSource, spec: TensorSpec, name: str, fill: Any) -> Assignment:
    """An assignment of one value to a whole array, before all others."""
    loops = tuple(SourceLoop(f"{name}_{axis}", extent) for axis, extent in enumerate(spec.shape))
    index = tuple(AffineIndex.of(loop.name) for loop in loops)
    return Assignment(name, index, loops, const(fill, spec.dtype), -1, source.node)
