"""The source text of a Python function, and errors that point into it."""

from __future__ import annotations

import ast
import contextlib
import linecache
import os
import threading
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType

from mdtensor.dataclass import dataclass
from mdtensor.errors import ProgramError

Function = ast.FunctionDef | ast.Lambda
_MOST_TRIES = 10
_parsing = threading.RLock()


def _renew() -> None:
    """Replace the parser's lock in a forked child."""
    global _parsing
    _parsing = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function's source: `node` is its definition in the syntax tree of `file`."""

    name: str
    file: str
    node: Function

    def error(
        self,
        node: ast.AST,
        message: str,
        hint: str | None = None,
        kind: type[ProgramError] = ProgramError,
    ) -> ProgramError:
        """An error at a node, with its source line, a caret, the file and the line number."""
        number = getattr(node, "lineno", 0)
        if not number:
            return kind(message, hint=hint)
        line = linecache.getline(self.file, number).rstrip("\n")
        indent = len(line) - len(line.lstrip())
        column = _characters(line, getattr(node, "col_offset", 0)) - indent
        return kind(
            message,
            text=line.strip(),
            carets=(max(column, 0),),
            notes=(f"{self.file}:{number}, in {self.name}",),
            hint=hint,
        )

    @property
    def statements(self) -> list[ast.stmt]:
        """The body's statements; a lambda's is a return of its expression."""
        if isinstance(self.node, ast.FunctionDef):
            return self.node.body
        body = self.node.body
        return [ast.copy_location(ast.Return(body), body)]


def _characters(line: str, offset: int) -> int:
    """Convert Python's column offset in UTF-8 bytes to characters."""
    return len(line.encode()[:offset].decode(errors="ignore"))


def source_of(function: FunctionType) -> FunctionSource | None:
    """The source of a function; None if it is not found."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    tree = _parsed("".join(lines))
    if tree is None:
        return None
    name = function.__name__
    found = _lambda_of(tree, code) if name == "<lambda>" else _definition_of(tree, code)
    return None if found is None else FunctionSource(name, code.co_filename, found)


@lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module | None:
    try:
        return _tree_of(text) if text else None
    except SyntaxError:
        return None


def _tree_of(text: str) -> ast.Module:
    """Parse a text to a syntax tree.

    Python before 3.12 counts the depth of trees for all threads together and raises SystemError
    where callbacks of the garbage collection let another one parse meanwhile. Threads of others,
    and a callback that parses, do not know of the lock: then the text is parsed again.
    """
    with _parsing:
        for _ in range(_MOST_TRIES - 1):
            with contextlib.suppress(SystemError):
                return ast.parse(text)
        return ast.parse(text)


def _definition_of(tree: ast.Module, code: CodeType) -> ast.FunctionDef | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def _lambda_of(tree: ast.Module, code: CodeType) -> ast.Lambda | None:
    """The smallest lambda whose body contains all of the code's positions."""
    places = list(_places(code))
    candidates = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda)
        and node.lineno <= code.co_firstlineno <= (node.end_lineno or 0)
        and _parameters(node) == code.co_varnames[: len(_parameters(node))]
        and all(_inside(node.body, place) for place in places)
    ]
    return min(candidates, key=_extent, default=None)


Place = tuple[tuple[int, int], tuple[int, int]]


def _places(code: CodeType) -> Iterator[Place]:
    for line, last_line, column, last_column in code.co_positions():
        # Instructions that stand for no text have no width.
        if None not in (line, last_line, column, last_column) and last_column:
            yield (line or 0, column or 0), (last_line or 0, last_column)


def _inside(node: ast.expr, place: Place) -> bool:
    start = (node.lineno, node.col_offset)
    end = (node.end_lineno or 0, node.end_col_offset or 0)
    return start <= place[0] and place[1] <= end


def _extent(node: ast.Lambda) -> tuple[int, int]:
    lines = (node.body.end_lineno or 0) - node.body.lineno
    return lines, (node.body.end_col_offset or 0) - node.body.col_offset


def _parameters(node: ast.Lambda) -> tuple[str, ...]:
    given = node.args
    return tuple(arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs))
