"""Detection of Python code whose effects a symbolic call would miss, from its bytecode.

Nothing raises in a kernel, so no `except` would be entered; variables around a function would be
set once, while it is translated; `isinstance` and `str` would tell of symbols. All this is seen in
the code; the interpreter then says whether it is so, and where.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from mdtensor.translate.python.local_functions import call_method, is_own
from mdtensor.translate.scalar import ATTRIBUTES, Expr

# Instructions of try and with, of global, and of the class patterns of match.
_ALWAYS = frozenset(("PUSH_EXC_INFO", "STORE_GLOBAL", "DELETE_GLOBAL", "MATCH_CLASS"))
# What may change objects from around the function, ask for the identity of a symbol, or print it.
_MAYBE = frozenset(
    (
        *("STORE_ATTR", "STORE_SUBSCR", "DELETE_ATTR", "DELETE_SUBSCR", "IS_OP"),
        *("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC"),
    )
)
# fmt: off
CHANGES = frozenset((
    "add", "append", "appendleft", "clear", "discard", "extend", "fill", "insert", "pop", "popitem",
    "popleft", "put", "remove", "reverse", "setdefault", "sort", "update",
))
# fmt: on
"""Methods of lists, dicts, sets and arrays that change them."""
_OF_OBJECTS = frozenset(
    (
        *("setattr", "delattr", "getattr", "hasattr", "vars", "dir", "isinstance", "type"),
        *("str", "repr", "ascii", "format", "hash", "id"),
    )
)
_NAMES = CHANGES | _OF_OBJECTS | (set(dir(Expr)) - ATTRIBUTES)


class Doubt(Enum):
    """Whether a function's source must be interpreted: no, if it is available, or always."""

    NONE = 0
    SOME = 1
    SURE = 2


def doubt_of(function: object) -> Doubt:
    """The doubt about a function and all functions that it may call.

    >>> doubt_of(lambda x: x + 1), doubt_of(lambda x: isinstance(x, float))
    (<Doubt.NONE: 0>, <Doubt.SOME: 1>)
    """
    found = python_function(function)
    if found is None or is_own(found):
        return Doubt.NONE
    codes = list(_codes(found.__code__))
    sets_around = any(_sets(code, found.__code__.co_freevars) for code in codes)
    if sets_around or any(not _ALWAYS.isdisjoint(_instructions(code)) for code in codes):
        return Doubt.SURE
    seen: dict[CodeType, FunctionType] = {}
    _collect(found, seen)
    doubtful = any(_is_doubtful(code) for known in seen for code in _codes(known))
    return Doubt.SOME if doubtful else Doubt.NONE


def python_function(value: Any) -> FunctionType | None:
    """The Python function that runs when a value is called; None for native ones."""
    if isinstance(value, partial):
        return python_function(value.func)
    if isinstance(value, MethodType):
        return python_function(value.__func__)
    return value if isinstance(value, FunctionType) else call_method(value)


def _collect(function: FunctionType, seen: dict[CodeType, FunctionType]) -> None:
    """Collect the code of a function and, transitively, of those that it names."""
    if function.__code__ in seen or is_own(function):
        return
    seen[function.__code__] = function
    for value in _named(function):
        known = python_function(value) if callable(value) else None
        if known is not None:
            _collect(known, seen)


def _named(function: FunctionType) -> Iterator[Any]:
    """The objects that a function's free and global names may refer to."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # it has no value yet
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield value
        if isinstance(value, ModuleType):
            yield from (vars(value)[inner] for inner in names & vars(value).keys())


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@lru_cache(maxsize=512)
def _instructions(code: CodeType) -> frozenset[str]:
    return frozenset(instruction.opname for instruction in dis.get_instructions(code))


def _sets(code: CodeType, names: tuple[str, ...]) -> bool:
    """Whether code assigns one of these closure variables."""
    return "STORE_DEREF" in _instructions(code) and any(
        instruction.opname == "STORE_DEREF" and instruction.argval in names
        for instruction in dis.get_instructions(code)
    )


def _is_doubtful(code: CodeType) -> bool:
    instructions = _instructions(code)
    return not (
        _ALWAYS.isdisjoint(instructions)
        and _MAYBE.isdisjoint(instructions)
        and _NAMES.isdisjoint(code.co_names)
    )
