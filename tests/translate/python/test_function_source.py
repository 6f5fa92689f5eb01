"""Where the source text of a function is found."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from mdtensor.translate.python import function_source
from mdtensor.translate.python.function_source import source_of


def scaled(x: float) -> float:
    return 2 * x


def test_a_tree_that_another_thread_disturbed_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parse, tries = ast.parse, []

    def disturbed(text: str) -> Any:
        tries.append(text)
        if len(tries) == 1:
            raise SystemError("AST constructor recursion depth mismatch (before=12, after=7)")
        return parse(text)

    function_source._parsed.cache_clear()
    monkeypatch.setattr(ast, "parse", disturbed)
    found = source_of(scaled)
    assert found is not None
    assert found.name == "scaled"
    assert len(tries) == 2
