"""What a Python function computes, as a key: a lambda that is written in a loop is made once."""

from __future__ import annotations

import functools
import hashlib
import math
import types
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.operators.operators import OperatorFunction

_DEPTH = 8
_ATTRIBUTES = 2  # attributes of attributes that are looked at
_OF_PYTHON = 1 << 9  # the flag of classes that a program made
_CONTENT = 256  # bytes of arrays that keys hold; of longer ones a digest
_VALUES: Any = (bool, int, float, complex, str, bytes, np.generic)
_SEQUENCES: Any = (tuple, list)


def function_key(function: Any) -> Hashable:
    """A key that functions of one source share while all that they refer to is the same.

    It holds the code, the defaults, and the values of the names that the code takes from around
    it, also those of functions called by these names. Arrays count by what they contain. What has
    no value of its own, or cannot be hashed, counts by identity, and by its attributes that the
    code names: `lambda x: settings.factor * x` is another function when the factor is another.

    >>> def scaled(factor):
    ...     return lambda x: factor * x
    >>> function_key(scaled(2)) == function_key(scaled(2))
    True
    >>> function_key(scaled(2)) == function_key(scaled(2.0))
    False
    """
    return _key(function, _DEPTH)


def _key(value: Any, depth: int, names: Sequence[str] = ()) -> Hashable:
    """The key of a value, of which code looks up attributes of some names."""
    kind: type = value.__class__
    if kind is types.FunctionType and depth:
        return _of_function(value, depth - 1)
    if value is None or issubclass(kind, _VALUES):
        return (kind, repr(value))
    if issubclass(kind, _SEQUENCES):
        return (kind, *(_key(part, depth) for part in value))
    if issubclass(kind, dict):
        items = value.items()
        return ("dict", *((_key(k, depth), _key(v, depth)) for k, v in items))
    if isinstance(value, OperatorFunction):
        return (_key(value.function, depth), _key(value.identity, depth), value.commutative)
    if kind is Combination:
        return (value.kind, _key(value.operator, depth))
    if issubclass(kind, np.ndarray):
        return _of_array(value, depth)
    if kind is functools.partial:
        return (kind, *(_key(part, depth) for part in (value.func, value.args, value.keywords)))
    if kind is types.MethodType:
        return (_key(value.__func__, depth), _of_object(value.__self__, depth, (value.__name__,)))
    return _of_object(value, depth, names)


def _of_object(value: Any, depth: int, names: Sequence[str]) -> Hashable:
    """The key of what has no value of its own: itself, and what code looks up in it."""
    try:
        held: Hashable = value
        hash(held)
    except (TypeError, ValueError):  # of memory that may change, it is a ValueError
        held = _Same(value)
    attributes = _attributes(value, names, min(depth, _ATTRIBUTES))
    return (held, *attributes) if attributes else held


def _of_array(array: np.ndarray, depth: int) -> Hashable:
    """The key of an array, which may change from call to call, and need not live on for it."""
    if array.dtype.hasobject:
        return (np.ndarray, array.shape, _key(array.tolist(), depth))
    content = array.tobytes()
    if len(content) > _CONTENT:
        content = hashlib.blake2b(content).digest()
    return (np.ndarray, array.dtype, array.shape, content)


def _attributes(value: Any, names: Sequence[str], depth: int) -> list[Hashable]:
    """Attributes of those names that an object, its class or a module has, and their keys.

    Where one of them is a function of the object's class, those that its code names are as well.
    """
    if not depth or value is np or value is math:  # whose attributes are what they are
        return []
    of: type = value if isinstance(value, type) else value.__class__
    own: Mapping[str, Any] | None = getattr(value, "__dict__", None)
    is_of_python = of.__flags__ & _OF_PYTHON
    if not (own or is_of_python):  # such as a function of NumPy's
        return []
    classes = [vars(base) for base in of.__mro__] if is_of_python else []
    places = [own, *classes] if own else classes
    left = ["__call__", *names] if classes else list(names)
    found: list[Hashable] = []
    for name in left:
        given = next((place[name] for place in places if name in place), None)
        if isinstance(given, types.MemberDescriptorType):  # of a class with slots
            given = getattr(value, name, None)
        elif isinstance(given, types.FunctionType) and classes:
            left += [more for more in _names_in(given.__code__) if more not in left]
        if given is not None:
            found += name, _key(given, depth - 1, names)
    return found


def _of_function(function: types.FunctionType, depth: int) -> Hashable:
    code = function.__code__
    around = function.__globals__
    parts: list[Hashable] = [code]
    defaults = function.__defaults__, function.__kwdefaults__
    parts += [None if given is None else _key(given, depth) for given in defaults]
    names = _names_in(code)
    cells = filter(_is_filled, function.__closure__ or ())
    parts += [_key(cell.cell_contents, depth, names) for cell in cells]
    for name in names:
        if name in around:
            parts += name, _key(around[name], depth, names)
    return tuple(parts)


# The names that code may look up among the globals, by where it lies; it is kept alive here.
_names_of: dict[int, tuple[types.CodeType, tuple[str, ...]]] = {}
_MOST_CODES = 1024


def _names_in(code: types.CodeType) -> tuple[str, ...]:
    known = _names_of.get(id(code))
    if known is None or known[0] is not code:
        if len(_names_of) >= _MOST_CODES:
            _names_of.clear()
        known = _names_of[id(code)] = code, tuple(_names(code))
    return known[1]


def _is_filled(cell: types.CellType) -> bool:
    """Whether the name around a function has a value by now."""
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _names(code: types.CodeType) -> list[str]:
    """Names that code, or code inside of it, may look up among the globals."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names(constant)
    return names


class _Same:
    """Stands for an object in a key by its identity, and keeps it alive."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
