"""Assignments of a loop nest as `md_hom`s.

The loops of the assignment concatenate, those of its reductions are combined point-wise, and what
the assignment does with finished reductions is the epilogue.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from mdtensor.dataclass import dataclass
from mdtensor.errors import shown
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Pointwise, named
from mdtensor.translate.loop_nests.affine_from_expr import affine_from_expr
from mdtensor.translate.loop_nests.source_loop_nest import (
    UNKNOWN,
    Entry,
    Nest,
    Reduced,
    SourceLoop,
    SourceRead,
)
from mdtensor.translate.loops.assignments import Assignment
from mdtensor.translate.loops.dependences import stays_inside
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.scalar import I64, Expr, cast, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import all_substituted, params_in, substitute
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex

ASKED = 1 << 32
"""Iterations, at most, that are asked whether they exist, where no range tells it."""

Array = Callable[[SourceRead], tuple[str, TensorSpec]]


@dataclass(slots=True)
class Reader:
    """Builds the accesses of a view, and collects the buffers that they read.

    `array` says which array holds the buffer of a read, and its spec.
    """

    nest: Nest
    source: FunctionSource
    array: Array
    extents: Mapping[str, int]
    buffers: list[BufferSpec] = field(default_factory=list[BufferSpec])

    def view(self, results: Sequence[Expr]) -> tuple[tuple[BufferAccess, ...], dict[int, Expr]]:
        """The accesses for all reads of the results, and parameters for the nest's entries."""
        exposed = {n for result in results for n in _exposed(self.nest, result)}
        accesses: list[BufferAccess] = []
        params: dict[int, Expr] = {}
        for position, read in self.nest.reads_of(*results).items():
            name, spec = self.array(read)
            index = tuple(
                self.axis(substitute(expr, params), read, axis, position in exposed)
                for axis, expr in enumerate(read.index)
            )
            accesses.append(BufferAccess(self._number(name, spec), index))
            params[position] = param(len(accesses) - 1, read.dtype)
        return tuple(accesses), params

    def _number(self, name: str, spec: TensorSpec) -> int:
        buffer = BufferSpec(name, spec)
        if buffer not in self.buffers:
            self.buffers.append(buffer)
        return self.buffers.index(buffer)

    def axis(
        self, expr: Expr, read: SourceRead, axis: int, is_exposed: bool
    ) -> AffineIndex | ComputedIndex:
        """The index of a read along one axis; a ComputedIndex if it may be out of bounds."""
        affine = affine_from_expr(expr)
        if affine is None:
            return ComputedIndex(cast(expr, I64))
        extent = self.array(read)[1].shape[axis]
        low, high = affine.bounds(self.extents)
        if (low >= 0 and high < extent) or 0 in self.extents.values():
            return affine
        if is_exposed and not stays_inside(affine, extent, read.loops, read.conditions):
            raise out_of_reach(
                self.source, read.buffer, affine, self.extents, axis, extent, read.node
            )
        return ComputedIndex(cast(expr, I64))


def check_ends(source: FunctionSource, loops: Iterable[SourceLoop], node: ast.AST) -> None:
    """Checks that data-dependent loops have an extent, by arrays that they index."""
    for loop in loops:
        if loop.extent >= UNKNOWN:
            raise source.error(
                node,
                f"loop {loop.variable!r} goes up to bounds that are data, and reads no array at"
                f" {loop.variable} in each iteration",
                "an array that is read says how far the loop can go: go over indices of a range"
                " that arguments fix, and compare them with the bounds in the body",
            )


def check_inner_ranges(nest: Nest, source: FunctionSource, assignment: Assignment) -> None:
    """Checks that no reduction tests the bounds of too many data-dependent iterations."""
    for position in nest.entries_of(assignment.value):
        entry = nest.entries[position]
        loops = entry.loops if isinstance(entry, Reduced) else ()
        names = {loop.name for loop in loops}
        for loop in loops:
            bounds = () if loop.range is None else (loop.range.begin, loop.range.end)
            around = names & nest.dims_of(*bounds)
            if around and math.prod(each.extent for each in loops) > ASKED:
                raise source.error(
                    assignment.node,
                    f"the bounds of loop {loop.variable!r} are data that differ with a loop around"
                    " it, and both are reduced together: each of their iterations would be asked",
                    f"let a local variable have what loop {loop.variable!r} gives, of values that"
                    " the loop around it reads",
                )


def out_of_reach(
    source: FunctionSource,
    buffer: str,
    index: AffineIndex,
    extents: Mapping[str, int],
    axis: int,
    extent: int,
    node: ast.AST,
) -> Exception:
    """The error for an index out of bounds."""
    low, high = index.bounds(extents)
    return source.error(
        node,
        f"index {shown(index)} of {buffer} is out of reach: it runs from {shown(low)} to"
        f" {shown(high)}, but axis {axis} has extent {extent}",
        "shorten the loop, or read under a condition: x[i - 1] if i > 0 else 0",
    )


def is_computed(
    nest: Nest,
    value: Expr,
    extents: Mapping[str, int],
    shape: Callable[[SourceRead], tuple[int, ...]],
) -> bool:
    """Whether a value reads elements at indices that need a ComputedIndex."""
    for read in nest.reads_of(value).values():
        for expr, extent in zip(read.index, shape(read), strict=True):
            affine = affine_from_expr(expr)
            if affine is None:
                return True
            low, high = affine.bounds(extents)
            if low < 0 or high >= extent:
                return True
    return False


