"""What tests ask of the machine that they run on: its clock, its memory, time for a search.

Such tests are marked `campaign`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

TESTS = sorted(Path(__file__).parent.rglob("*.py"))
_PROCESSES = {"subprocess", "multiprocessing"}
_ASKING = re.compile(
    r"\b((monotonic|perf_counter|process_time|thread_time)(_ns)?"  # clocks
    r"|ru_maxrss|statm|VmRSS|mallinfo\w*)\b"  # memory
)
_SEARCHES = re.compile(r"budget|\btun(e|ing)\(")
_ELSEWHERE = re.compile(r"\bmark\.(campaign|gpus?)\b")  # what is no condition of landing
_STAND_INS = {"bench", "measured", "stand_in_bench"}  # have a clock of their own
_IN_NO_HURRY = (0, 3600)  # seconds: the search ends by itself
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def begins_processes(code: str) -> set[str]:
    """By what the code itself begins processes, or forks; programs in its strings are not asked."""
    found: set[str] = set()
    is_possible = re.search(r"subprocess|multiprocessing|\bfork", code)
    for node in ast.walk(ast.parse(code)) if is_possible else ():
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Attribute) and node.attr in ("fork", "forkpty"):
            found.add("os.fork")
    return found & (_PROCESSES | {"os.fork"})


def asked(code: str) -> set[tuple[int, str]]:
    """Lines of a file of tests and what they ask, in what tests of the gate come to."""
    if not _ASKING.search(code) and not _SEARCHES.search(code):  # as most files: takes no time
        return set()
    tree = ast.parse(code)
    named = {name: node for node in tree.body for name in _names_of(node)}
    if _ELSEWHERE.search(ast.unparse(named.get("pytestmark", ast.Pass()))):
        return set()
    defined = [node for node in tree.body if isinstance(node, _Definition)]
    always = [node for node in defined if "autouse" in "".join(map(ast.unparse, _marks(node)))]
    found: set[tuple[int, str]] = set()
    for test in defined:
        if test.name.lower().startswith("test"):
            reached = _reached([test, *always], named)
            is_stand_in = any(_name(node) in _STAND_INS for node in reached)
            for node in reached:
                asking = list(_asking(node)) + ([] if is_stand_in else list(_hurries(node)))
                found.update((getattr(node, "lineno", 0), what) for what in asking)
    return found


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, _Definition):
        return [node.name]
    stored = (part for part in ast.walk(node) if isinstance(part, ast.Name))
    return [part.id for part in stored if isinstance(part.ctx, ast.Store)]


def _marks(node: ast.AST) -> list[ast.expr]:
    return getattr(node, "decorator_list", [])


def _reached(coming: list[ast.AST], named: dict[str, ast.stmt]) -> set[ast.AST]:
    """All within nodes, and within what these name, but tests that run elsewhere."""
    reached: set[ast.AST] = set()
    while coming:
        node = coming.pop()
        is_elsewhere = any(_ELSEWHERE.search(ast.unparse(mark)) for mark in _marks(node))
        if node not in reached and not is_elsewhere:
            reached.add(node)
            coming += ast.iter_child_nodes(node)
            coming += filter(None, [named.get(_name(node))])
    return reached


def _name(node: ast.AST) -> str:
    """The name that is used there; that of an argument may be a fixture's."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return getattr(node, "id", "") or getattr(node, "arg", None) or ""


def _asking(node: ast.AST) -> Iterator[str]:
    """The clock or the counter of memory that is named, in the code or in a program in a string."""
    text = node.value if isinstance(node, ast.Constant) else _name(node)
    if isinstance(text, str) and not isinstance(node, ast.keyword):
        yield from (found[0] for found in _ASKING.finditer(text))


def _hurries(node: ast.AST) -> Iterator[str]:
    """The seconds that a search is given, if it does not end by itself."""
    if isinstance(node, ast.Call):
        given = [after for word, after in pairwise(node.args) if _value(word) == "--budget"]
        if _name(node.func) in ("tune", "tuning"):
            given += [*node.args[:1], *(k.value for k in node.keywords if k.arg == "budget")]
        for value in map(_value, given):
            if re.fullmatch(r"[\d.]+", str(value)) and float(str(value)) not in _IN_NO_HURRY:
                yield f"tune({value})"


def _value(node: ast.AST) -> object:
    return node.value if isinstance(node, ast.Constant) else None
