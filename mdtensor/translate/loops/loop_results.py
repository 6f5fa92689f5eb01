"""The results of one point of an index space, and the `md_hom` of all points."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec, computed_dtype
from mdtensor.translate.combine import CC, Combine, Operator, Pointwise, PrefixSum
from mdtensor.translate.loop_nests.affine_from_expr import affine_from_expr
from mdtensor.translate.loop_nests.source_loop_nest import Loops, Nest, SourceRead
from mdtensor.translate.loops.dependences import Touch, repeated
from mdtensor.translate.loops.md_hom_from_assignment import Reader, check_reach, name_of
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.operators.assigning_functions import assigns, operator_from_assigning
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.operators.combine_operators import OperatorFunction, operator_of
from mdtensor.translate.operators.positions import Origin, operators_by_dim
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.scalar import Expr, as_expr, cast
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import all_substituted, dims_in
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec

Given = TensorSpec | np.dtype
"""What is known of an output: its spec, or its type only."""


@dataclass(frozen=True, slots=True)
class LoopResult:
    """The value that a point contributes to one element of an output."""

    output: str
    index: tuple[AffineIndex, ...]
    value: Expr
    node: ast.AST

    @classmethod
    def of(
        cls,
        source: FunctionSource,
        output: str,
        index: Sequence[Expr],
        value: Any,
        dtype: np.dtype,
        node: ast.AST,
    ) -> LoopResult:
        """Build a result, cast to the output's type, or float32 for 16-bit floats."""
        found: list[AffineIndex] = []
        for axis in index:
            affine = affine_from_expr(axis)
            if affine is None:
                raise source.error(
                    node,
                    f"{output} is written at an index that is not affine",
                    "indices of outputs are sums of multiples of the loops' variables",
                )
            found.append(affine)
        stored = cast(as_expr(value), dtype)
        return cls(output, tuple(found), cast(stored, computed_dtype(dtype)), node)


def combines_of(
    nest: Nest, results: Sequence[LoopResult], loops: Loops, combinations: Sequence[Combination]
) -> list[Combine]:
    """The combine operators of loops, typed for tuples of the results.

    Raises TranslationError where an operator of values would combine what others find.
    """
    names = [result.output for result in results]
    dtypes = [result.value.dtype for result in results]
    by_loop = {loop.name: said for loop, said in zip(loops, combinations, strict=True)}
    origins = [_origin(nest, result.value) for result in results]

    def make(said: Combination, dtypes: Sequence[np.dtype]) -> Operator:
        return _operator(said, names, dtypes)

    operators = operators_by_dim(by_loop, dtypes, origins, make)
    kinds = {"pw": Pointwise, "ps": PrefixSum}
    return [
        CC if said.kind == "cc" else kinds[said.kind](operators[name])
        for name, said in by_loop.items()
    ]


def _operator(
    combination: Combination, names: Sequence[str], dtypes: Sequence[np.dtype]
) -> Operator:
    said: Any = combination.operator
    identity, commutative = None, False
    if isinstance(said, OperatorFunction):
        said, identity, commutative = said.function, said.identity, said.commutative
    if assigns(said):
        return operator_from_assigning(said, names, dtypes, identity, commutative)
    return operator_of(combination.operator, dtypes)


def _origin(nest: Nest, value: Expr) -> Origin:
    reads = nest.reads_of(value).values()
    indices = [axis for read in reads for axis in read.index]
    dims = [dim for expr in (value, *indices) for dim in dims_in(expr)]
    return Origin(frozenset(dims), bool(dims) and not reads)


def md_hom_of_results(
    nest: Nest,
    source: FunctionSource,
    loops: Loops,
    specs: Mapping[str, TensorSpec],
    outputs: Mapping[str, Given],
    results: Sequence[LoopResult],
    combines: Sequence[Combine],
) -> MDHom:
    """The `md_hom` whose points contribute `results`, on inputs of the given specs.

    Raises ProgramError where outputs lack indices of dims that stay, or leave their buffers.
    """

    def array(read: SourceRead) -> tuple[str, TensorSpec]:
        return read.buffer, specs[read.buffer]

    _check_indices(source, results, loops, combines)
    dims = [Dim(loop.name, loop.extent, c) for loop, c in zip(loops, combines, strict=True)]
    extents = {dim.name: dim.extent for dim in dims}
    buffers = [BufferSpec(n, _spec(n, given, results, extents)) for n, given in outputs.items()]
    places = {buffer.name: number for number, buffer in enumerate(buffers)}
    for result in results:
        _check_reach(source, result, buffers[places[result.output]], extents)
    reader = Reader(nest, source, array, extents)
    view, params = reader.view([result.value for result in results])
    values = all_substituted([result.value for result in results], params)
    types = tuple(reader.buffers[access.buffer].spec.dtype for access in view)
    return MDHom(
        tuple(dims),
        ScalarFunction(types, values, name_of(values)),
        tuple(reader.buffers),
        tuple(buffers),
        view,
        tuple(BufferAccess(places[result.output], result.index) for result in results),
    )


def _check_indices(
    source: FunctionSource, results: Sequence[LoopResult], loops: Loops, combines: Sequence[Combine]
) -> None:
    """Checks that outputs are indexed by exactly the dims that are kept."""
    kept = tuple(
        loop
        for loop, combine in zip(loops, combines, strict=True)
        if not isinstance(combine, Pointwise)
    )
    for result in results:
        used = {dim for axis in result.index for dim in axis.dims}
        for loop, combine in zip(loops, combines, strict=True):
            if loop.name in used and loop not in kept:
                raise source.error(
                    result.node,
                    f"{result.output} is written at an index of loop {loop.variable!r}, which"
                    f" {combine!r} reduces to one element",
                    f"leave {loop.variable} out of the index, or combine the loop by cc or ps",
                )
        for loop, combine in zip(loops, combines, strict=True):
            if loop in kept and loop.name not in used and loop.extent > 1:
                raise source.error(
                    result.node,
                    f"every iteration of loop {loop.variable!r} writes the same element of"
                    f" {result.output}, but {combine!r} keeps them all",
                    f"add {loop.variable} to the index, or reduce the loop by pw(…)",
                )
        if (loop := repeated(Touch(result.output, result.index, kept))) is not None:
            raise source.error(
                result.node,
                f"several iterations of loop {loop.variable!r} write one element of"
                f" {result.output}",
                "write each element once, and reduce loops by pw(…)",
            )


def _spec(
    name: str, given: Given, results: Sequence[LoopResult], extents: Mapping[str, int]
) -> TensorSpec:
    """The spec of an output; by default the smallest that holds all written elements."""
    if isinstance(given, TensorSpec):
        return given
    indices = [result.index for result in results if result.output == name]
    if len({len(index) for index in indices}) > 1:
        raise TranslationError(f"{name} is written with different numbers of indices")
    return TensorSpec.of([_span(axes, extents) for axes in zip(*indices, strict=True)], given)


def _span(axes: Sequence[AffineIndex], extents: Mapping[str, int]) -> int:
    """The extent of an axis up to its last written element."""
    reached = [
        axis.bounds(extents)[1] + 1 for axis in axes if all(extents[dim] for dim in axis.dims)
    ]
    return max([0, *reached])


def _check_reach(
    source: FunctionSource, result: LoopResult, buffer: BufferSpec, extents: Mapping[str, int]
) -> None:
    if len(result.index) != len(buffer.spec.shape):
        raise source.error(
            result.node,
            f"{buffer.name} has {len(buffer.spec.shape)} axes but {len(result.index)} indices",
        )
    check_reach(source, buffer.name, result.index, extents, buffer.spec.shape, result.node)
