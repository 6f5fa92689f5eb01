# ruff: noqa: FURB136, SIM300
"""Statements on objects that have their own say about what is stored, and on variables."""

from __future__ import annotations

from typing import Any

import pytest

from mdtensor.errors import ProgramError
from mdtensor.translate.python.expr_from_function import traced
from mdtensor.translate.python.function_source import source_of
from mdtensor.translate.python.interpreter import Interpreter
from mdtensor.translate.scalar import Expr, param

A, B = param(0, "f8"), param(1, "f8")


class Word:
    """A symbolic object of somebody else: it has its own equality, elements and stores."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def __eq__(self, other: object) -> Any:
        return A == other if isinstance(other, Expr) else A > 5

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: int) -> Expr:
        return A + index

    def __setitem__(self, index: int, value: Any) -> None:
        self.log.append(f"[{index}] = {value!r}")

    def set_where(self, condition: Any, index: int, value: Any) -> None:
        self.log.append(f"[{index}] = {value!r} where {condition!r}")

    @property
    def name(self) -> Expr:
        return B

    def larger(self, other: Expr) -> Expr:
        return self.name if self.name > other else other


def test_objects_have_their_own_say() -> None:
    word, other = Word(), Word()
    assert repr(traced(lambda w, v: 1 if w == v else 2, word, other)) == "select((p0 > 5), 1, 2)"
    assert repr(traced(lambda w: w[2] + w.name, word)) == "((p0 + 2) + p1)"
    assert repr(traced(lambda w, x: w.larger(x), word, A)) == "select((p1 > p0), p1, p0)"


def test_nothing_is_set_after_a_return_on_some_paths() -> None:
    def leaves(w, a):
        if a > 0:
            return
        w[0] = a

    with pytest.raises(
        ProgramError, match=r"^an element is set after a return under a condition\n"
    ):
        traced(leaves, Word(), A)


def test_stores_know_their_conditions() -> None:
    def stores(w, a):
        w[0] = a
        if a > 0:
            w[1] = a
            if a > 9:
                w[2] += 1
        else:
            w[3] = -a

    word = Word()
    source = source_of(stores)
    assert source is not None
    Interpreter(source, globals()).execute(source.statements, {"w": word, "a": A})
    assert word.log == [
        "[0] = p0",
        "[1] = p0 where (p0 > 0)",
        "[2] = ((p0 + 2) + 1) where ((p0 > 0) & (p0 > 9))",
        "[3] = neg(p0) where not((p0 > 0))",
    ]


def test_statements_change_the_variables_that_they_are_given() -> None:
    def body(x):
        y = x + 1
        if y > 2:
            y = 2

    source = source_of(body)
    assert source is not None
    variables: dict[str, Any] = {"x": A}
    assert Interpreter(source, {}).execute(source.statements, variables) is None
    assert repr(variables["y"]) == "select(((p0 + 1) > 2), 2, (p0 + 1))"
