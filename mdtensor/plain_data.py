"""Serialisation of dataclasses to JSON types and back, with type-checked fields.

What lies on disk may have been written by anybody: it becomes values here or nothing at all.
"""

from __future__ import annotations

import hashlib
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np

from mdtensor.errors import shown

T = TypeVar("T")

LARGEST = (1 << 63) - 1  # of numbers, by absolute value
MOST_ENTRIES = 1 << 16  # of a tuple


def data_of(value: object) -> Any:
    """Convert a value to JSON types: dataclasses to dicts, tuples to lists, dtypes to names.

    Raises ValueError for an element type that has no name.

    >>> from mdtensor.specs import TensorSpec
    >>> data_of(TensorSpec(np.dtype("f4"), (2, 3), (3, 1)))
    {'dtype': 'float32', 'shape': [2, 3], 'strides': [3, 1]}
    """
    if isinstance(value, tuple):
        return [data_of(entry) for entry in cast("tuple[object, ...]", value)]
    if isinstance(value, np.dtype):
        return _name_of(cast("np.dtype", value))
    if is_dataclass(value):
        return {field.name: data_of(getattr(value, field.name)) for field in fields(value)}
    return value


def value_of(kind: type[T], data: object) -> T:
    """Parse a dataclass from JSON types.

    Raises ValueError where a field is missing, unknown, of another type than its annotation says,
    a number beyond 64 bits or not finite, or a tuple of more than `MOST_ENTRIES`.

    >>> from mdtensor.specs import TensorSpec
    >>> value_of(TensorSpec, {"dtype": "float32", "shape": [2, 3], "strides": [3, 1]})
    float32[2, 3]
    >>> value_of(TensorSpec, {"dtype": "float32", "shape": [2, "3"], "strides": [3, 1]})
    Traceback (most recent call last):
      ...
    ValueError: shape: '3' is no int
    """
    if not isinstance(data, dict):
        raise ValueError(f"{shown(data)} is no {kind.__name__}")
    given, readers = cast("Mapping[str, object]", data), _readers(kind)
    if unknown := [name for name in given if name not in readers]:
        raise ValueError(f"a {kind.__name__} has no field {shown(unknown[0])}")
    values: dict[str, object] = {}
    for name, entry in given.items():
        try:
            values[name] = readers[name](entry)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(str(error)) from None


def digest_of(value: object) -> str:
    """A digest of a dataclass's compared fields, stable across processes.

    >>> from mdtensor.specs import TensorSpec
    >>> digest_of(TensorSpec(np.dtype("f4"), (2, 3), (3, 1)))[:16]
    '74007ad336b69018'

    Raises TypeError for what consists of anything but dataclasses, tuples, element types, numbers
    and texts.
    """
    lines: list[str] = []  # of dataclasses, after those that they consist of
    known: dict[int, str] = {}  # their numbers, since several share one

    def text_of(value: object) -> str:
        if isinstance(value, tuple):
            return f"({','.join([text_of(each) for each in cast('tuple[object, ...]', value)])})"
        return known.get(id(value)) or _text_of_scalar(value)

    waiting = [value]  # instead of recursion, since expressions are deep
    while waiting:
        each = waiting[-1]
        if (names := _compared(type(each))) is None:
            raise TypeError(f"{shown(each)} has no digest")
        parts = [getattr(each, name) for name in names]
        missing = [part for part in _dataclasses_in(tuple(parts)) if id(part) not in known]
        waiting += reversed(missing)
        if not missing:
            waiting.pop()
            if id(each) not in known:
                lines.append(f"{type(each).__name__} {' '.join(map(text_of, parts))}")
                known[id(each)] = f"#{len(lines)}"
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _dataclasses_in(value: object) -> Iterator[object]:
    """The dataclass itself, or the dataclasses in a nested tuple."""
    if isinstance(value, tuple):
        for each in cast("tuple[object, ...]", value):
            yield from _dataclasses_in(each)
    elif _compared(type(value)) is not None:
        yield value


@cache
def _compared(kind: type) -> tuple[str, ...] | None:
    """Names of the fields that `==` compares; None for types that are no dataclass."""
    if not is_dataclass(kind):
        return None
    return tuple(field.name for field in fields(kind) if field.compare)


def _text_of_scalar(value: object) -> str:
    if isinstance(value, (bool, int, float, complex, str, np.generic, type(None))):
        return f"{type(cast('object', value)).__name__} {value!r}"
    if isinstance(value, np.dtype):
        dtype = cast("np.dtype", value)
        return f"{dtype.str} {dtype.name}" if dtype.fields is None else repr(dtype)
    raise TypeError(f"{shown(value)} has no digest")


Reader = Callable[[object], object]


@cache
def _readers(kind: type) -> dict[str, Reader]:
    """The parsers of a dataclass's fields, by name."""
    each = [field for field in fields(kind) if field.init]
    return {field.name: _reader_of_annotation(kind.__module__, field.type) for field in each}


@cache
def _reader_of_annotation(module: str, annotation: Any) -> Reader:
    """The parser for an annotation of a module, which may be a string; memoised."""
    types_there = vars(sys.modules[module])
    return _reader(eval(annotation, types_there) if isinstance(annotation, str) else annotation)


def _reader(kind: Any) -> Reader:
    """The parser for a type."""
    if kind is np.dtype:
        return _dtype
    if is_dataclass(kind):
        return lambda data: value_of(cast("type[Any]", kind), data)
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        return _reader_of_tuple(arguments)
    if isinstance(kind, types.UnionType) and arguments[1:] == (type(None),):
        return _or_none(_reader(arguments[0]))
    return _reader_of_scalar(cast("type", kind))


def _reader_of_scalar(kind: type) -> Reader:
    def read(data: object) -> object:
        # A bool is an int to isinstance.
        if type(data) is not kind:
            raise ValueError(f"{shown(data)} is no {kind.__name__}")
        if kind in (int, float) and not abs(cast("float", data)) <= LARGEST:
            raise ValueError(f"{shown(data)} is too large")
        return data

    return read


def _reader_of_tuple(arguments: tuple[Any, ...]) -> Reader:
    is_open = len(arguments) == 2 and arguments[1] is ...
    readers = [_reader(kind) for kind in (arguments[:1] if is_open else arguments)]

    def read(data: object) -> object:
        if not isinstance(data, list):
            raise ValueError(f"{shown(data)} is no list")
        entries = cast("list[object]", data)
        if len(entries) > MOST_ENTRIES or not (is_open or len(entries) == len(readers)):
            raise ValueError(f"a list of {len(entries)}")
        each = readers * len(entries) if is_open else readers
        return tuple([reader(entry) for reader, entry in zip(each, entries, strict=True)])

    return read


def _or_none(reader: Reader) -> Reader:
    return lambda data: None if data is None else reader(data)


def _dtype(data: object) -> np.dtype:
    if not isinstance(data, str) or len(data) > 32:
        raise ValueError(f"{shown(data)} is no element type")
    try:
        found = np.dtype(data)
    except (TypeError, ValueError, SyntaxError):
        raise ValueError(f"{shown(data)} is no element type") from None
    if _name_of(found) != data:
        raise ValueError(f"{shown(data)} is no element type")
    return found


def _name_of(dtype: np.dtype) -> str:
    """The name of an element type (bfloat16 has no other text); ValueError where it has none.

    Records have none, nor what lies in another order of bytes.
    """
    if dtype.fields is not None or not dtype.isnative:
        raise ValueError(f"{dtype} has no name")
    return dtype.name
