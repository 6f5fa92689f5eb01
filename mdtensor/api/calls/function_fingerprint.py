"""Fingerprints of Python functions, equal for functions that compute the same."""

from __future__ import annotations

import functools
import math
import os
import sys
import types
from array import array as array_of_numbers
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

import numpy as np

from mdtensor.bounded import Bounded
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.operators.combine_operators import OperatorFunction

_OF_PYTHON = 1 << 9  # the flag of classes that a program made
_CONTENT = 256  # bytes of arrays that keys hold; of longer ones a digest
_MOST_VISITED = 500  # functions and objects that a key is made of
_VALUES: Any = (bool, int, float, complex, str, bytes, np.generic)
_SEQUENCES: Any = (tuple, list, deque, bytearray, array_of_numbers)
_SETS: Any = (set, frozenset)
_MAPPINGS: Any = (dict, types.MappingProxyType)
# What Python looks up itself: what operators, calls and brackets do on objects of a class.
_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
)
_SPECIAL = frozenset(
    (
        *("__call__", "__getattr__", "__getattribute__", "__get__", "__getitem__", "__missing__"),
        *("__neg__", "__pos__", "__invert__", "__abs__", "__bool__", "__float__", "__complex__"),
        *("__int__", "__index__", "__iter__", "__len__", "__contains__", "__array_ufunc__"),
        *("__lt__", "__le__", "__gt__", "__ge__"),
        *(f"__{side}{operator}__" for operator in _OPERATORS for side in ("", "r")),
    )
)


def function_key(function: Any) -> Hashable:
    """A key that functions share whose source and references are equal.

    It holds the code, the defaults, and the values of the names that the code takes from around
    it, also those of functions called by these names. Arrays count by what they contain. What has
    no value of its own, or cannot be hashed, counts by identity, and by its attributes that the
    code names, however deep: `lambda x: model.scale.factor * x` is another function when the
    factor is another. Functions that mdtensor and Python's library have by name count by identity.
    What refers to more than can be looked at, or to what may change unseen or changes now, has a
    key that equals no other.

    >>> def scaled(factor):
    ...     return lambda x: factor * x
    >>> function_key(scaled(2)) == function_key(scaled(2))
    True
    >>> function_key(scaled(2)) == function_key(scaled(2.0))
    False
    """
    try:
        return _key(function, {})
    except (RuntimeError, _UnseenError):  # too deep, or another thread changes a mapping
        return _Same(object())


class _UnseenError(Exception):
    """A function refers to an object that may change without a trace."""


# What a key was made of so far, with its number: functions by where they lie, objects also by the
# names that are looked up in them. They are kept alive, so that nothing else comes to lie there.
Visited = dict[Hashable, tuple[int, object]]


def _key(value: Any, visited: Visited, names: Sequence[str] = ()) -> Hashable:
    """The key of a value; `names` are the attributes that code looks up in it."""
    kind: type = value.__class__
    if kind is types.FunctionType:
        held = _of_function(value, visited)
        return _with_attributes(held, value.__dict__, visited, names) if names else held
    if isinstance(value, OperatorFunction):
        return (_key(value.function, visited), _key(value.identity, visited), value.commutative)
    if kind is Combination:
        return (value.kind, _key(value.operator, visited))
    content = _content(value, kind, visited, names)
    if content is None:
        return _of_object(value, visited, names)
    if kind.__flags__ & _OF_PYTHON and (more := _attributes(value, names, visited)):
        return (content, *more)
    return content


def _content(value: Any, kind: Any, visited: Visited, names: Sequence[str]) -> Hashable | None:
    """The key of a value compared by content; None for other objects."""
    if kind is int:
        return (kind, value)
    if value is None or issubclass(kind, _VALUES):
        return (kind, repr(value))
    if issubclass(kind, _SEQUENCES):
        return (kind, *(_key(part, visited, names) for part in value))
    if issubclass(kind, _MAPPINGS):
        items = value.items()
        return ("dict", *((_key(k, visited), _key(v, visited, names)) for k, v in items))
    if issubclass(kind, _SETS):
        return (kind, frozenset(_key(part, visited, names) for part in value))
    if issubclass(kind, np.ndarray):
        return _of_array(value, visited)
    if kind is functools.partial:
        return (kind, *(_key(part, visited) for part in (value.func, value.args, value.keywords)))
    if kind is types.MethodType:
        of_self = _of_object(value.__self__, visited, (value.__name__,))
        return (_key(value.__func__, visited), of_self)
    if kind is ContextVar:
        return (_Same(value), _key(value.get(None), visited, names))
    return _of_tensor(value, visited) if hasattr(kind, "__dlpack__") else None


def _of_tensor(tensor: Any, visited: Visited) -> Hashable:
    """The key of another library's array by identity and contents, since it may change."""
    try:
        return (_Same(tensor), _of_array(np.asarray(tensor), visited))
    except Exception as error:  # whatever its library says of one that is elsewhere
        raise _UnseenError from error


def _with_attributes(
    held: Hashable, own: Mapping[str, Any], visited: Visited, names: Sequence[str]
) -> Hashable:
    """The key of a function with those of the attributes that code looks up in it."""
    found = [part for n in names if n in own for part in (n, _key(own[n], visited, names))]
    return (held, *found) if found else held


def _visit(place: Hashable, value: object, visited: Visited) -> None:
    """Registers a value whose key is being computed; RecursionError beyond a limit."""
    if len(visited) >= _MOST_VISITED:
        raise RecursionError
    visited[place] = len(visited), value


