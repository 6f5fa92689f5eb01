"""Python syntax that cannot be traced, with reasons and remedies."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from mdtensor.errors import PassedOverError, ProgramError

Reason = tuple[str, str | None]
"""What is wrong, and a way out."""

_REFUSED: Mapping[type[ast.AST], Reason] = {
    ast.While: (
        "'while' has no known number of steps",
        "write 'for … in range(…)' with a constant",
    ),
    ast.Raise: ("'raise' cannot be traced: kernels raise nothing", "return a value such as nan"),
    ast.Import: ("'import' cannot be traced", "import at the top of the module"),
    ast.ImportFrom: ("'import' cannot be traced", "import at the top of the module"),
    ast.Delete: ("'del' cannot be traced", "leave it out"),
    ast.ClassDef: ("classes cannot be defined in traced functions", "use tuples"),
    ast.AsyncFunctionDef: ("'async' cannot be traced", None),
    ast.Yield: ("generators cannot be traced", "return a tuple"),
    ast.YieldFrom: ("generators cannot be traced", "return a tuple"),
    ast.Await: ("'await' cannot be traced", None),
}
_NO_RAISE = ("'try' cannot be traced: kernels raise nothing", "test with if instead")
_NO_VARIABLES = "cannot be traced: kernels change no variables of Python"
# What calling a function would do once, while it is translated, or never.
_PASSED_OVER: Mapping[type[ast.AST], Reason] = {
    ast.Try: _NO_RAISE,
    ast.TryStar: _NO_RAISE,
    ast.With: ("'with' cannot be traced", "leave it out of the traced function"),
    ast.Global: (f"'global' {_NO_VARIABLES}", "return it"),
    ast.Nonlocal: (f"'nonlocal' {_NO_VARIABLES}", "return it"),
    ast.Match: ("'match' cannot be traced", "write it with if"),
}


def refusal_of(node: ast.AST) -> tuple[str, str | None, type[ProgramError]]:
    """The reason why a node is refused, a remedy, and the class of the error.

    >>> refusal_of(ast.Delete([]))[:2]
    ("'del' cannot be traced", 'leave it out')
    """
    if type(node) in _PASSED_OVER:
        return (*_PASSED_OVER[type(node)], PassedOverError)
    unknown = (f"{type(node).__name__} cannot be traced", "write it in simpler Python")
    return (*_REFUSED.get(type(node), unknown), ProgramError)
