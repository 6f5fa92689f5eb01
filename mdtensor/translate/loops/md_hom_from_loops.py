"""From a perfect loop nest with an operator for each loop to its `md_hom`.

The body computes one point of the iteration space; the operators say how points are combined
(003, section 4.3, Figures 1 and 2).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from mdtensor.errors import count_of
from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.loop_arguments import bind
from mdtensor.translate.loop_nests.loop_nest_from_source import Tracer
from mdtensor.translate.loop_nests.symbolic_buffers import OpenBuffer
from mdtensor.translate.loops.loop_results import Given, Result, combines_of, md_hom_of_results
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.python.function_source import Source
from mdtensor.translate.python.interpreter import LocalFunction


def md_hom_from_loops(
    program: LocalFunction,
    arguments: Mapping[str, Any],
    outputs: Mapping[str, Given],
    combinations: Sequence[Combination],
) -> MDHom:
    """The `md_hom` of a nest, whose loops have the operators of `combinations`, in their order.

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
    combines = combines_of(nest, results, loops, combinations)
    return md_hom_of_results(nest, source, loops, specs, outputs, results, combines)


def check_nest(source: Source, count: int) -> None:
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
    """Without texts and pass."""
    return [
        s
        for s in statements
        if not isinstance(s, ast.Pass)
        and not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
    ]


def _results(tracer: Tracer, outputs: Mapping[str, Given]) -> list[Result]:
    """What the body computes, in the order of the outputs."""
    source = tracer.source
    found: list[Result] = []
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
            found.append(Result.of(source, name, index, cases.value, dtype, node))
    if missing := [name for name in outputs if name not in {result.output for result in found}]:
        raise source.error(
            source.node,
            f"output {missing[0]} is never written",
            f"write {missing[0]}[…] = … inside of the loops",
        )
    return found
