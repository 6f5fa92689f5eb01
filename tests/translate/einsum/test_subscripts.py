"""Einsum strings that make no sense are shown with carets, shapes and a way out."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from mdtensor.errors import SubscriptError
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.contraction import resolve
from mdtensor.translate.einsum.subscripts import parse
from tests.cases import CASES, Case

MALFORMED = {
    "unknown output index": (
        "ij,jk->ikl",
        [(2, 3), (3, 4)],
        """\
        index 'l' of the output is in no operand
          ij,jk->ikl
                   ^
          hint: the operands have 'i', 'j', 'k'""",
    ),
    "repeated output index": (
        "ij,jk->iki",
        [(2, 3), (3, 4)],
        """\
        index 'i' appears twice in the output
          ij,jk->iki
                 ^ ^
          hint: a result has one axis per index; write a diagonal with an index of its own""",
    ),
    "too few operands": (
        "ij,jk->ik",
        [(2, 3)],
        """\
        the string has 2 terms for 1 operand
          ij,jk->ik
             ^
          operand 0: (2, 3) float32
          hint: terms are separated by commas, one for each operand""",
    ),
    "too many operands": (
        "ij->i",
        [(2, 3), (3, 4)],
        """\
        the string has 1 term for 2 operands
          ij->i
            ^
          operand 0: (2, 3) float32    operand 1: (3, 4) float32
          hint: terms are separated by commas, one for each operand; those that an epilogue reads \
stand behind a semicolon: 'ij,jk->ik; k'""",
    ),
    "too many indices": (
        "ijk->i",
        [(2, 3)],
        """\
        operand 0 has 2 axes but 3 indices
          ijk->i
            ^
          operand 0: (2, 3) float32
          hint: one index for each axis""",
    ),
    "too few indices": (
        "ij,j->i",
        [(5, 2, 3), (3,)],
        """\
        operand 0 has 3 axes but 2 indices
          ij,j->i
          ^^
          operand 0: (5, 2, 3) float32    operand 1: (3,) float32
          hint: '...ij,j->...i' broadcasts over the other axes""",
    ),
    "transposed operand": (
        "ij,jk->ik",
        [(2, 3), (4, 3)],
        """\
        index 'j' has extent 3 in operand 0 but 4 in operand 1
          ij,jk->ik
           ^ ^
          operand 0: (2, 3) float32    operand 1: (4, 3) float32
          hint: 'ij,kj->ik' fits these shapes""",
    ),
    "extents that fit nowhere": (
        "ij,jk->ik",
        [(2, 3), (4, 5)],
        """\
        index 'j' has extent 3 in operand 0 but 4 in operand 1
          ij,jk->ik
           ^ ^
          operand 0: (2, 3) float32    operand 1: (4, 5) float32""",
    ),
    "no diagonal": (
        "ii->i",
        [(2, 3)],
        """\
        index 'i' has extents 2 and 3 in operand 0
          ii->i
          ^^
          operand 0: (2, 3) float32
          hint: a diagonal needs axes of one extent""",
    ),
    "wrong character": (
        "ij,j$->i",
        [(2, 3), (3, 4)],
        """\
        '$' is no index
          ij,j$->i
              ^
          hint: indices are the letters a-z and A-Z; between them stand ',', '->' and '...'""",
    ),
    "lone dot": (
        "i.j->i",
        [(2, 3)],
        """\
        a '.' that is not part of an ellipsis
          i.j->i
           ^
          hint: write '...' for the dims that broadcast""",
    ),
    "two arrows": (
        "ij->i->j",
        [(2, 3)],
        """\
        an einsum string has at most one '->'
          ij->i->j
            ^  ^""",
    ),
    "half an arrow": (
        "ij-i",
        [(2, 3)],
        """\
        '-' is no index
          ij-i
            ^
          hint: indices are the letters a-z and A-Z; between them stand ',', '->' and '...'""",
    ),
    "two ellipses": (
        "...i...->i",
        [(2, 3)],
        """\
        a term has at most one ellipsis
          ...i...->i
          ^   ^""",
    ),
    "ellipsis missing in the output": (
        "...i,i->i",
        [(2, 3), (3,)],
        """\
        the output lacks the ellipsis, which stands for 1 dim
          ...i,i->i
          ^
          operand 0: (2, 3) float32    operand 1: (3,) float32
          hint: '...i,i->...i' keeps them; to sum over them, give them letters""",
    ),
    "ellipses that do not broadcast": (
        "i...,i...->...",
        [(2, 3), (2, 4)],
        """\
        the ellipsis has extent 3 in operand 0 but 4 in operand 1
          i...,i...->...
           ^    ^
          operand 0: (2, 3) float32    operand 1: (2, 4) float32""",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    text, shapes, expected = MALFORMED[name]
    specs = [TensorSpec.of(shape) for shape in shapes]
    with pytest.raises(SubscriptError) as caught:
        resolve(parse(text), specs)
    assert str(caught.value) == textwrap.dedent(expected)


@pytest.mark.parametrize("name", MALFORMED)
def test_numpy_rejects_them_too(name: str) -> None:
    text, shapes, _ = MALFORMED[name]
    with pytest.raises(ValueError, match=r"."):
        np.einsum(text, *(np.ones(shape) for shape in shapes))


def test_out_of_another_shape() -> None:
    with pytest.raises(SubscriptError, match=r"^out has shape \(3, 3\) but the result \(2, 3\)\n"):
        resolve(parse("ij->ij"), [TensorSpec.of((2, 3))], TensorSpec.of((3, 3)))


def test_out_stretches_dims_of_extent_1() -> None:
    contraction = resolve(parse("i->i"), [TensorSpec.of((1,))], TensorSpec.of((4,)))
    assert contraction.extents == {"i": 4}


@pytest.mark.parametrize(
    ("text", "shapes", "inputs", "output"),
    [
        ("ba", [(2, 3)], ["ba"], "ab"),
        ("ab,bB", [(2, 3), (3, 4)], ["ab", "bB"], "Ba"),
        (" i j , j k -> i k ", [(2, 3), (3, 4)], ["ij", "jk"], "ik"),
    ],
)
def test_letters(text: str, shapes: list[tuple[int, ...]], inputs: list[str], output: str) -> None:
    contraction = resolve(parse(text), [TensorSpec.of(shape) for shape in shapes])
    assert contraction.inputs == tuple(map(tuple, inputs))
    assert contraction.output == tuple(output)


def test_an_ellipsis_is_aligned_at_the_right() -> None:
    specs = [TensorSpec.of((5, 6, 2)), TensorSpec.of((6, 2))]
    contraction = resolve(parse("...i,...i"), specs)
    assert contraction.inputs == (("e0", "e1", "i"), ("e1", "i"))
    assert contraction.output == ("e0", "e1")
    assert contraction.extents == {"e0": 5, "e1": 6, "i": 2}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_shape_of_the_result_is_numpys(case: Case) -> None:
    contraction = resolve(parse(case.text), [TensorSpec.of(shape) for shape in case.shapes])
    expected = np.shape(np.einsum(case.text, *(np.ones(shape) for shape in case.shapes)))
    assert tuple(contraction.extents[name] for name in contraction.output) == expected


def test_no_more_of_a_term_is_read_than_operands_have_axes() -> None:
    with pytest.raises(SubscriptError, match="a term has 500000 characters, and may have 16384"):
        parse("n" * 500_000)


def test_printed_form_leaves_out_blanks() -> None:
    assert repr(parse("i j, ...-> i")) == "ij,...->i"
