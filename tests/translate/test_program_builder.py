"""The builder of programs: slots in order, no steps that nothing needs, programs in programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.program_builder import ProgramBuilder
from mdtensor.translate.programs.joined import joined
from mdtensor.translate.views import BufferAccess

MATRIX, VECTOR = TensorSpec.of((3, 4)), TensorSpec.of((3,))
SUMS = md_hom_from_einsum("ij->i", (MATRIX,))
SQUARES = md_hom_from_einsum("i,i->i", (VECTOR, VECTOR))


def test_results_come_before_what_lies_between() -> None:
    builder = ProgramBuilder([MATRIX])
    (sums,) = builder.add(SUMS, (0,))
    (squares,) = builder.add(SQUARES, (sums, sums))
    program = builder.program([squares])
    assert [(step.operands, step.results) for step in program.steps] == [
        ((0,), (2,)),
        ((2, 2), (1,)),
    ]
    assert (program.results, program.temporaries) == ((VECTOR,), (VECTOR,))


def test_steps_that_nothing_needs_are_left_out() -> None:
    builder = ProgramBuilder([MATRIX])
    (sums,) = builder.add(SUMS, (0,))
    builder.add(SQUARES, (sums, sums))
    program = builder.program([sums])
    assert [step.md_hom for step in program.steps] == [SUMS]
    assert program.temporaries == ()


@pytest.mark.parametrize("results", [[0], [1, 1]])
def test_a_result_is_an_array_of_its_own(results: list[int]) -> None:
    builder = ProgramBuilder([MATRIX])
    builder.add(SUMS, (0,))
    with pytest.raises(TranslationError, match="a result is an operand, or given twice"):
        builder.program(results)


def test_what_results_are_filled_with_is_a_step_of_a_larger_program() -> None:
    zeros = Program(1, (VECTOR,), (), (), fills=(0,))
    program = joined([MATRIX], [(zeros, (0,)), (Program.of(SQUARES), (1, 1))], [2])
    assert [step.operands for step in program.steps] == [(), (2, 2)]
    assert program.fills == ()


def test_operands_are_converted_for_all_programs_or_none() -> None:
    half = np.dtype("f2")
    converting = replace(Program.of(SUMS), converted=((0, half),))
    two = joined([MATRIX], [(converting, (0,)), (converting, (0,))], [1, 2])
    assert two.converted == ((0, half),)
    with pytest.raises(TranslationError, match="an operand is read in several types"):
        joined([MATRIX], [(converting, (0,)), (Program.of(SUMS), (0,))], [1, 2])
    squares = replace(Program.of(SQUARES), converted=((1, half),))
    with pytest.raises(TranslationError, match="an intermediate array would be converted"):
        joined([MATRIX], [(Program.of(SUMS), (0,)), (squares, (1, 1))], [2])


def test_a_program_alone_is_joined_to_itself() -> None:
    program = Program.of(SUMS)
    assert joined([MATRIX], [(program, (0,))], [1]) is program


def test_a_temporary_that_is_copied_is_the_result() -> None:
    builder = ProgramBuilder([MATRIX])
    (sums,) = builder.add(SUMS, (0,))
    (squares,) = builder.add(SQUARES, (sums, sums))
    copies = [builder.new(VECTOR) for _ in range(2)]
    for copy in copies:
        builder.copied(sums, copy, BufferAccess.at(0, "i"), {"i": 3})
    program = builder.program([*copies, squares])
    assert [(step.operands, step.results) for step in program.steps] == [
        ((0,), (1,)),
        ((1,), (3, 2)),  # the squares, and the other copy
    ]
    assert program.temporaries == ()


def test_results_that_nothing_needs_are_left_out_of_merged_steps() -> None:
    builder = ProgramBuilder([VECTOR, VECTOR])
    (first,), (second,) = builder.add(SQUARES, (0, 0)), builder.add(SQUARES, (0, 1))
    both = builder.program([first, second])
    [step] = both.steps
    assert step.results == (2, 3)
    builder = ProgramBuilder([VECTOR, VECTOR])
    (_, second) = builder.append(both, (1, 0))
    [step] = builder.program([second]).steps
    assert (step.operands, step.results) == ((1, 0), (2,))


def test_elementwise_steps_over_few_points_are_one() -> None:
    long = TensorSpec.of((1 << 17,))
    builder = ProgramBuilder([VECTOR, VECTOR, MATRIX, long])
    (first,) = builder.add(SQUARES, (0, 0))
    (sums,) = builder.add(SUMS, (2,))
    (second,) = builder.add(SQUARES, (0, 1))
    (third,) = builder.add(SQUARES, (first, sums))
    many = md_hom_from_einsum("i,i->i", (long, long))
    (fourth,), (fifth,) = builder.add(many, (3, 3)), builder.add(many, (3, 3))
    program = builder.program([first, second, third, fourth, fifth])
    assert [step.results for step in program.steps] == [(4, 5), (9,), (6,), (7,), (8,)]
    one = program.steps[0]
    assert one.operands == (0, 1)
    a, b = np.array([1, 2, 3], "f4"), np.array([4, 5, 6], "f4")
    for found, due in zip(reference.run(one.md_hom, [a, b]), (a * a, a * b), strict=True):
        np.testing.assert_array_equal(found, due)
