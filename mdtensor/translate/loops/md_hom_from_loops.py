"""Perfect loop nests with a combine operator per loop, as an `md_hom`.

The body computes one point of the iteration space; the operators say how points are combined
(003, section 4.3, Figures 1 and 2).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdtensor.errors import count_of
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import Combine, Pointwise
from mdtensor.translate.loop_nests.loop_arguments import bind
from mdtensor.translate.loop_nests.loop_nest_from_source import Tracer
from mdtensor.translate.loop_nests.source_loop_nest import Loops
from mdtensor.translate.loop_nests.symbolic_buffers import OpenBuffer
from mdtensor.translate.loops.loop_program import RangeBegin
from mdtensor.translate.loops.loop_results import Given, LoopResult, combines_of, md_hom_of_results
from mdtensor.translate.loops.md_hom_from_assignment import check_ends
from mdtensor.translate.loops.range_begins import range_begins
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.python.local_functions import LocalFunction
from mdtensor.translate.scalar import const, select


def md_hom_from_loops(
    program: LocalFunction,
    arguments: Mapping[str, Any],
    outputs: Mapping[str, Given],
    combinations: Sequence[Combination],
) -> tuple[MDHom, tuple[RangeBegin, ...]]:
    """The `md_hom` of a nest, whose loops have the operators of `combinations`, in their order.

    With it comes what calls look at where bounds of loops are data.

    `arguments` are specs of inputs and the values of all other parameters. Where only the type
    of an output is given, its shape is what the loops write. The elements of the tuple that
    operators combine are in the order of `outputs`, in their types; floats of 16 bits are
    combined in float32.

    Raises ProgramError where a statement is not understood, and where loops, operators and
    indices do not fit together.
    """
    source = program.source
    check_nest(source, len(combinations))
    own = outputs.keys() - arguments.keys()
    tracer = Tracer(
        source, program.namespace, depth=len(combinations), outputs=outputs.keys(), sealed=own
    )
    specs = {b.name: b.spec for top in bind(tracer, arguments).values() for b in top.parts}
    for name in own:
        given = outputs[name]
        is_known = isinstance(given, TensorSpec)
        buffer = (
            tracer.buffer(name, given) if is_known else OpenBuffer(name, given, tracer.accesses)
        )
        tracer.bind(name, buffer)
    nest, loops = tracer.run(), tracer.accesses.loops_of_results
    for loop in loops:
        if loop.conditions:
            raise source.error(
                source.node,
                f"the bounds of loop {loop.variable!r} depend on other loops",
                "with combine_ops all bounds are constants; select in the body instead",
            )
    results = _results(tracer, outputs)
    check_ends(source, loops, results[0].node)
    combines = combines_of(nest, results, loops, combinations)
    results = _within_ranges(source, results, loops, combines)
    md_hom = md_hom_of_results(nest, source, loops, specs, outputs, results, combines)
    used, given = {loop.name: loop for loop in loops}, specs.keys() - outputs.keys()
    begins = range_begins(nest, source, tracer.accesses.ranges, specs, used, given)
    return md_hom, begins


def _within_ranges(
    source: FunctionSource, results: Sequence[LoopResult], loops: Loops, combines: Sequence[Combine]
) -> list[LoopResult]:
    """Mask results outside of data-dependent ranges by the operator's identity."""
    found = list(results)
    for position, (loop, combine) in enumerate(zip(loops, combines, strict=True)):
        if loop.range is None:
            continue
        said = f"the bounds of loop {loop.variable!r} are data"
        if not isinstance(combine, Pointwise):
            hint = "combine it by pw(…), or let it run over the whole range"
            raise source.error(source.node, f"{said}, but {combine!r} keeps its iterations", hint)
        inner = [c for c in combines[position:] if isinstance(c, Pointwise)]
        if any(other != combine for other in inner):
            hint = "reduce by one operator, and the result by the next"
            raise source.error(
                source.node, f"{said}, and loops inside are combined by another operator", hint
            )
        if combine.op.identity is None:
            hint = "mdtensor.operator(identity=…) declares it"
            raise source.error(
                source.node, f"{said}, it may be empty, and {combine!r} has no identity", hint
            )
        test = loop.range.test(loop.name)
        pairs = zip(found, combine.op.identity, strict=True)
        found = [
            replace(result, value=select(test, result.value, const(none, result.value.dtype)))
            for result, none in pairs
        ]
    return found


def check_nest(source: FunctionSource, count: int) -> None:
    """Checks that a function is a perfect nest of `count` loops."""
    node: ast.AST = source.node
    inside = _busy(source.statements)
    names = f"combine_ops names {count_of(count, 'operator', 'operators')}"
    for found in range(count):
        if not inside or not isinstance(inside[0], ast.For):
            raise source.error(
                inside[0] if inside else node,
                f"{names}, but {count_of(found, 'loop is', 'loops are')} nested",
                "name an operator for each loop, from the outermost to the innermost",
            )
        if len(inside) > 1:
            raise source.error(
                inside[1],
                "the loops are not perfectly nested: a statement stands beside a loop",
                "move it into the innermost loop, or leave out combine_ops",
            )
        node = inside[0]
        inside = _busy(inside[0].body)
    if count and len(inside) == 1 and isinstance(inside[0], ast.For):
        raise source.error(
            inside[0],
            f"{names}, but more loops are nested",
            "name an operator for each loop, from the outermost to the innermost",
        )


def _busy(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements without docstrings and `pass`."""
    return [
        s
        for s in statements
        if not isinstance(s, ast.Pass)
        and not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
    ]


def _results(tracer: Tracer, outputs: Mapping[str, Given]) -> list[LoopResult]:
    """The body's results, in the order of the outputs."""
    source = tracer.source
    found: list[LoopResult] = []
    for output, given in outputs.items():
        dtype = given.dtype if isinstance(given, TensorSpec) else given
        for (name, index), (cases, node) in tracer.accesses.results.items():
            if name != output:
                continue
            if not cases.is_set:
                raise source.error(
                    node,
                    f"output {name} is written under a condition only",
                    "write it in every case, with an else",
                )
            found.append(LoopResult.of(source, name, index, cases.value, dtype, node))
    if missing := [name for name in outputs if name not in {result.output for result in found}]:
        raise source.error(
            source.node,
            f"output {missing[0]} is never written",
            f"write {missing[0]}[…] = … inside of the loops",
        )
    return found
