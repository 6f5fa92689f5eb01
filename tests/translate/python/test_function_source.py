"""Where the source text of a function is found."""

from __future__ import annotations

import ast
import gc
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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


@pytest.fixture
def callbacks() -> Iterator[None]:
    """Callbacks of the garbage collection, in which threads take turns, as often as can be."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    given = [lambda *_: None, lambda *_: None]
    gc.callbacks.extend(given)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)
    for each in given:
        gc.callbacks.remove(each)


@pytest.mark.usefixtures("callbacks")
def test_threads_parse_beside_callbacks_of_the_garbage_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(function_source, "_MOST_TRIES", 1)  # the lock alone is enough
    text = Path(__file__).read_text(encoding="utf-8")
    wanted = ast.dump(ast.parse(text))
    begin = threading.Barrier(8)

    def parsed(_: int) -> list[str]:
        begin.wait()
        return [ast.dump(function_source._tree_of(text)) for _ in range(5)]

    with ThreadPoolExecutor(8) as threads:
        assert [tree for trees in threads.map(parsed, range(8)) for tree in trees] == [wanted] * 40
