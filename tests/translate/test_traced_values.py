"""Every value that user code holds while it is traced, under every protocol of Python.

A protocol gives a traced value, or it is refused: none may fall through to the default of Python's
objects, which compares by identity and takes everything for true.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mdtensor.errors import MdtensorError, PassedOverError, ProgramError
from mdtensor.specs import TensorSpec
from mdtensor.translate.arithmetic import Aggregate
from mdtensor.translate.loop_nests.symbolic_buffers import OpenBuffer, SymbolicBuffer
from mdtensor.translate.python.expr_from_function import traced
from mdtensor.translate.records.records import RecordOperand, symbol_of
from mdtensor.translate.scalar import Expr, param
from mdtensor.translate.stencils.stencil_from_function import Field
from mdtensor.translate.tracing import while_tracing

PERSON = np.dtype([("id", "i8"), ("name", "S4"), ("scores", "f4", (3,)), ("code", "u1", (4,))])
OTHER = np.dtype([("id", "i8"), ("weight", "f4")])


class Elements:
    """Gives each element that is read a parameter of its own."""

    def __init__(self) -> None:
        self.count = 0

    def read(self, buffer: SymbolicBuffer, index: tuple[Expr, ...]) -> Expr:
        self.count += 1
        return param(self.count, buffer.dtype)

    def store(self, *_: object) -> None:
        raise AssertionError("nothing is stored here")


def of_loops() -> dict[str, Any]:
    people = SymbolicBuffer("people", TensorSpec.of((5,), PERSON), Elements())
    matrix = SymbolicBuffer("X", TensorSpec.of((5, 3), "f4"), Elements())
    return {
        "array of a loop": matrix,
        "row of a loop": matrix[0],
        "record of a loop": people[1],
        "string of a loop": people[1]["name"],
        "sub-array of a loop": people[1]["scores"],
        "field of all records": people.fields["scores"],
        "array of unknown shape": OpenBuffer("v", np.dtype("f4"), Elements()),
    }


def values() -> dict[str, Any]:
    person = symbol_of(PERSON, RecordOperand(0, lambda column: param(column.word, "u4")))
    return of_loops() | {
        "element": param(0, "f4"),
        "record": person,
        "string": person["name"],
        "sub-array": person["scores"],
        "array of a stencil": Field(0, TensorSpec.of((4, 4)), {}),
    }


PROTOCOLS: dict[str, Callable[[Any], Any]] = {
    "==": lambda v: v == v,
    "!=": lambda v: v != v,
    "== number": lambda v: v == 1,
    "== None": lambda v: v == None,  # noqa: E711
    "== object": lambda v: v == object(),
    "<": lambda v: v < v,
    "<=": lambda v: v <= 1,
    ">": lambda v: 1 > v,  # noqa: SIM300
    ">=": lambda v: v >= v,
    "chain": lambda v: 0 < v < 1,
    "bool": bool,
    "not": operator.not_,
    "and": lambda v: v and 1,
    "filter": lambda v: list(filter(None, [v])),
    "any": lambda v: any([v]),
    "hash": hash,
    "in a set": lambda v: v in {1, 2},
    "key of a dict": lambda v: {v: 1},
    "in a list": lambda v: v in [object(), 1],
    "count of a list": [object()].count,
    "holder of in": lambda v: object() in v,
    "place in a list": [1, 2].index,
    "index of a list": lambda v: [1, 2][v],
    "end of a slice": lambda v: [1, 2][:v],
    "repeated list": lambda v: [0] * v,
    "tuple ==": lambda v: (v, 0) == (1, 0),
    "dict ==": lambda v: {1: v} == {1: 1},
    "number ==": lambda v: np.int64(1) == v,
    "array ==": lambda v: np.ones(3) == v,
    "text ==": lambda v: v == "text",
    "int": int,
    "float": float,
    "complex": complex,
    "index": operator.index,
    "range": range,
    "format": lambda v: f"{v}",
    "format with a width": lambda v: f"{v:>9}",
    "str": str,
    "percent": lambda v: "%s" % v,  # noqa: UP031
    "print": print,
    "join": lambda v: "".join([v]),
    "+": lambda v: v + v,
    "+ number": lambda v: 1 + v,
    "@": lambda v: v @ v,
    "-": operator.neg,
    "~": operator.invert,
    "abs": abs,
    "floor": math.floor,
    "math.sqrt": math.sqrt,
    "round": round,
    "divmod": lambda v: divmod(v, 2),
    "pow": lambda v: v**2,
    "<<": lambda v: v << 1,
    "np.sqrt": np.sqrt,
    "np.equal": lambda v: np.equal(v, v),
    "np.sum": np.sum,
    "np.where": lambda v: np.where(v, 1, 0),
    "np.any": np.any,
    "np.array_equal": lambda v: np.array_equal(v, v),
    "np.stack": lambda v: np.stack([v, v]),
    "np.array": lambda v: np.asarray(v, float),
    "call": lambda v: v(),
    "with": lambda v: v.__enter__(),
    "del": lambda v: operator.delitem(v, 0),
    "sorted": lambda v: sorted([v, v]),
    "max by key": lambda v: max([1, 2], key=lambda _: v),
}
# What has a meaning: its result is traced, or known of the type alone.
MEANINGS = {
    ("record", "=="): Expr,
    ("record", "!="): Expr,
    ("string", "=="): Expr,
    ("string", "!="): Expr,
    ("sub-array", "=="): Expr,
    ("sub-array", "!="): Expr,
    ("record of a loop", "=="): Expr,
    ("record of a loop", "!="): Expr,
    ("string of a loop", "=="): Expr,
    ("string of a loop", "!="): Expr,
    ("sub-array of a loop", "=="): Expr,
    ("sub-array of a loop", "!="): Expr,
}
PYTHONS = (TypeError, AttributeError)  # what Python itself refuses, for which the line is found


@pytest.mark.sampled(24)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", values())
def test_no_protocol_falls_through_to_pythons_default(kind: str, protocol: str) -> None:
    value = values()[kind]
    wanted = MEANINGS.get((kind, protocol))
    try:
        found = while_tracing(PROTOCOLS[protocol], value)
    except (MdtensorError, *PYTHONS):
        assert wanted is None
        return
    if wanted is not None:
        assert isinstance(found, wanted)
    else:
        assert _is_traced(found), f"{protocol} of {kind} gives {found!r}"


def _is_traced(found: Any) -> bool:
    if isinstance(found, tuple):
        return all(map(_is_traced, found))
    return isinstance(found, Expr | Aggregate)


# What has parts that are known of its type alone: how many, and that each is traced in its turn.
LENGTHS = {
    "array of a loop": 5,
    "row of a loop": 3,
    "record of a loop": 4,
    "string of a loop": 4,
    "sub-array of a loop": 3,
    "field of all records": 5,
    "record": 4,
    "string": 4,
    "sub-array": 3,
}
GONE_OVER = {
    kind for kind in LENGTHS if kind.partition(" ")[0] in ("record", "string", "sub-array")
}


@pytest.mark.parametrize("kind", values())
def test_lengths_and_iterations_are_those_of_the_type_or_refused(kind: str) -> None:
    value = values()[kind]
    if kind in LENGTHS:
        assert len(value) == LENGTHS[kind]
    else:
        with pytest.raises((MdtensorError, TypeError)):
            len(value)
    for going_over in (list, sum, max, enumerate, lambda v: [*zip(v, v, strict=True)]):
        try:
            found = while_tracing(going_over, value)
            parts = while_tracing(list, found) if isinstance(found, enumerate) else found
        except (MdtensorError, *PYTHONS):
            assert kind not in GONE_OVER or going_over in (sum, max)
            continue
        assert kind in GONE_OVER
        assert not isinstance(parts, list) or len(parts) == LENGTHS[kind]
        assert isinstance(parts, list) or _is_traced(parts)


@pytest.mark.parametrize("kind", values())
def test_copies_are_the_value_itself(kind: str) -> None:
    value = values()[kind]
    if isinstance(value, Aggregate):
        assert copy.copy(value) is value
        assert copy.deepcopy([value])[0] is value


def identity(a: Any, b: Any) -> Any:
    return 1 if a is b else 0


def identity_with_none(a: Any, b: Any) -> Any:
    return 1 if a is None or b is not None else 0


def text(a: Any, b: Any) -> Any:
    return len(f"{a}") + b


def text_with_a_width(a: Any, b: Any) -> Any:
    return len(f"{a:{4}}") + b


def old_text(a: Any, b: Any) -> Any:
    return len("%s" % a) + b  # noqa: UP031


def known_text(a: Any, b: Any) -> Any:
    return a if f"{1 + 1:>2}{'x'!r}" == " 2'x'" else b


def of_dicts(a: Any, b: Any) -> Any:
    return 1 if {"x": a, "y": 2} == {"x": b, "y": 2} else 0


def of_other_dicts(a: Any, b: Any) -> Any:
    return 1 if {"x": a} == {"y": b} else 0


def of_lists_and_tuples(a: Any, b: Any) -> Any:
    return 1 if [a] == (b,) else 0


def of_nested(a: Any, b: Any) -> Any:
    return 1 if [(a, {"k": b})] == [(b, {"k": a})] else 0


UNKNOWN = "the value of p0 is known only when the kernel runs"


@pytest.mark.parametrize(
    ("function", "message", "line", "hint"),
    [
        (
            identity,
            "whether p0 is the same object is known to Python only",
            "return 1 if a is b else 0",
            "compare values by == or !=",
        ),
        (text, UNKNOWN, 'return len(f"{a}") + b', "kernels print nothing"),
        (text_with_a_width, UNKNOWN, 'return len(f"{a:{4}}") + b', "kernels print nothing"),
        (old_text, UNKNOWN, 'return len("%s" % a) + b  # noqa: UP031', "kernels print nothing"),
    ],
)
def test_what_only_python_knows_is_refused_with_its_line(
    function: Callable[..., Any], message: str, line: str, hint: str
) -> None:
    with pytest.raises(PassedOverError) as caught:
        traced(function, param(0, "f4"), param(1, "f4"))
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert caught.value.text == line
    assert f"in {function.__name__}" in str(caught.value)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (identity_with_none, "1"),
        (known_text, "p0"),
        (of_dicts, "select((p0 == p1), 1, 0)"),
        (of_other_dicts, "0"),
        (of_lists_and_tuples, "0"),
        (of_nested, "select(((p0 == p1) & (p1 == p0)), 1, 0)"),
    ],
)
def test_what_is_known_or_has_a_meaning(function: Callable[..., Any], expected: str) -> None:
    assert repr(traced(function, param(0, "f4"), param(1, "f4"))) == expected


def number_of_nodes(a: Any, b: Any) -> Any:
    return (a + b).size


def name_of_operation(a: Any, b: Any) -> Any:
    return a if a.op == "param" else b


def equal_as_a_method(a: Any, b: Any) -> Any:
    return a if a.__eq__(b) else b


def known_class(a: Any, b: Any) -> Any:
    return a if a.__class__ is float else b


def asked_for(a: Any, b: Any) -> Any:
    return a if getattr(a, "weak") else b  # noqa: B009


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (number_of_nodes, "size"),
        (name_of_operation, "op"),
        (equal_as_a_method, "__eq__"),
        (known_class, "__class__"),
        (asked_for, "weak"),
    ],
)
def test_attributes_of_expressions_are_none_of_elements(
    function: Callable[..., Any], name: str
) -> None:
    with pytest.raises(PassedOverError) as caught:
        traced(function, param(0, "f4"), param(1, "f4"))
    assert caught.value.message == f"an element is a number, which has no {name!r} here"
    assert caught.value.text


def compared(a: Any, b: Any) -> Any:
    return 1 if a == b else 0


@pytest.mark.parametrize(
    ("kind", "message", "hint"),
    [
        (
            "array of a loop",
            "X: float32[5, 3] is used as a whole: a comparison",
            "loop over its elements",
        ),
        (
            "row of a loop",
            "a row of X: float32[5, 3] is used as a whole: a comparison",
            "loop over its elements",
        ),
        (
            "array of a stencil",
            "a stencil uses an array instead of an element of it: a comparison",
            "u[0, 0] is the point itself",
        ),
    ],
)
def test_comparisons_without_a_meaning_name_the_line(kind: str, message: str, hint: str) -> None:
    with pytest.raises(ProgramError) as caught:
        traced(compared, values()[kind], values()[kind])
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert str(caught.value).splitlines()[1:3] == ["  return 1 if a == b else 0", " " * 14 + "^"]


def test_records_with_other_fields_are_not_compared() -> None:
    people, others = (
        SymbolicBuffer(name, TensorSpec.of((5,), dtype), Elements())
        for name, dtype in (("people", PERSON), ("others", OTHER))
    )
    with pytest.raises(ProgramError) as caught:
        traced(compared, people[0], others[0])
    assert caught.value.message == "a record of people and a record of others have different fields"
    assert caught.value.hint == "compare the fields that both have"
