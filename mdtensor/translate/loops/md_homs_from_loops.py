"""From a Python function of loop nests without named operators to steps, an `md_hom` each.

The dependences say which loops concatenate and which reduce (002, section 7.2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mdtensor.errors import ProgramError
from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.carried import CarriedError, LengthyError, retyped
from mdtensor.translate.loop_nests.loop_arguments import bind
from mdtensor.translate.loop_nests.loop_nest_from_source import Tracer
from mdtensor.translate.loop_nests.source_loop_nest import Loop
from mdtensor.translate.loop_nests.symbolic_buffers import SymbolicBuffer
from mdtensor.translate.loops.assignments import Assignment, assignments
from mdtensor.translate.loops.fusion import fused
from mdtensor.translate.loops.loop_steps import Apart, LoopProgram, Planner, without_dead
from mdtensor.translate.loops.written_out import joined
from mdtensor.translate.python.function_source import Source
from mdtensor.translate.python.interpreter import LocalFunction
from mdtensor.translate.python.tuples import as_tuple
from mdtensor.translate.scalar import const
from mdtensor.translate.views import AffineIndex

WRITTEN_OUT = 64
"""A loop of at most so many iterations that no operator describes is written out."""

STORES = 512
"""What loops that are written out store, at most, as dependences are looked for among all pairs."""


def md_homs_from_loops(
    program: LocalFunction,
    arguments: Mapping[str, Any],
    *,
    blank: Collection[str] = (),
    in_place: Collection[str] = (),
) -> LoopProgram:
    """The steps of a function whose loops name no operators.

    `arguments` are specs of arrays and the values of all other parameters. Arrays named in `blank`
    hold zeros at the beginning. Those named in `in_place` may be written in part, since what else
    is in them stays.

    Raises ProgramError where a statement is not understood, and where a loop carries a dependence
    that is no reduction.
    """
    unrolled: frozenset[int] = frozenset()
    first: CarriedError | None = None
    while True:
        try:
            return _program(program, arguments, unrolled, blank, in_place)
        except LengthyError as error:
            raise retyped(ProgramError, first or error) from None
        except CarriedError as error:
            first = first or error
            loop = error.loop
            if loop.line in unrolled or loop.conditions or loop.extent > WRITTEN_OUT:
                raise retyped(ProgramError, first) from None
            unrolled |= {loop.line}


def _program(
    program: LocalFunction,
    arguments: Mapping[str, Any],
    unrolled: frozenset[int],
    blank: Collection[str],
    in_place: Collection[str],
) -> LoopProgram:
    source = program.source
    tracer = Tracer(source, program.namespace, unrolled=unrolled)
    bound = bind(tracer, arguments)
    nest = tracer.run()
    if unrolled and len(nest.stores) > STORES:
        raise LengthyError(f"loops that are written out store more than {STORES} times")
    returned = _returned(tracer.returned, source)
    local = {name: buffer for name, (buffer, _) in tracer.locals.items()}
    buffers = {b.name: b for top in bound.values() for b in top.parts} | local
    specs = {name: buffer.spec for name, buffer in buffers.items()}
    fills = {name: fill for name, (_, fill) in tracer.locals.items() if fill is not None}
    fills |= {name: 0 for name in buffers if name.split(".")[0] in blank}
    listed = [_filled(source, specs[name], name, fill) for name, fill in fills.items()]
    listed += joined(nest, source, assignments(nest, source), unrolled)
    inner = {*local, *fills}
    hidden = local.keys() - set(returned)
    listed = without_dead(nest, fused(nest, listed), specs, hidden)
    listed = Apart(nest, source, specs).split(listed)
    planner = Planner(nest, source, specs, inner | (specs.keys() - buffers.keys()), in_place)
    steps = planner.steps(listed)
    written = dict.fromkeys(a.buffer for a in listed if a.buffer in buffers.keys() - hidden)
    results = {n: planner.place(n, sum(a.buffer == n for a in listed)) for n in written}
    read = dict.fromkeys(name for step in steps for name in step.inputs if name in buffers)
    operands = tuple(n for n in read if n not in local and n not in results.values())
    return LoopProgram(steps, operands, results, planner.specs, returned)


def _returned(value: Any, source: Source) -> tuple[str, ...]:
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


def _filled(source: Source, spec: TensorSpec, name: str, fill: Any) -> Assignment:
    """The assignment of one value to all elements, before all others."""
    loops = tuple(Loop(f"{name}_{axis}", extent) for axis, extent in enumerate(spec.shape))
    index = tuple(AffineIndex.of(loop.name) for loop in loops)
    return Assignment(name, index, loops, const(fill, spec.dtype), -1, source.node)
