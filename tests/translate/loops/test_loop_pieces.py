"""Index-set splitting: where loops are cut, and that pieces in order are the whole loop."""

from __future__ import annotations

import ast

import pytest

from mdtensor.errors import TranslationError
from mdtensor.translate.loop_nests.loop_pieces import fixed_indices, pieces_of

TEXT = """
for j in range(n):
    held = 1
    d[i, j] = d[i, k] + d[k + 1, j] + d[held, 3] + e[e[2]]
"""


def loop(text: str = TEXT) -> ast.For:
    found = ast.parse(text).body[0]
    assert isinstance(found, ast.For)
    return found


def value_of(values: dict[str, object]) -> object:
    def value(expression: ast.expr) -> object:
        found = eval(ast.unparse(expression), {}, values)
        if found is None:
            raise TranslationError("no value")
        return found

    return value


def test_indices_that_the_loop_does_not_change() -> None:
    found = {ast.unparse(each) for each in fixed_indices(loop())}
    assert found == {"i", "k", "k + 1", "3", "2"}


@pytest.mark.parametrize(
    ("bounds", "values", "pieces"),
    [
        ((10,), {"i": -1, "k": 5}, [(0, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 10)]),
        ((4, 10), {"i": 40, "k": 4}, [(4, 5), (5, 6), (6, 10)]),
        ((10, 20), {"i": 40, "k": 40}, [(10, 20)]),
        ((4, 10), {"i": 7.0, "k": 8}, [(4, 8), (8, 9), (9, 10)]),
        ((10, 0, -1), {"i": 1, "k": 5}, [(10, 0, -1)]),
        ((0,), {"i": 1, "k": 5}, [(0,)]),
        ((10.0,), {"i": 1, "k": 5}, [(10.0,)]),
    ],
)
def test_pieces(
    bounds: tuple[object, ...], values: dict[str, object], pieces: list[tuple[object, ...]]
) -> None:
    assert pieces_of(loop(), bounds, value_of(values)) == pieces


def test_what_has_no_value_is_no_cut() -> None:
    text = "for j in range(n):\n    d[j] = d[k]"
    assert pieces_of(loop(text), (9,), value_of({"k": None})) == [(0, 9)]
    assert pieces_of(loop(text), (9,), value_of({"k": 8})) == [(0, 8), (8, 9)]


def test_of_many_cuts_there_is_none() -> None:
    reads = " + ".join(f"d[{n}]" for n in range(0, 12, 2))
    assert pieces_of(loop(f"for j in range(n):\n    d[j] = {reads}"), (99,), value_of({})) == [
        (99,)
    ]
