from __future__ import annotations

from pathlib import Path

import pytest

from mdtensor.api.cli.expression_arguments import (
    expressions_from_file,
    expressions_from_lines,
    spec_from_text,
)
from mdtensor.errors import DTypeError, ShapeError, SubscriptError
from mdtensor.specs import TensorSpec


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("64,128", TensorSpec.of((64, 128))),
        ("(64, 128)", TensorSpec.of((64, 128))),
        ("(7,)", TensorSpec.of((7,))),
        ("0", TensorSpec.of((0,))),
        ("()", TensorSpec.of(())),
        ("():i8", TensorSpec.of((), "i8")),
        ("3,4:complex64", TensorSpec.of((3, 4), "c8")),
    ],
)
def test_a_shape_is_read(text: str, spec: TensorSpec) -> None:
    assert spec_from_text(text) == spec


@pytest.mark.parametrize("text", ["", "a", "3,,4", "-3", "3.5", "3,4:", "3x4"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(ShapeError, match="is no shape"):
        spec_from_text(text)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(DTypeError, match="'f5' is no element type"):
        spec_from_text("3:f5")


def test_lines_are_read_with_comments_and_quotes() -> None:
    lines = ["# layers", "", "bi,ij->bj 32,64 64,10  # first", '"ij, jk -> ik" 2,3:f8 3,4']
    assert [str(each) for each in expressions_from_lines(lines, "f2")] == [
        "bi,ij->bj 32,64:f2 64,10:f2",
        "ij, jk -> ik 2,3:f8 3,4:f2",
    ]


def test_a_semiring_is_no_extent() -> None:
    lines = ["ij->i 2,3 semiring=bool", "ij->i 2,3", "'h+semiring -> h' 9 semiring=3"]
    read = expressions_from_lines(lines, semiring="max_plus")
    assert [each.options for each in read] == [
        {"semiring": "bool"},
        {"semiring": "max_plus"},
        {"extents": {"semiring": 3}, "semiring": "max_plus"},
    ]
    assert expressions_from_lines(map(str, read[:2])) == read[:2]


def test_an_error_names_its_line() -> None:
    with pytest.raises(SubscriptError) as caught:
        expressions_from_lines(["ij->i 2,3", "ij,jk->ik 2,3 4,5"])
    assert str(caught.value) == (
        "line 2: index 'j' has extent 3 in operand 0 but 4 in operand 1\n"
        "  ij,jk->ik\n"
        "   ^ ^\n"
        "  operand 0: (2, 3) float32    operand 1: (4, 5) float32"
    )


def test_an_error_in_a_file_names_the_file_and_the_line(tmp_path: Path) -> None:
    file = tmp_path / "layers"
    file.write_text("ij->i 2,3\nij->j 2,3\nij,jk->ik 2,3 4,5\n", encoding="utf-8")
    with pytest.raises(SubscriptError) as caught:
        expressions_from_file(file)
    assert str(caught.value).splitlines()[0] == (
        f"{file}, line 3: index 'j' has extent 3 in operand 0 but 4 in operand 1"
    )
    file.write_text("ij->i 2,3\n'ij->j\n", encoding="utf-8")
    with pytest.raises(ShapeError) as unclosed:
        expressions_from_file(file)
    assert str(unclosed.value) == f"{file}, line 2: No closing quotation\n  'ij->j"


def test_an_open_quotation_names_its_line() -> None:
    with pytest.raises(ShapeError, match=r"line 1: No closing quotation\n  \"ij->i 2,3"):
        expressions_from_lines(['"ij->i 2,3'])


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("ij->i 3,4\n", encoding="utf-8-sig")
    assert [str(each) for each in expressions_from_file(file)] == ["ij->i 3,4"]


def test_a_file_that_says_nothing_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(ShapeError, match="has no expression"):
        expressions_from_file(empty)
    with pytest.raises(ShapeError, match="cannot read"):
        expressions_from_file(tmp_path / "missing")