def _of_object(value: Any, visited: Visited, names: Sequence[str]) -> Hashable:
    """The key of an object compared by identity, with the attributes that code looks up."""
    try:
        held: Hashable = value
        hash(held)
    except (TypeError, ValueError) as error:  # of memory that may change, it is a ValueError
        of: type = value.__class__
        if not (getattr(value, "__dict__", None) or of.__flags__ & _OF_PYTHON):
            raise _UnseenError from error
        held = _Same(value)
    attributes = _attributes(value, names, visited)
    return (held, *attributes) if attributes else held


def _of_array(array: np.ndarray, visited: Visited) -> Hashable:
    """The key of an array by its contents, which may change; the array is not kept alive."""
    if isinstance(array, np.ma.MaskedArray):
        raise _UnseenError
    if array.dtype.hasobject:
        return (np.ndarray, array.shape, _key(array.tolist(), visited))
    content = array.tobytes()
    if len(content) > _CONTENT:
        import hashlib  # which most calls do without

        content = hashlib.blake2b(content).digest()
    return (np.ndarray, array.dtype, array.shape, content)


def _attributes(value: Any, names: Sequence[str], visited: Visited) -> Sequence[Hashable]:
    """The named attributes of an object, its class or a module, with their keys.

    Where one of them is a function of the object's class, those that its code names are as well.
    """
    if value is np or value is math:  # whose attributes are what they are
        return ()
    kind: type = value.__class__
    of: type = value if isinstance(value, type) else kind
    own: Mapping[str, Any] | None = getattr(value, "__dict__", None)
    is_of_python = of.__flags__ & _OF_PYTHON
    if not (own or is_of_python):  # such as a function of NumPy's
        return ()
    if (place := (id(value), names)) in visited:
        return ("again", visited[place][0])
    _visit(place, value, visited)
    classes = _of_program(of) if is_of_python else []
    places = [*([own] if own else []), *classes, *(_of_program(kind) if of is value else ())]
    left = [name for place in classes for name in place if name in _SPECIAL]
    special = len(left)
    left += names
    found: list[tuple[str, Any]] = []
    for name in left:
        given = next((place[name] for place in places if name in place), None)
        if isinstance(given, types.MemberDescriptorType):  # of a class with slots
            given = getattr(value, name, None)
        given = _behind(given)
        if isinstance(given, types.FunctionType) and classes:
            left += [more for more in _looked_up(given.__code__)[1] if more not in left]
        if given is not None:
            found.append((name, given))
    inside = tuple(left[special:]) if len(left) > special + len(names) else names
    return [part for name, given in found for part in (name, _key(given, visited, inside))]


def _of_program(of: type) -> list[Mapping[str, Any]]:
    """The namespaces of a class and its bases, without those of built-in classes."""
    return [vars(base) for base in of.__mro__ if base.__flags__ & _OF_PYTHON]


def _behind(given: Any) -> Any:
    """The function of a property, a static or a class method; other values as they are."""
    if isinstance(given, property):
        return given.fget
    if isinstance(given, staticmethod | classmethod):
        return cast("Any", given).__func__
    return given.func if isinstance(given, functools.cached_property) else given  # noqa: TID251


def _of_function(function: types.FunctionType, visited: Visited) -> Hashable:
    code = function.__code__
    _, names, is_own = _looked_up(code)
    defaults, keywords = function.__defaults__, function.__kwdefaults__
    closure = function.__closure__
    if not (names or closure or defaults or keywords):
        return (code,)
    if is_own and _has_name_there(function):  # it may refer to tables that each call changes
        return function
    if (place := id(function)) in visited:
        return ("again", visited[place][0])
    _visit(place, function, visited)
    parts: list[Hashable] = [code]
    if defaults or keywords:
        parts += _key(defaults, visited, names), _key(keywords, visited, names)
    if closure:
        cells = filter(_is_filled, closure)
        parts += [_key(cell.cell_contents, visited, names) for cell in cells]
    if not is_own:
        around = function.__globals__
        for name in names:
            if name in around:
                parts += name, _key(around[name], visited, names)
    return tuple(parts)


# The names that code may look up, and whether it is mdtensor's or Python's, whose functions refer
# to what is what it is; by where it lies. It is kept alive.
_Looked = tuple[types.CodeType, tuple[str, ...], bool]
_looked_up_in = Bounded[int, _Looked](1024)
_OWN = str(Path(__file__).parents[2]), "<frozen "
_OF_LIBRARY, _INSTALLED = str(Path(os.__file__).parent), "-packages"


def _looked_up(code: types.CodeType) -> _Looked:
    known = _looked_up_in.get(id(code))
    if known is None or known[0] is not code:
        known = code, tuple(_names(code)), _is_fixed(code.co_filename)
        _looked_up_in.keep(id(code), known)
    return known


def _is_fixed(file: str) -> bool:
    """Whether a file belongs to mdtensor or Python's library, whose code does not change."""
    library = file.startswith(_OF_LIBRARY) and _INSTALLED not in file
    return library or file.startswith(_OWN)


def _has_name_there(function: types.FunctionType) -> bool:
    """Whether a library module has a function under its own qualified name."""
    module = sys.modules.get(function.__module__)
    if module is None or vars(module).get(function.__qualname__) is not function:
        return False
    return _is_fixed(getattr(module, "__file__", None) or "")


def _is_filled(cell: types.CellType) -> bool:
    """Whether a closure cell has a value."""
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _names(code: types.CodeType) -> list[str]:
    """The global names that code, or nested code, may look up."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names(constant)
    return names


class _Same:
    """A key that compares an object by identity, and keeps it alive."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
