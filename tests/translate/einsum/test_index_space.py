"""Strings with sums for indices: their grammar, and the extents that follow from shapes."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtensor.errors import DTypeError, SubscriptError
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.affine_index import AffineSum, parse_sum
from mdtensor.translate.einsum.index_space import index_space
from mdtensor.translate.einsum.subscripts import is_affine, parse

Shapes = list[tuple[int, ...]]

SOLVED: list[tuple[str, Shapes, dict[str, int] | None, dict[str, int]]] = [
    # a window, a stride, an offset
    ("h+r, r -> h", [(10,), (3,)], None, {"h": 8, "r": 3}),
    ("2h+r, r -> h", [(10,), (3,)], None, {"h": 4, "r": 3}),
    ("2h+r, r -> h", [(11,), (3,)], None, {"h": 5, "r": 3}),
    ("2*h+r, r -> h", [(11,), (3,)], None, {"h": 5, "r": 3}),
    ("h+r-1, r -> h", [(10,), (3,)], {"h": 7}, None),  # type: ignore[list-item]
    ("h+1 -> h", [(10,)], None, {"h": 9}),
    ("2i -> i", [(5,)], None, {"i": 3}),
    ("2i+1 -> i", [(5,)], None, {"i": 2}),
    ("9-i -> i", [(10,)], None, {"i": 10}),
    ("9-2i -> i", [(10,)], None, {"i": 5}),
    # the operand that fixes a dim may come later, and one dim may follow from another
    ("a+b, b+c, c -> a", [(20,), (10,), (4,)], None, {"a": 14, "b": 7, "c": 4}),
    # the smallest of several
    ("h+r, h+2r, r -> h", [(10,), (10,), (3,)], None, {"h": 6, "r": 3}),
    # convolutions
    (
        "n 2h+r 2w+s c, k r s c -> n h w k",
        [(2, 9, 11, 3), (4, 3, 3, 3)],
        None,
        {"n": 2, "h": 4, "r": 3, "w": 5, "s": 3, "c": 3, "k": 4},
    ),
    ("h+2r, r -> h", [(10,), (3,)], None, {"h": 6, "r": 3}),
    (
        "4g+c h+r, k g c r -> g k h",
        [(8, 6), (5, 2, 4, 3)],
        None,
        {"g": 2, "c": 4, "h": 4, "r": 3, "k": 5},
    ),
    # given extents fix what is open, and cut what is longer
    ("h+r -> h", [(10,)], {"r": 3}, {"h": 8, "r": 3}),
    ("i, i+1 -> i", [(10,), (10,)], {"i": 9}, {"i": 9}),
    ("ij->i", [(4, 5)], {"j": 3}, {"i": 4, "j": 3}),
    ("i -> i k", [(4,)], {"k": 3}, {"i": 4, "k": 3}),
    ("->", [], {"i": 7}, {"i": 7}),
    # extent 1 broadcasts, and so does an ellipsis
    ("h+r c, r c -> h", [(10, 1), (3, 4)], None, {"h": 8, "r": 3, "c": 4}),
    ("... h+r, r -> ... h", [(2, 5, 10), (3,)], None, {"...0": 2, "...1": 5, "h": 8, "r": 3}),
    # names, words
    ("row+k, k -> row", [(10,), (3,)], None, {"row": 8, "k": 3}),
    ("i_1+r, r -> i_1", [(10,), (3,)], None, {"i_1": 8, "r": 3}),
    # gathers ask nothing of the axis
    ("@1 j, i -> i j", [(100, 3), (5,)], None, {"j": 3, "i": 5}),
    # empty axes
    ("h+r, r -> h", [(0,), (1,)], None, {"h": 0, "r": 1}),
    ("h+r, r -> h", [(4,), (0,)], None, {"h": 4, "r": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shapes", "given", "expected"), SOLVED)
def test_extents_follow_from_shapes(
    text: str, shapes: Shapes, given: dict[str, int] | None, expected: dict[str, int] | None
) -> None:
    specs = [TensorSpec.of(shape, "i8") for shape in shapes]
    if expected is None:
        with pytest.raises(SubscriptError, match="runs from -1"):
            index_space(parse(text, extended=True), specs, given)
        return
    space = index_space(parse(text, extended=True), specs, given)
    assert space.extents == expected
    assert list(space.extents) == list(expected)


WRONG: dict[str, tuple[str, Shapes, dict[str, int] | None, str]] = {
    "ambiguous": (
        "h+r -> h",
        [(5,)],
        None,
        """\
        the extents of 'h' and 'r' cannot be told from the shapes
          h+r -> h
          ^
          operand 0: (5,) float32
          hint: give one by extents={'r': …}, or by an operand that has 'r' alone on an axis""",
    ),
    "ambiguous through an element": (
        "@1+r, i -> i",
        [(5,), (3,)],
        None,
        """\
        the extent of 'r' cannot be told from the shapes
          @1+r, i -> i
          ^
          operand 0: (5,) float32    operand 1: (3,) float32
          hint: give it by extents={'r': …}, or by an operand that has 'r' alone on an axis""",
    ),
    "window longer than the axis": (
        "h+r, r -> h",
        [(3,), (5,)],
        None,
        """\
        index 'h+r' of operand 0 runs from 0 to 4, but its axis has extent 3
          h+r, r -> h
          ^
          operand 0: (3,) float32    operand 1: (5,) float32
          hint: 'h' has extent 1 there already: make the other dims of the sum smaller""",
    ),
    "outside": (
        "i, i+1 -> i",
        [(5,), (5,)],
        None,
        """\
        index 'i+1' of operand 1 runs from 1 to 5, but its axis has extent 5
          i, i+1 -> i
             ^
          operand 0: (5,) float32    operand 1: (5,) float32
          hint: extents={'i': …} makes it end earlier""",
    ),
    "clash": (
        "h+r c, r c -> h",
        [(9, 3), (3, 4)],
        None,
        """\
        index 'c' has extent 3 in operand 0 but 4 in operand 1
          h+r c, r c -> h
              ^    ^
          operand 0: (9, 3) float32    operand 1: (3, 4) float32
          hint: extents={'c': …} takes a part of the longer axis""",
    ),
    "classic clash": (
        "ij,jk->ik",
        [(2, 3), (4, 3)],
        None,
        """\
        index 'j' has extent 3 in operand 0 but 4 in operand 1
          ij,jk->ik
           ^ ^
          operand 0: (2, 3) float32    operand 1: (4, 3) float32
          hint: 'ij,kj->ik' fits these shapes""",
    ),
    "epilogue's operand": (
        "ij,jk->ik; k",
        [(2, 3), (3, 4), (5,)],
        None,
        """\
        index 'k' has extent 4 but 5 in operand 2
          ij,jk->ik; k
                     ^
          operand 0: (2, 3) float32    operand 1: (3, 4) float32    operand 2: (5,) float32""",
    ),
    "words": (
        "h+r c, rc -> h",
        [(9, 3), (3, 3)],
        None,
        """\
        operand 1 has 2 axes but 1 index
          h+r c, rc -> h
                 ^
          operand 0: (9, 3) float32    operand 1: (3, 3) float32
          hint: 'rc' is one name; where indices are sums, blanks separate them: 'r c'""",
    ),
    "too few indices": (
        "h+r, r -> h",
        [(2, 9), (3,)],
        None,
        """\
        operand 0 has 2 axes but 1 index
          h+r, r -> h
          ^
          operand 0: (2, 9) float32    operand 1: (3,) float32
          hint: '... h+r, r -> ... h' broadcasts over the other axes""",
    ),
    "terms": (
        "h+r, r -> h; h",
        [(9,), (3,)],
        None,
        """\
        the string has 3 terms for 2 operands
          h+r, r -> h; h
                      ^
          operand 0: (9,) float32    operand 1: (3,) float32
          hint: terms are separated by commas, one for each operand""",
    ),
    "no arrow": (
        "ij",
        [(2, 3)],
        None,
        """\
        the output is missing
          ij
            ^
          hint: write the dims that remain after '->'""",
    ),
    "unknown output": (
        "h+r, r -> k",
        [(9,), (3,)],
        None,
        """\
        index 'k' of the output is in no operand
          h+r, r -> k
                    ^
          operand 0: (9,) float32    operand 1: (3,) float32
          hint: the operands have 'h', 'r'; extents={'k': …} adds a dim""",
    ),
    "sum in the output": (
        "h+r, r -> 2h",
        [(9,), (3,)],
        None,
        """\
        index '2h' of the output is a sum
          h+r, r -> 2h
                    ^
          hint: the output has one name per axis; sums stand in operands""",
    ),
    "no sum": (
        "n h + r, r -> n h",
        [(2, 9), (3,)],
        None,
        """\
        '+' is no index
          n h + r, r -> n h
              ^
          hint: an index is a sum like 'i', 'h+r' or '2h+r-1' without blanks inside; '@1' is the\
 element of operand 1""",
    ),
    "half a sum": (
        "h+r+, r -> h",
        [(9,), (3,)],
        None,
        """\
        'h+r+' is no index
          h+r+, r -> h
             ^
          hint: an index is a sum like 'i', 'h+r' or '2h+r-1' without blanks inside; '@1' is the\
 element of operand 1""",
    ),
    "no such operand": (
        "@2 j, i -> i j",
        [(9, 2), (3,)],
        None,
        """\
        '@2' is the element of an operand that is not there
          @2 j, i -> i j
          ^
          operand 0: (9, 2) float32    operand 1: (3,) float32
          hint: operands are counted from 0""",
    ),
    "indices into each other": (
        "@1, @0, i -> i",
        [(5,), (4,), (3,)],
        None,
        """\
        operands [0, 1] are indices into each other
          @1, @0, i -> i
          ^   ^
          hint: give an array that is an index and is indexed too twice""",
    ),
    "negative extent": (
        "h+r -> h",
        [(5,)],
        {"r": -1},
        "extents gives dim 'r' the extent -1\n  hint: whole numbers from 0 on",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_shown(name: str) -> None:
    text, shapes, given, expected = WRONG[name]
    dtype = "i4" if "@1" in text else "f4"
    expected = textwrap.dedent(expected).replace("float32", TensorSpec.of((), dtype).dtype.name)
    specs = [TensorSpec.of(shape, dtype) for shape in shapes]
    with pytest.raises(SubscriptError) as caught:
        index_space(parse(text, extended=True), specs, given)
    assert str(caught.value) == expected


def test_an_index_is_an_integer() -> None:
    specs = [TensorSpec.of((9, 2)), TensorSpec.of((3,), "f4")]
    with pytest.raises(DTypeError) as caught:
        index_space(parse("@1 j, i -> i j"), specs)
    assert str(caught.value) == textwrap.dedent("""\
        operand 1 is used as an index, but its elements are float32
          @1 j, i -> i j
          ^
          hint: indices are integers; astype('i8') makes them so""")


def test_axes_of_extent_1_are_read_at_their_only_element() -> None:
    specs = [TensorSpec.of((9, 1)), TensorSpec.of((3, 4))]
    space = index_space(parse("h+r c, r c -> h"), specs)
    assert space.inputs[0] == (AffineSum((("h", 1), ("r", 1))), AffineSum())


def test_the_operands_of_an_epilogue_stand_after_a_semicolon() -> None:
    subscripts = parse("ij,jk->ik; k,", extended=True)
    assert repr(subscripts) == "ij,jk->ik;k,"
    space = index_space(subscripts, [TensorSpec.of(s) for s in ((2, 3), (3, 4), (4,), ())])
    assert len(space.inputs) == 2
    assert space.finish == ((AffineSum((("k", 1),)),), ())


def test_a_classic_string_has_no_semicolon() -> None:
    with pytest.raises(SubscriptError, match=r"^';' is no index\n"):
        parse("ij->i;i")


@pytest.mark.parametrize(
    "text", ["ab c,c d->abd", "...i,i", "i j , j k -> i k", "i+j", "h-r,r", ""]
)
def test_classic_strings_stay_classic(text: str) -> None:
    assert not is_affine(text)


def test_summands_of_one_dim_add_up() -> None:
    assert parse_sum("2h+r-h+3-r", "", 0) == AffineSum((("h", 1),), (), 3)
    assert parse_sum("-i+2@0-1", "", 0) == AffineSum((("i", -1),), ((0, 2),), -1)


@given(st.data())
def test_extents_are_the_largest_that_stay_inside(data: st.DataObject) -> None:
    """One more element of any dim that was solved would leave an axis."""
    small = st.integers(1, 4)
    a, b, c, o = (data.draw(small) for _ in range(4))
    r, s = data.draw(small), data.draw(small)
    least = (b * (r - 1) + o, c * (s - 1))
    shape = tuple(data.draw(st.integers(n + 1, n + 12)) for n in least)
    text = f"{a}h+{b}r+{o} h+{c}s, r s -> h"
    extents = index_space(parse(text), [TensorSpec.of(shape), TensorSpec.of((r, s))]).extents
    reached = [(a * n + b * (r - 1) + o, n + c * (s - 1)) for n in (extents["h"] - 1, extents["h"])]
    assert all(n < extent for n, extent in zip(reached[0], shape, strict=True))
    assert any(n >= extent for n, extent in zip(reached[1], shape, strict=True))
