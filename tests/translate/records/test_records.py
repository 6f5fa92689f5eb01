"""Records in traced functions: columns, strings and their comparisons, wrong uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mdtensor.errors import FieldError, MdtensorError, ProgramError
from mdtensor.specs import TensorSpec
from mdtensor.translate.python.expr_from_function import traced
from mdtensor.translate.records import columns
from mdtensor.translate.records.columns import Column, codes_of, column_dtype, columns_of
from mdtensor.translate.records.records import RecordOperand, has_parts, symbol_of
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction
from mdtensor.translate.reductions.reduction_of_records import reduction_of_records
from mdtensor.translate.scalar import Expr, param
from mdtensor.translate.trees import evaluate

INNER = np.dtype([("year", "<i2"), ("day", "u1")])
PERSON = np.dtype(
    [
        ("id", ">i8"),
        ("name", "S10"),
        ("city", "<U5"),
        ("wide", ">U3"),
        ("score", "f4", (2, 3)),
        ("born", INNER),
        ("short", "S3"),
        ("tags", "S2", (2,)),
    ]
)


def people() -> np.ndarray:
    names = [b"Ann", b"Annegret", b"Maximilian", b""]
    array = np.zeros(len(names), PERSON)
    array["id"] = [1, -2, 3, 1 << 40]
    array["name"] = names
    array["city"] = ["Münst", "Köln", "", "Ulm"]
    array["wide"] = ["abc", "ab", "ä", ""]
    array["score"] = np.arange(24.0).reshape(4, 2, 3)
    array["born"]["year"] = [1950, 1960, 1970, 1980]
    array["born"]["day"] = [1, 2, 3, 4]
    array["short"] = [b"Ann", b"Ann", b"Max", b""]
    array["tags"] = [[b"a", b"bc"], [b"bc", b"a"], [b"", b""], [b"x", b"x"]]
    return array


def computed(function: Any, *arrays: np.ndarray) -> Any:
    """What a function gives for elements at equal positions, traced and evaluated."""
    read: list[tuple[int, Column]] = []

    def symbol(number: int, dtype: np.dtype) -> Any:
        def value(column: Column) -> Expr:
            if (number, column) not in read:
                read.append((number, column))
            return param(read.index((number, column)), column_dtype(dtype, column))

        return symbol_of(dtype, RecordOperand(number, value))

    result = traced(function, *(symbol(n, a.dtype) for n, a in enumerate(arrays)))
    values = [columns_of(arrays[n], [column], apart=False)[0] for n, column in read]
    if not isinstance(result, Expr):
        return result
    return np.broadcast_to(evaluate(result, values), arrays[0].shape)


PARTS: dict[str, Callable[..., Any]] = {
    "a number of another byte order": lambda r: r["id"] + 1,
    "an attribute": lambda r: r.id * 2,
    "a field of a field": lambda r: r["born"]["year"] - r.born.day,
    "a field by position": lambda r: r[0] + 0,
    "an element of a sub-array": lambda r: r["score"][1, -1],
    "elements one by one": lambda r: r["score"][1][0] + r["score"][0][2],
    "a constant": lambda r: r["name"] == b"Annegret",
    "a constant that fills the field": lambda r: r["name"] == b"Maximilian",
    "the empty string": lambda r: r["name"] == b"",
    "another constant": lambda r: r["name"] != b"Ann",
    "text": lambda r: r["city"] == "Köln",
    "text of another byte order": lambda r: r["wide"] == "ä",
    "strings of different lengths": lambda r: r["name"] == r["short"],
    "different strings of different lengths": lambda r: r["short"] != r["name"],
    "strings of a sub-array": lambda r: r["tags"][0] == r["tags"][1],
    "a choice": lambda r: r["id"] if r["name"] == b"Ann" else -1,
    "conditions": lambda r: (r["name"] == b"Ann" and r["city"] == "Ulm") or r["id"] == 3,
    "one of several": lambda r: r["name"] in (b"Ann", b"Max", b"Maximilian"),
    "not": lambda r: not r["name"] == b"Ann",  # noqa: SIM201
}


@pytest.mark.parametrize("name", PARTS)
def test_a_function_of_a_record_is_what_it_is_in_python(name: str) -> None:
    array = people()
    expected = [PARTS[name](record) for record in array.view(np.recarray)]
    np.testing.assert_array_equal(computed(PARTS[name], array), expected)


def test_lengths_are_those_of_the_type() -> None:
    lengths = computed(
        lambda r: (len(r), len(r["name"]), len(r["score"]), r["score"].shape), people()
    )
    assert lengths == (8, 10, 2, (2, 3))
    total = computed(lambda r: sum(sum(row) for row in r["score"]), people())
    np.testing.assert_allclose(total, people()["score"].sum((1, 2)))


def test_parts_of_strings_are_compared() -> None:
    array = people()
    starts = computed(lambda r: r["name"][:3] == r["short"], array)
    pairs = zip(array["name"], array["short"], strict=True)
    np.testing.assert_array_equal(starts, [name[:3] == short for name, short in pairs])
    first = computed(lambda r: r["city"][0] == "K", array)
    np.testing.assert_array_equal(first, [False, True, False, False])
    np.testing.assert_array_equal(computed(lambda r: r["name"] == "Ann", array), [1, 0, 0, 0])
    np.testing.assert_array_equal(computed(lambda r: r["name"] == b"Ann\0", array), [1, 0, 0, 0])
    second = computed(lambda r: r["name"][1] + 0, array)
    np.testing.assert_array_equal(second, [ord("n"), ord("n"), ord("a"), 0])


def test_records_are_equal_where_all_fields_are() -> None:
    array, other = people(), people()
    other["score"][1, 1, 1] = 0
    other["name"][2] = b"Max"
    np.testing.assert_array_equal(computed(lambda a, b: a == b, array, other), array == other)
    np.testing.assert_array_equal(computed(lambda a, b: a != b, array, other), array != other)


def test_strings_without_a_record() -> None:
    names = np.array(["Ann", "Max"])
    np.testing.assert_array_equal(computed(lambda a: a == "Max", names), [False, True])
    assert has_parts(names.dtype)


@pytest.mark.parametrize("apart", [False, True])
def test_columns_are_views_unless_asked_otherwise(apart: bool) -> None:
    array = np.zeros((2, 3), [("a", "f4"), ("b", "i4"), ("text", "S6")])[:, ::2]
    array["text"] = [[b"abcdef", b"x"], [b"", b"yyyyy"]]
    wanted = [Column(("b",)), Column(("text",), 1), Column(("text",), 0)]
    found = columns_of(array, wanted, apart=apart)
    assert [a.shape for a in found] == [(2, 2)] * 3
    assert np.may_share_memory(found[0], array) is not apart
    assert all(a.flags.c_contiguous for a in found) or not apart
    assert found[1].tolist() == [[ord("e") + 256 * ord("f"), 0], [0, ord("y")]]
    assert found[2].tolist() == [[0x64636261, ord("x")], [0, 0x79797979]]


def test_columns_of_nothing_and_of_one_element() -> None:
    word = [Column(("name",), 0)]
    assert columns_of(people()[:0], word, apart=True)[0].shape == (0,)
    assert columns_of(people()[1:2].reshape(()), word, apart=True)[0].shape == ()


STRINGS = {
    "few": ([b"Ann", b"Max", b"", b"Ann"], [b"Max", b"Eve", b"Annegret", b"", b"Ann"]),
    "many": ([b"Ann", b"Max", b"", b"Ann", b"Annegret"], [b"Annegret", b"Eve", b""]),
    "text": (["Ä", "Max", ""], ["Jürgen", "Ä", "Maximilian", ""]),
    "none on one side": ([b"Ann"], []),
    "none": ([], []),
}


@pytest.mark.parametrize("colliding", [False, True])
@pytest.mark.parametrize("name", STRINGS)
def test_codes_are_equal_where_strings_are(
    name: str, colliding: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if colliding:
        monkeypatch.setattr(columns, "_mixed", lambda words: np.zeros(words.shape[1], np.uint64))
    kind = "U" if name == "text" else "S"
    lhs, rhs = (np.array(side, kind) for side in STRINGS[name])
    of_lhs, of_rhs = codes_of(lhs.reshape(-1, 1), rhs)
    assert (of_lhs.shape, of_rhs.shape) == ((len(lhs), 1), rhs.shape)
    np.testing.assert_array_equal(of_lhs == of_rhs, lhs[:, None] == rhs)


def test_only_what_is_used_is_read() -> None:
    def close(a: Any, b: Any) -> Any:
        unused = b["name"] == b["short"]
        return (a["name"] == b["name"] and a["short"] == b"Ann") or a.id > 0 or (unused and False)

    few = reduction_of_records(
        Reduction("i,j->i", close, "or"), [TensorSpec.of((n,), PERSON) for n in (9, 5)]
    )
    words = [Column(("name",), n) for n in range(3)]
    assert few.columns == ((*words, Column(("short",), 0), Column(("id",))), tuple(words))
    assert few.reduction.text == "i,i,i,i,i,j,j,j->i"
    many = reduction_of_records(
        Reduction("i,j->i", close, "or"), [TensorSpec.of((n,), PERSON) for n in (900, 600)]
    )
    name = ("name",)
    assert many.columns[1] == (Column(name, peer=(0, name)),)
    assert many.columns[0] == (Column(name, peer=(1, name)), *few.columns[0][3:])
    assert (few.apart, many.apart) == ((False, True), (True, True))


WRONG: dict[str, tuple[Callable[..., Any], str, str | None]] = {
    "an unknown field": (
        lambda r: r["nam"] == b"Ann",
        "operand 0 has no field 'nam'",
        "its fields are id, name, city, wide, score, born, short, tags",
    ),
    "an unknown attribute of a field": (
        lambda r: r.born.month,
        "field 'born' of operand 0 has no field 'month'",
        "its fields are year, day",
    ),
    "a string that is too long": (
        lambda r: r["short"] == b"Anna",
        "b'Anna' has 4 characters, but field 'short' of operand 0 (S3) holds 3",
        "it equals no such string; compare with b'Ann'",
    ),
    "a record as a number": (
        lambda r: r + 1,
        "operation 'add' takes numbers, not operand 0 (a record)",
        "take one of its fields: id, name, city, wide, score, born, short, tags",
    ),
    "a number and a record": (
        lambda r: r["id"] + r,
        "operation 'add': operand 0 (a record) is no scalar",
        None,
    ),
    "a string as a number": (
        lambda r: 2 * r["name"],
        "operation 'mul' takes numbers, not field 'name' of operand 0 (S10)",
        "compare strings by == and !=, with strings or constants",
    ),
    "an order of strings": (
        lambda r: r["name"] < r["short"],
        "operation 'lt' takes numbers, not field 'name' of operand 0 (S10)",
        "compare strings by == and !=, with strings or constants",
    ),
    "a string as a condition": (
        lambda r: 1 if r["name"] else 0,
        "a condition takes numbers, not field 'name' of operand 0 (S10)",
        "compare strings by == and !=, with strings or constants",
    ),
    "a string and a number": (
        lambda r: r["name"] == r["id"],
        "field 'name' of operand 0 (S10) is compared with p0, a number",
        "compare strings by == and !=, with strings or constants",
    ),
    "bytes and text": (
        lambda r: r["name"] == r["city"],
        "field 'name' of operand 0 (S10) is compared with field 'city' of operand 0 (U5)",
        "bytes (S) and text (U) differ; convert one array by astype",
    ),
    "text and bytes": (
        lambda r: r["city"] == b"Ulm",
        "field 'city' of operand 0 (U5) is compared with bytes",
        "with text: 'Ulm'",
    ),
    "bytes that are not ASCII": (
        lambda r: r["name"] == "Jürgen",
        "field 'name' of operand 0 (S10) is compared with 'Jürgen', which is not ASCII",
        "encode it as the field is: 'Jürgen'.encode(…)",
    ),
    "an index that is not known": (
        lambda r: r["score"][r["id"]][0],
        "field 'score' of operand 0 is indexed by p0",
        "positions in it must be known constants",
    ),
    "an index out of reach": (
        lambda r: r["score"][2][0],
        "index 2 is out of reach: field 'score' of operand 0 has 2 elements",
        None,
    ),
    "different fields": (
        lambda r: r["born"] == r,
        "field 'born' of operand 0 (a record) and operand 0 (a record) have different fields",
        "compare the fields that both have",
    ),
    "a sub-array and a number": (
        lambda r: r["score"] == 1,
        "field 'score' of operand 0 (float32[2, 3]) is compared with 1",
        "take one of its elements, or loop over them",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_uses_are_refused(name: str) -> None:
    function, message, hint = WRONG[name]
    with pytest.raises(ProgramError) as caught:
        computed(function, people())
    assert caught.value.message == message
    assert caught.value.hint == hint
    assert caught.value.text is not None
    assert "lambda r:" in caught.value.text


def test_types_without_kernels_are_refused() -> None:
    dated = np.zeros(1, [("when", "M8[s]")])
    with pytest.raises(MdtensorError) as caught:
        computed(lambda r: r["when"], dated)
    assert caught.value.message == (
        "field 'when' of operand 0 is datetime64[s], with which no kernel computes"
    )


def test_a_missing_field_is_a_missing_attribute() -> None:
    record = symbol_of(PERSON, RecordOperand(0, lambda _: param(0, "f4")), "it")
    assert not hasattr(record, "nobody")
    with pytest.raises(FieldError, match=r"it has no field 3\.5"):
        record[3.5]
