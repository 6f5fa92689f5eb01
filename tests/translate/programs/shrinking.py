"""The shortest text of a program that still fails, by leaving statements and operands out."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator


def shortest(text: str, fails: Callable[[str], bool]) -> str:
    """A program of which nothing can be left out any more; `fails` says whether one fails."""
    found = ast.unparse(ast.parse(text)) + "\n"
    if not fails(found):
        return text
    while (shorter := next(filter(fails, _shorter(found)), None)) is not None:
        found = shorter
    return found


def _shorter(text: str) -> Iterator[str]:
    """Programs with one statement or one operator less, the shortest first."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    texts: set[str] = set()
    for number, node in enumerate(nodes):
        for edit in _edits(node):
            other = copy.deepcopy(tree)
            edit(list(ast.walk(other))[number])
            made = ast.unparse(ast.fix_missing_locations(other)) + "\n"
            if len(made) < len(text):
                texts.add(made)
    yield from sorted(texts, key=lambda made: (len(made), made))


def _edits(node: ast.AST) -> Iterator[Callable[[ast.AST], None]]:
    """What may be done to a node: a statement is left out, an operand put in the whole's place."""
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            for place, item in enumerate(value):
                if isinstance(item, ast.stmt) and not _is_needed(item):
                    yield lambda at, name=name, place=place: getattr(at, name).pop(place)
                    for body in ("body", "orelse"):
                        if not isinstance(item, ast.FunctionDef) and getattr(item, body, None):
                            yield lambda at, name=name, place=place, body=body: _inlined(
                                getattr(at, name), place, body
                            )
                if isinstance(item, ast.expr):
                    for part in range(len(_operands(item))):
                        yield lambda at, name=name, place=place, part=part: getattr(
                            at, name
                        ).__setitem__(place, _operands(getattr(at, name)[place])[part])
        elif isinstance(value, ast.expr):
            for part in range(len(_operands(value))):
                yield lambda at, name=name, part=part: setattr(
                    at, name, _operands(getattr(at, name))[part]
                )


def _inlined(statements: list[ast.stmt], place: int, body: str) -> None:
    statements[place : place + 1] = getattr(statements[place], body)


def _is_needed(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Return)


def _operands(node: ast.expr) -> list[ast.expr]:
    """The expressions that an expression is made of."""
    children = ast.iter_child_nodes(node)
    return [child for child in children if isinstance(child, ast.expr)]
