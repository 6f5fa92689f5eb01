"""Checks of the begins of data-dependent loops, as negative indices count from the end.

Calls look at the arrays that tell it, and refuse what would be another number than Python's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce

from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import named
from mdtensor.translate.loop_nests.accesses import RangeAt
from mdtensor.translate.loop_nests.affine_from_expr import affine_from_expr
from mdtensor.translate.loop_nests.source_loop_nest import (
    UNKNOWN,
    Nest,
    Reduced,
    SourceLoop,
    SourceRead,
)
from mdtensor.translate.loops.assignments import Assignment
from mdtensor.translate.loops.loop_program import LoopStep, RangeBegin
from mdtensor.translate.loops.md_hom_from_assignment import md_hom_from_assignment
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.python.functions import conjunction
from mdtensor.translate.scalar import I64, Expr, apply, const, select
from mdtensor.translate.views import BufferSpec

_LEAVES = frozenset(("const", "index", "param"))
# Operations that give nothing below 0 of what is not below 0.
_KEEPING = frozenset(("add", "mul", "min", "max", "floordiv", "cast", "select"))


def range_begins(
    nest: Nest,
    source: FunctionSource,
    ranges: Sequence[RangeAt],
    specs: Mapping[str, TensorSpec],
    used: Mapping[str, SourceLoop],
    given: Collection[str],
) -> tuple[RangeBegin, ...]:
    """Checks before a call, for loops in `used` that may begin below 0.

    Only what arrays in `given` tell, which the function leaves as they are, is known before.
    """
    found = [
        _range_begin(nest, source, at, specs, used, given) for at in ranges if at.loop.name in used
    ]
    return tuple([each for each in found if each is not None])


def _range_begin(
    nest: Nest,
    source: FunctionSource,
    at: RangeAt,
    specs: Mapping[str, TensorSpec],
    used: Mapping[str, SourceLoop],
    given: Collection[str],
) -> RangeBegin | None:
    assert at.loop.range is not None
    begin, end = at.loop.range.begin, at.loop.range.end
    # Loops that are counted have no extent, and nothing is read at their indices.
    settled = [used.get(loop.name, loop) for loop in at.outer]
    outer = tuple([loop for loop in settled if loop.extent < UNKNOWN])
    affine = affine_from_expr(begin)
    is_known = (
        affine is not None and affine.bounds({loop.name: loop.extent for loop in outer})[0] >= 0
    )
    if is_known or _is_unsigned(begin):
        return None
    tests = [*(test for loop in outer for test in loop.tests), *at.guards]
    entries = [nest.entries[n] for n in nest.entries_of(begin, end, *tests)]
    reads = [entry for entry in entries if isinstance(entry, SourceRead)]
    if len(reads) < len(entries) or any(read.buffer not in given for read in reads):
        return None
    if not nest.dims_of(begin, end, *tests) <= {loop.name for loop in outer}:
        return None
    exists = reduce(conjunction, [*tests, apply("lt", begin, end)])
    value = select(exists, begin, const(0, I64))
    if outer:
        value = nest.add(Reduced(named("min", [I64]), outer, (), value))
    assignment = Assignment("begin", (), (), value, -1, at.node)
    out = BufferSpec("begin", TensorSpec.of((), I64))

    def array(read: SourceRead) -> tuple[str, TensorSpec]:
        return read.buffer, specs[read.buffer]

    md_hom = md_hom_from_assignment(nest, source, assignment, array, out)
    variable = at.loop.variable
    error = source.error(
        at.node,
        f"loop {variable!r} begins below 0, where indices count from the end",
        f"begin at max(0, …), or loop from 0 and compute the index: x[begin + {variable}]",
    )
    step = LoopStep(md_hom, tuple([b.name for b in md_hom.inputs]), ("begin",))
    return RangeBegin(step, _telling(nest, begin), error)


def _is_unsigned(begin: Expr) -> bool:
    return begin.op == "cast" and begin.args[0].dtype.kind in "bu"


def _telling(nest: Nest, begin: Expr) -> tuple[str, ...] | None:
    """The arrays that decide a begin, if it is >= 0 whenever their elements are; else None."""
    found: dict[str, None] = {}
    waiting = [begin]
    while waiting:
        node = waiting.pop()
        if node.op not in _LEAVES | _KEEPING or (node.op == "const" and node.number < 0):
            return None
        if node.op == "param":
            entry = nest.entries[node.number]
            assert isinstance(entry, SourceRead)
            found[entry.buffer] = None
        waiting += node.args[1:] if node.op == "select" else node.args
    return tuple(found)
