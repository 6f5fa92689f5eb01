"""Finds caches and tables in source files: what must be listed in docs/caches.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

MEMOIZING = {"cache", "lru_cache"}
EMPTY = {"dict", "list", "set"}


def tables_in(path: Path) -> dict[str, int | None]:
    """The names of the tables of a file, with the most entries of each where its code says so.

    These are memoized functions, `Bounded` dicts and launch tables, empty dicts, lists and sets of
    a module, and dicts of objects that are empty at first. Constants of the file are bounds.
    """
    module = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        target.id: node.value.value
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: dict[str, int | None] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if (call := _made_by(decorator, MEMOIZING)) is not None:
                    found[node.name] = _bound(call, constants)
        for name, value in _assigned(node):
            call = _made_by(value, {*MEMOIZING, "Bounded", "LaunchTable"})
            if call is not None:
                found[name] = _bound(call, constants)
            elif _is_field(node, value) or (
                _is_empty(value) and (node in module.body or _is_table_of_object(node, value))
            ):
                found.setdefault(name, None)
    return found


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names to which a statement assigns, attributes among them, and the value."""
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name | ast.Attribute):
                yield target.id if isinstance(target, ast.Name) else target.attr, node.value


def _made_by(value: ast.expr, names: set[str]) -> ast.expr | None:
    """The call, or the bare decorator, of one of these names in an expression."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and _name(node.func) in names:
            return node
    return value if _name(value) in names else None


def _name(function: ast.expr) -> str:
    """The last name of `functools.cache` and of `Bounded[Key, Value]`."""
    if isinstance(function, ast.Subscript):
        return _name(function.value)
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _bound(call: ast.expr, constants: dict[str, object]) -> int | None:
    if not isinstance(call, ast.Call):
        return None
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(argument, ast.Constant) and isinstance(argument.value, int):
            return argument.value
        if isinstance(argument, ast.Name) and isinstance(value := constants.get(argument.id), int):
            return value
    return None


def _is_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List | ast.Set):
        return not value.elts
    return isinstance(value, ast.Call) and _name(value.func) in EMPTY and not value.args


def _is_field(node: ast.AST, value: ast.expr) -> bool:
    """Whether a statement declares a field of a dataclass that is a dict of its own."""
    if not isinstance(node, ast.AnnAssign) or _name(node.annotation) != "dict":
        return False
    factories = [k.value for k in getattr(value, "keywords", ()) if k.arg == "default_factory"]
    return any(_name(factory) == "dict" for factory in factories)


def _is_table_of_object(node: ast.AST, value: ast.expr) -> bool:
    """Whether a statement makes an empty dict an attribute, as constructors do."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    is_dict = isinstance(value, ast.Dict) or _name(getattr(value, "func", value)) == "dict"
    return is_dict and any(isinstance(target, ast.Attribute) for target in targets)
