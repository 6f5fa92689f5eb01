"""Numbers of cost models: each is a named constant, or a fact of the target."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.targets import CPU, H200

LOWER = Path(__file__).parents[2] / "mdtensor" / "lower"
MODELS = sorted(
    (
        *LOWER.glob("*/cost/*_cost.py"),
        *LOWER.glob("*/cost/cache_traffic.py"),
        *LOWER.glob("gpu/*/*_candidates.py"),
        *LOWER.glob("gpu/*/*_cost.py"),
        *LOWER.glob("cpu/*.py"),
    )
)
NEUTRAL = (0.0, 1.0)


def unnamed_numbers(tree: ast.Module) -> Iterator[str]:
    """Floating-point numbers inside of functions, with their function and line."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                value = node.value if isinstance(node, ast.Constant) else None
                if type(value) is float and value not in NEUTRAL:
                    yield f"{function.name}:{node.lineno}: {value}"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_numbers_have_names(path: Path) -> None:
    assert not [*unnamed_numbers(ast.parse(path.read_text(encoding="utf-8")))]


def test_a_number_without_a_name_is_found() -> None:
    tree = ast.parse("RATE = 0.5\ndef cost(n: int) -> float:\n    return max(1.0, 0.3 * n)\n")
    assert [*unnamed_numbers(tree)] == ["cost:3: 0.3"]


@pytest.mark.parametrize("name", ["65536", "2048 //", "rate / 128", "WARP = 32", "_WARP = 32"])
def test_facts_of_devices_are_no_literals(name: str) -> None:
    sources = [path for path in LOWER.rglob("*.py") if path.name != "machine_model.py"]
    assert len(sources) > 100
    assert not [path for path in sources if name in path.read_text(encoding="utf-8")]


def test_the_clock_follows_from_the_rate() -> None:
    assert H200.clock == 1.98e9
    assert H200.sustained_clock == 1.98e9 * 0.86
    assert CPU.clock == 4e9
    assert replace(CPU, units=2).clock == 2e9
