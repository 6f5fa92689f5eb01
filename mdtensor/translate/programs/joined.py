"""Composition of several programs into one."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.program_builder import ProgramBuilder

Call = tuple[Program, tuple[int, ...]]
"""A program, and the numbers of the arrays that it reads."""


def joined(
    operands: Sequence[TensorSpec], calls: Sequence[Call], results: Sequence[int]
) -> Program:
    """Compose calls into one program on these operands with these results.

    Arrays are numbered: operands first, then the results of each call, in order. A program on all
    operands in order that gives its own results is returned as it is.

    Raises TranslationError where a result is an operand or given twice, where an array that a
    program computes would be converted, and where operands are read in several types.

    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> a, b = TensorSpec.of((8, 4)), TensorSpec.of((4, 6))
    >>> product = Program.of(md_hom_from_einsum("ij,jk->ik", (a, b)))
    >>> sums = Program.of(md_hom_from_einsum("ik->i", product.results))
    >>> for step in joined((a, b), [(product, (0, 1)), (sums, (2,))], [3]).steps:
    ...     print(step.operands, step.results, step.md_hom)
    (0, 1) (3,) md_hom[i:8, j:4, k:6](mul, (cc, pw(add), cc))
    (3,) (2,) md_hom[i:8, k:6](id, (cc, pw(add)))
    """
    first, reads = calls[0]
    given = tuple(range(len(operands)))
    if (len(calls), reads, tuple(results)) == (1, given, tuple(first.result_slots)):
        return first
    builder = ProgramBuilder(operands)
    slots = [*given]
    for program, reads in calls:
        slots += builder.append(program, [slots[n] for n in reads])
    return builder.program([slots[n] for n in results], converted=builder.converted)
