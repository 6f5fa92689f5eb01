"""What tests ask of the machine that they run on: its clock, its memory, time for a search.

Such tests are marked `campaign`. `python -m tests.asked_of_machines` lists those that are not.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[1]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
_PROCESSES = {"subprocess", "multiprocessing"}
_CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time"}
_MEMORY = re.compile(r"\b(ru_maxrss|statm|VmRSS|mallinfo\w*)\b")
_ANY = re.compile("|".join(("budget", r"\btun(e|ing)\(", *sorted(_CLOCKS), _MEMORY.pattern)))
_ELSEWHERE = re.compile(r"\bmark\.(campaign|gpus?)\b")  # what is no condition of landing
_STAND_INS = ("bench", "measured", "stand_in_bench")
_IN_NO_HURRY = (0, 3600)  # seconds: the search ends by itself
_Function = ast.FunctionDef | ast.AsyncFunctionDef


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
    if not _ANY.search(code):  # as most files, which thus take no time
        return set()
    tree = ast.parse(code)
    named = {name: node for node in tree.body for name in _names_of(node)}
    if _ELSEWHERE.search(ast.unparse(named.get("pytestmark", ast.Pass()))):
        return set()
    helpers = {name for name, node in named.items() if _returns_seconds(node)}
    always = [node for node in tree.body if _is_of_the_gate(node, "fixture")]
    found: set[tuple[int, str]] = set()
    for test in tree.body:
        if _is_of_the_gate(test, "test"):
            reached = _reached([test, *always], named)
            is_stand_in = any(map(_is_stand_in, reached))
            for node in reached:
                found.update(
                    (line, what)
                    for line, what in _asked_by(node, helpers)
                    if not (is_stand_in and what.startswith("tune("))
                )
    return found


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, (_Function, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = (part for target in targets for part in ast.walk(target))
        return [part.id for part in parts if isinstance(part, ast.Name)]
    return []


def _reached(coming: list[ast.stmt], named: dict[str, ast.stmt]) -> set[ast.stmt]:
    """All of a file that statements name, and what that names."""
    reached: set[ast.stmt] = set()
    while coming:
        node = coming.pop()
        if node not in reached:
            reached.add(node)
            names = map(_name_of_part, _parts(node))
            coming += [named[name] for name in names if name in named]
    return reached


def _name_of_part(part: ast.AST) -> str:
    """The name that is used there; that of an argument may be a fixture's."""
    return part.arg if isinstance(part, ast.arg) else _last_name(part)


def _is_stand_in(node: ast.stmt) -> bool:
    """Whether searches go by a clock that a stand-in of a device advances."""
    return any(_name_of_part(part) in _STAND_INS for part in _parts(node))


def _is_of_the_gate(node: ast.stmt, what: Literal["test", "fixture"]) -> bool:
    """Whether it is a test or a class of tests, or else a fixture that each of them has."""
    if not isinstance(node, (_Function, ast.ClassDef)) or _runs_elsewhere(node):
        return False
    if what == "test":
        return node.name.lower().startswith("test")
    return any("autouse" in ast.unparse(mark) for mark in node.decorator_list)


def _runs_elsewhere(node: ast.AST) -> bool:
    marks = getattr(node, "decorator_list", [])
    return any(_ELSEWHERE.search(ast.unparse(mark)) for mark in marks)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """All within a node but the tests of a class that run elsewhere."""
    yield node
    for part in ast.iter_child_nodes(node):
        if not _runs_elsewhere(part):
            yield from _parts(part)


def _asked_by(node: ast.AST, helpers: set[str]) -> Iterator[tuple[int, str]]:
    """What a statement asks; calls of the `helpers` are seconds that passed."""
    names = _seconds(node, helpers)
    for part in _parts(node):
        line = getattr(part, "lineno", 0)
        if isinstance(part, ast.Assert):
            if _has_seconds(part.test, *names):
                yield line, ast.unparse(part)
        elif isinstance(part, ast.Call):
            yield from ((line, what) for what in _budgets(part))
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield from _asked_by_text(part.value, line, helpers)
        elif _MEMORY.fullmatch(_last_name(part)):
            yield line, _last_name(part)


def _asked_by_text(text: str, line: int, helpers: set[str]) -> Iterator[tuple[int, str]]:
    """What a program asks that a test has as a text, as far as Python can read it."""
    if found := _MEMORY.search(text):
        yield line, found[0]
    elif "\n" in text:
        try:
            program = ast.parse(textwrap.dedent(text))
        except SyntaxError:
            return
        yield from ((line + number - 1, what) for number, what in _asked_by(program, helpers))


def _budgets(call: ast.Call) -> Iterator[str]:
    given: list[ast.expr] = []
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("tune", "tuning"):
        given += [word.value for word in call.keywords if word.arg == "budget"]
        given += call.args[:1]
    words = [word.value if isinstance(word, ast.Constant) else None for word in call.args]
    if "--budget" in words:
        given += call.args[words.index("--budget") + 1 :][:1]
    for value in given:
        number = value.value if isinstance(value, ast.Constant) else None
        if isinstance(number, str) and number.isdecimal():
            number = int(number)
        if isinstance(number, (int, float)) and number not in _IN_NO_HURRY:
            yield f"tune({number})"


def _seconds(node: ast.AST, helpers: set[str]) -> tuple[set[str], set[str]]:
    """Names that have times of a clock, and those that have seconds that passed."""
    times, seconds = set[str](), set(helpers)
    for part in sorted(ast.walk(node), key=lambda part: getattr(part, "lineno", 0)):
        if isinstance(part, ast.Assign):
            names, value = _names_of(part), part.value
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            names, value = [ast.unparse(part.func.value)], ast.Tuple(part.args)  # list.append(…)
        else:
            continue
        if _has_seconds(value, times, seconds):
            seconds.update(names)
        elif isinstance(part, ast.Assign) and any(map(_is_clock, ast.walk(value))):
            times.update(names)
    return times, seconds


def _is_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _last_name(node.func).removesuffix("_ns") in _CLOCKS


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _has_seconds(node: ast.AST, times: set[str], seconds: set[str]) -> bool:
    return any(
        (isinstance(part, ast.Name) and part.id in seconds)
        or (
            isinstance(part, ast.BinOp)
            and isinstance(part.op, ast.Sub)
            and (_is_clock(part.right) or ast.unparse(part.right) in times)
        )
        for part in ast.walk(node)
    )


def _returns_seconds(node: ast.stmt) -> bool:
    if not isinstance(node, _Function):
        return False
    names = _seconds(node, set())
    returned = (part for part in ast.walk(node) if isinstance(part, ast.Return))
    return any(part.value is not None and _has_seconds(part.value, *names) for part in returned)


def main() -> None:
    """Lists what files of tests ask."""
    for path in TESTS:
        if path.name.startswith("test_"):
            for line, what in sorted(asked(path.read_text(encoding="utf-8"))):
                print(f"{path.relative_to(ROOT)}:{line}: {what}")


if __name__ == "__main__":
    main()