def md_hom_from_assignment(
    nest: Nest, source: FunctionSource, assignment: Assignment, array: Array, out: BufferSpec
) -> MDHom:
    """The `md_hom` that writes an assignment's elements to `out`.

    All reductions in the assignment's value have one operator and the same loops.
    """
    values = tuple(cast(value, out.spec.dtype) for value in assignment.values)
    value = values[0]
    reduced = [entry for n in params_in(value) if isinstance(entry := nest.entries[n], Reduced)]
    over = reduced[0].loops if reduced else ()
    loops = (*assignment.kept, *over)
    extents = {loop.name: loop.extent for loop in loops}
    _check_written(source, assignment, extents, out)
    reader = Reader(nest, source, array, extents)
    results = tuple(entry.term for entry in reduced) or values
    view, params = reader.view(results)
    scalar = _function(reader, view, all_substituted(results, params))
    epilogue = _epilogue(reader, value, scalar) if reduced else None
    combine = CC
    if reduced:
        combine = Pointwise(named(reduced[0].operator.name, scalar.result_dtypes))
    dims = [Dim(loop.name, loop.extent, CC) for loop in assignment.kept]
    dims += [Dim(loop.name, loop.extent, combine) for loop in over]
    return MDHom(
        tuple(dims),
        scalar,
        tuple(reader.buffers),
        (out,),
        view,
        tuple(BufferAccess(0, index) for index in assignment.indices),
        epilogue,
    )


def _function(
    reader: Reader, view: Sequence[BufferAccess], results: tuple[Expr, ...]
) -> ScalarFunction:
    types = tuple(reader.buffers[access.buffer].spec.dtype for access in view)
    return ScalarFunction(types, results, name_of(results))


def name_of(results: Sequence[Expr]) -> str:
    """A short name for what a scalar function computes."""
    if len(results) == 1 and results[0].op == "param":
        return "id"
    if len(results) == 1 and all(arg.op == "param" for arg in results[0].args):
        return results[0].op
    return "f"


def _epilogue(reader: Reader, value: Expr, scalar: ScalarFunction) -> Epilogue | None:
    """The epilogue of finished reductions; None if the value is just the reduction."""
    nest = reader.nest
    finished: dict[int, Expr] = {}
    for n in params_in(value):
        if isinstance(nest.entries[n], Reduced):
            finished[n] = param(len(finished), scalar.result_dtypes[len(finished)])
    if value.op == "param" and value.value in finished:
        return None
    direct = [n for n in params_in(value) if n not in finished]
    view, params = reader.view([Expr("param", (), nest.entries[n].dtype, n) for n in direct])
    width = len(finished)
    shifted = {n: param(p.number + width, p.dtype) for n, p in params.items()}
    types = tuple(reader.buffers[access.buffer].spec.dtype for access in view)
    result = substitute(value, finished | shifted)
    return Epilogue(
        ScalarFunction((*scalar.result_dtypes, *types), (result,), name_of([result])), view
    )


def _check_written(
    source: FunctionSource, assignment: Assignment, extents: Mapping[str, int], out: BufferSpec
) -> None:
    for index in assignment.indices:
        check_reach(source, assignment.buffer, index, extents, out.spec.shape, assignment.node)


def check_reach(
    source: FunctionSource,
    buffer: str,
    index: Sequence[AffineIndex],
    extents: Mapping[str, int],
    shape: Sequence[int],
    node: ast.AST,
) -> None:
    """Checks that an index is within its buffer for all indices of the dims."""
    if 0 in extents.values():
        return
    for axis, (place, extent) in enumerate(zip(index, shape, strict=True)):
        low, high = place.bounds(extents)
        if low < 0 or high >= extent:
            raise out_of_reach(source, buffer, place, extents, axis, extent, node)


def covers(index: Sequence[AffineIndex], extents: Mapping[str, int], shape: Sequence[int]) -> bool:
    """Whether an index covers every element of an array.

    >>> covers([AffineIndex.of("i", offset=1)], {"i": 3}, (4,))
    False
    """
    dims = [dim for axis in index for dim in axis.dims]
    if len(set(dims)) < len(dims):
        return False
    for axis, extent in zip(index, shape, strict=True):
        if len(axis.coefficients) > 1 or any(abs(c) != 1 for _, c in axis.coefficients):
            return False
        if (extents[axis.dims[0]] if axis.dims else 1) != extent:
            return False
    return True


def writes_all(md_hom: MDHom, output: str) -> bool:
    """Whether one access of an output covers it."""
    number = next(n for n, buffer in enumerate(md_hom.outputs) if buffer.name == output)
    shape = md_hom.outputs[number].spec.shape
    indices = (
        [axis for axis in access.index if isinstance(axis, AffineIndex)]
        for access in md_hom.out_view
        if access.buffer == number
    )
    return any(covers(index, md_hom.extents, shape) for index in indices)


def _exposed(nest: Nest, value: Expr) -> set[int]:
    """Entries that are read unconditionally."""
    found: set[int] = set()
    waiting, seen = [value], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.op == "param":
            found.add(node.number)
            waiting += _below(nest.entries[node.number])
        else:
            # The rest of a selection, or of an `and`, is for where the condition holds.
            guarded = node.op in ("select", "and", "or")
            waiting += node.args[:1] if guarded else node.args
    return found


def _below(entry: Entry) -> tuple[Expr, ...]:
    """The expressions that an entry depends on."""
    if isinstance(entry, SourceRead):
        return entry.index
    return (entry.term,) if isinstance(entry, Reduced) else ()
